//! The scheduling class and niceness of the calling thread.
//!
//! A thread that polls alone on its core needs no class at all. A class helps when the core is
//! shared. `fifo` runs until it blocks, before every normal thread. So a busy loop in it starves
//! everything else on that core, including kernel threads. (By default, `sched_rt_runtime_us`, the
//! kernel takes back 5% of each second.) `idle` runs when no other thread wants the core: for
//! statistics and for closing files.
//!
//! Everything here applies to the calling thread, not to the process.
//!
//! Source: sched(7), sched_setscheduler(2), setpriority(2).

use std::{fmt, io};

use rustix::process::{getpriority_process, setpriority_process};

/// The scheduling class of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchedulingClass {
    /// The usual class, shared out by niceness (`SCHED_OTHER`).
    Normal,
    /// Real time, first in first out (`SCHED_FIFO`).
    Fifo {
        /// In `[1, 99]`; higher runs first. Above 50 it also goes before most interrupt threads.
        priority: u8,
    },
    /// Only when the core is otherwise idle (`SCHED_IDLE`).
    Idle,
}

impl fmt::Display for SchedulingClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Fifo { priority } => write!(f, "fifo {priority}"),
            Self::Idle => f.write_str("idle"),
        }
    }
}

/// Why a thread's class or niceness could not be set or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulingError {
    /// The number is out of range.
    #[error("{what} {value} is not in [{least}, {most}]")]
    OutOfRange {
        /// `fifo priority` or `nice`.
        what: &'static str,
        /// The value asked for.
        value: i32,
        /// The least allowed.
        least: i32,
        /// The most allowed.
        most: i32,
    },
    /// The process may not take the class.
    #[error("class {class}: not permitted; run as root, grant CAP_SYS_NICE, or raise `ulimit -r`")]
    ClassNotPermitted {
        /// The class asked for.
        class: SchedulingClass,
    },
    /// The niceness may not be lowered so far.
    #[error("nice {nice}: not permitted; run as root, grant CAP_SYS_NICE, or raise `ulimit -e`")]
    NiceNotPermitted {
        /// The niceness asked for.
        nice: i32,
    },
    /// The thread has a class that this module does not know.
    #[error("scheduling policy {policy} is not one of normal, fifo, idle")]
    UnknownClass {
        /// The kernel's number for it.
        policy: i32,
    },
    /// Any other system call that failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Returns the class of the calling thread.
///
/// # Errors
/// [`SchedulingError::UnknownClass`] for batch, round robin and deadline.
pub fn class() -> Result<SchedulingClass, SchedulingError> {
    // SAFETY: the call takes no pointer; 0 names the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy < 0 {
        return Err(system("sched_getscheduler"));
    }
    // This flag makes children of the thread start as normal. It does not matter here.
    match policy as i32 & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Ok(SchedulingClass::Normal),
        libc::SCHED_IDLE => Ok(SchedulingClass::Idle),
        libc::SCHED_FIFO => Ok(SchedulingClass::Fifo { priority: priority()? }),
        policy => Err(SchedulingError::UnknownClass { policy }),
    }
}

/// Puts the calling thread into `class`.
///
/// # Errors
/// - [`SchedulingError::OutOfRange`]: a fifo priority outside `[1, 99]`.
/// - [`SchedulingError::ClassNotPermitted`]: `CAP_SYS_NICE` is missing and `ulimit -r` is too low.
/// - [`SchedulingError::System`]: refused for another reason, for instance by a seccomp filter.
pub fn set_class(class: SchedulingClass) -> Result<(), SchedulingError> {
    let (policy, sched_priority) = match class {
        SchedulingClass::Normal => (libc::SCHED_OTHER, 0),
        SchedulingClass::Idle => (libc::SCHED_IDLE, 0),
        SchedulingClass::Fifo { priority } => (libc::SCHED_FIFO, i32::from(priority)),
    };
    if policy == libc::SCHED_FIFO && !(1..=99).contains(&sched_priority) {
        let (what, value) = ("fifo priority", sched_priority);
        return Err(SchedulingError::OutOfRange { what, value, least: 1, most: 99 });
    }
    // The kernel's struct sched_param is this one int. We make the system call directly because
    // musl's function of that name only fails.
    // SAFETY: the pointer is to a live int, which the kernel reads; 0 names the calling thread.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const sched_priority)
    };
    if result == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EPERM) => {
            Err(SchedulingError::ClassNotPermitted { class })
        }
        source => Err(SchedulingError::System { call: "sched_setscheduler", source }),
    }
}

/// Returns the niceness of the calling thread, in `[-20, 19]`; lower gets more of the core.
///
/// # Errors
/// [`SchedulingError::System`], which only a seccomp filter can cause.
pub fn nice() -> Result<i32, SchedulingError> {
    getpriority_process(None)
        .map_err(|error| SchedulingError::System { call: "getpriority", source: error.into() })
}

/// Sets the niceness of the calling thread.
///
/// # Errors
/// - [`SchedulingError::OutOfRange`]: outside `[-20, 19]`.
/// - [`SchedulingError::NiceNotPermitted`]: lower than now, without `CAP_SYS_NICE` or `ulimit -e`.
pub fn set_nice(nice: i32) -> Result<(), SchedulingError> {
    if !(-20..=19).contains(&nice) {
        return Err(SchedulingError::OutOfRange {
            what: "nice",
            value: nice,
            least: -20,
            most: 19,
        });
    }
    setpriority_process(None, nice).map_err(|error| match error {
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => {
            SchedulingError::NiceNotPermitted { nice }
        }
        other => SchedulingError::System { call: "setpriority", source: other.into() },
    })
}

fn priority() -> Result<u8, SchedulingError> {
    let mut sched_priority: i32 = 0;
    // SAFETY: the pointer is to a live int of the size of the kernel's struct sched_param, and
    // the kernel writes it before the call returns; 0 names the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut sched_priority) };
    match (result, u8::try_from(sched_priority)) {
        (0, Ok(priority)) => Ok(priority),
        _ => Err(system("sched_getparam")),
    }
}

fn system(call: &'static str) -> SchedulingError {
    SchedulingError::System { call, source: io::Error::last_os_error() }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Runs `work` on a new thread, so that no other test sees its class.
    fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_class_taken_is_the_class_told() {
        let taken = apart(|| -> Result<(), SchedulingError> {
            for class in [SchedulingClass::Fifo { priority: 2 }, SchedulingClass::Idle] {
                set_class(class)?;
                assert_eq!(self::class().unwrap(), class);
            }
            Ok(())
        });
        match taken {
            Ok(()) => {}
            Err(error @ SchedulingError::ClassNotPermitted { .. }) => burstline_skip::skip(error),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_higher_niceness_is_free_for_all() {
        apart(|| {
            let before = nice().unwrap();
            set_nice(19).unwrap();
            assert_eq!(nice().unwrap(), 19);
            assert!(before < 19, "the tests themselves run at nice {before}");
        });
    }

    #[test]
    fn numbers_out_of_range_are_refused_with_the_range() {
        let priority = set_class(SchedulingClass::Fifo { priority: 100 }).unwrap_err();
        assert_eq!(priority.to_string(), "fifo priority 100 is not in [1, 99]");
        assert_eq!(set_nice(20).unwrap_err().to_string(), "nice 20 is not in [-20, 19]");
    }

    #[test]
    fn without_permission_the_error_names_the_mend() {
        apart(|| {
            // Only this thread gives up root; the raw call, unlike setuid(3), allows that.
            // SAFETY: the call takes no pointer, and the thread ends with this closure.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            if result != 0 {
                eprintln!("note: already without root");
            }
            let error = set_class(SchedulingClass::Fifo { priority: 50 }).unwrap_err().to_string();
            assert!(error.starts_with("class fifo 50: not permitted"), "{error}");
            let error = set_nice(-5).unwrap_err().to_string();
            assert!(error.ends_with("raise `ulimit -e`"), "{error}");
        });
    }
}

//! Which cores a thread may run on.
//!
//! A worker is pinned to one core at its start and stays there. So its caches, its NUMA node and
//! its core's NIC queue are the same for its whole life. In a container or under `taskset` a
//! process may use fewer cores than the machine has, so plans begin from [`allowed_cores`].
//!
//! Text form of a set of cores: `0,2,4-7`, as in `taskset -c` and in the kernel's `cpulist` files.
//!
//! Source: sched_setaffinity(2); the kernel's lib/bitmap.c for the list format. Its `:used/total`
//! strides are not supported.

use std::{fmt, io};

use super::set::CoreSet;

/// A core (logical CPU), as Linux numbers them: the `3` of `/sys/devices/system/cpu/cpu3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u32);

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of cores that lists and masks can name: `[0, 8192)`. Linux supports no more: the
/// largest `NR_CPUS` of arch/x86/Kconfig.
pub const CORES_MAX: u32 = 8192;

/// Why a thread could not be pinned, or its cores could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AffinityError {
    /// The core is not among those that this process may use.
    #[error("this process may not use core {core}, only {allowed} (see taskset, cpuset)")]
    NotAllowed {
        /// The core asked for.
        core: CoreId,
        /// The cores that may be used, as a list.
        allowed: String,
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

/// Returns the cores that the calling thread may run on, ascending, at least one.
///
/// # Errors
/// [`AffinityError::System`].
pub fn allowed_cores() -> Result<Vec<CoreId>, AffinityError> {
    let set = CoreSet::of_this_thread();
    let set = set.map_err(|source| AffinityError::System { call: "sched_getaffinity", source })?;
    Ok(set.cores())
}

/// Pins the calling thread to `core`; it runs there when this returns.
///
/// # Errors
/// [`AffinityError::NotAllowed`] if the process may not use the core or the core does not exist.
pub fn pin_to(core: CoreId) -> Result<(), AffinityError> {
    set_of(&[core]).allow().map_err(|source| match source.raw_os_error() {
        Some(libc::EINVAL) => {
            let allowed = allowed_cores().map(|cores| format_cores(&cores)).unwrap_or_default();
            AffinityError::NotAllowed { core, allowed }
        }
        _ => AffinityError::System { call: "sched_setaffinity", source },
    })
}

/// Lets the calling thread run on any of `cores` that exist.
///
/// # Errors
/// [`AffinityError::System`] if the process may use none of them.
pub fn allow(cores: &[CoreId]) -> Result<(), AffinityError> {
    let allowed = set_of(cores).allow();
    allowed.map_err(|source| AffinityError::System { call: "sched_setaffinity", source })
}

/// Returns the set of those `cores` that can exist.
fn set_of(cores: &[CoreId]) -> CoreSet {
    let mut set = CoreSet::default();
    for &core in cores.iter().filter(|core| core.0 < CORES_MAX) {
        set.insert(core);
    }
    set
}

/// Returns the core that runs the calling thread now. An unpinned thread may move at any time.
/// Cost: about 20 ns, no system call (vDSO).
pub fn current_core() -> CoreId {
    // We use libc's call because rustix's dies under valgrind, which hides the vDSO.
    // SAFETY: it takes no argument and writes no memory.
    let core = unsafe { libc::sched_getcpu() };
    CoreId(core.try_into().unwrap_or(0)) // it fails only on kernels without the call (ENOSYS)
}

/// Why a text is not a list of cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreListError {
    /// The list is empty, or nothing is between two commas.
    #[error("core list `{list}`: item {position} is empty")]
    Empty {
        /// The whole list.
        list: String,
        /// Which item, counted from 1.
        position: usize,
    },
    /// An item is neither a number nor a range.
    #[error("core list `{list}`: `{item}` is neither a number nor a range such as 4-7")]
    NotANumber {
        /// The whole list.
        list: String,
        /// The item.
        item: String,
    },
    /// A range runs backwards.
    #[error("core list `{list}`: {first}-{last} runs backwards")]
    Backwards {
        /// The whole list.
        list: String,
        /// The number before the dash.
        first: u32,
        /// The number after the dash.
        last: u32,
    },
    /// A number is too large for Linux masks.
    #[error("core list `{list}`: core {core} is above {}", CORES_MAX - 1)]
    TooLarge {
        /// The whole list.
        list: String,
        /// The number.
        core: u32,
    },
    /// A core is named twice.
    #[error("core list `{list}`: core {core} is named twice")]
    Twice {
        /// The whole list.
        list: String,
        /// The core.
        core: CoreId,
    },
}

/// Parses a list of cores such as `0,2,4-7`. Keeps the order: the first core is the first worker's.
///
/// # Errors
/// [`CoreListError`] for the first invalid item.
pub fn parse_cores(list: &str) -> Result<Vec<CoreId>, CoreListError> {
    let (mut cores, mut named) = (Vec::new(), CoreSet::default());
    for (index, item) in list.trim().split(',').enumerate() {
        let item = item.trim();
        if item.is_empty() {
            return Err(CoreListError::Empty { list: list.to_owned(), position: index + 1 });
        }
        for number in parse_range(list, item)? {
            let core = CoreId(number);
            if !named.insert(core) {
                return Err(CoreListError::Twice { list: list.to_owned(), core });
            }
            cores.push(core);
        }
    }
    Ok(cores)
}

fn parse_range(list: &str, item: &str) -> Result<std::ops::RangeInclusive<u32>, CoreListError> {
    let not_a_number =
        || CoreListError::NotANumber { list: list.to_owned(), item: item.to_owned() };
    // Digits only: `u32::from_str` would also take a leading plus sign.
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u32>().map_err(|_| not_a_number()),
        false => Err(not_a_number()),
    };
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(CoreListError::Backwards { list: list.to_owned(), first, last });
    }
    if last >= CORES_MAX {
        return Err(CoreListError::TooLarge { list: list.to_owned(), core: last });
    }
    Ok(first..=last)
}

/// Formats cores as a list, with runs of neighbours as ranges: the inverse of [`parse_cores`].
pub fn format_cores(cores: &[CoreId]) -> String {
    let mut items: Vec<(u32, u32)> = Vec::new();
    for core in cores {
        match items.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(core.0) => *last = core.0,
            _ => items.push((core.0, core.0)),
        }
    }
    let text = items.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &str) -> Vec<u32> {
        parse_cores(list).unwrap().into_iter().map(|core| core.0).collect()
    }

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(numbers("0,2,4-7"), [0, 2, 4, 5, 6, 7]);
        assert_eq!(numbers(" 3, 1 \n"), [3, 1]);
        assert_eq!(format_cores(&parse_cores("0,2,4-7").unwrap()), "0,2,4-7");
        assert_eq!(format_cores(&[]), "");
        assert_eq!(numbers("1022-1025,8191"), [1022, 1023, 1024, 1025, 8191]);
    }

    #[test]
    fn wrong_lists_say_what_is_wrong() {
        let message = |list| parse_cores(list).unwrap_err().to_string();
        assert_eq!(message(""), "core list ``: item 1 is empty");
        assert_eq!(message("1,,2"), "core list `1,,2`: item 2 is empty");
        assert_eq!(message("7-4"), "core list `7-4`: 7-4 runs backwards");
        assert_eq!(
            message("0-4294967295"),
            "core list `0-4294967295`: core 4294967295 is above 8191"
        );
        assert_eq!(message("1,0-2"), "core list `1,0-2`: core 1 is named twice");
        for item in ["x", "+1", "-", "1-", "-1", "1-2-3", "99999999999"] {
            let wanted =
                format!("core list `{item}`: `{item}` is neither a number nor a range such as 4-7");
            assert!(message(item) == wanted || message(item).contains("is empty"), "{item}");
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_pinned_thread_runs_on_its_core_and_nowhere_else() {
        let all = allowed_cores().unwrap();
        for core in all.clone() {
            let all = all.clone();
            std::thread::spawn(move || {
                pin_to(core).unwrap();
                assert_eq!(current_core(), core);
                assert_eq!(allowed_cores().unwrap(), [core]);
                allow(&all).unwrap();
                assert_eq!(allowed_cores().unwrap(), all);
                assert!(allow(&[]).is_err());
            })
            .join()
            .unwrap();
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn a_core_that_is_not_there_is_refused_with_the_cores_that_are() {
        let allowed = format_cores(&allowed_cores().unwrap());
        for core in [CoreId(8191), CoreId(8192), CoreId(u32::MAX)] {
            let error = pin_to(core).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("this process may not use core {core}, only")),
                "{error}"
            );
            assert!(error.contains(&allowed), "{error}");
        }
    }
}

//! A host: a thread in its own network namespace.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::{fs, io, thread};

use burstline_sys::namespace;

use crate::{BedError, Program, program};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in its own network namespace, or [here](Self::here). It runs one job after the other.
///
/// Dropping it ends the thread and its programs.
pub struct Host {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    thread_id: u32,
}

/// The kernel's counters of an interface, in packets unless they are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Packets received.
    pub received: u64,
    /// Bytes received, without FCS.
    pub received_bytes: u64,
    /// Packets received, but dropped before any program got them.
    pub received_dropped: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets given to the device to be sent, and dropped there.
    pub sent_dropped: u64,
}

impl Host {
    /// Makes a host with only a loopback interface, which is up.
    ///
    /// # Errors
    /// - [`BedError::NotPermitted`]: neither root nor in a user namespace.
    /// - [`BedError::Missing`]: the program `ip` is not installed.
    pub fn new() -> Result<Self, BedError> {
        let host = Self::on_thread(|| enter().and_then(|()| thread_number()))?;
        host.command("ip", &["link", "set", "lo", "up"])?;
        Ok(host)
    }

    /// Makes a host in the caller's own network namespace, which stays: for programs on interfaces
    /// that are not made here.
    ///
    /// # Errors
    /// [`BedError::Namespace`]: the thread cannot be started.
    pub fn here() -> Result<Self, BedError> {
        Self::on_thread(thread_number)
    }

    fn on_thread(
        enter: impl FnOnce() -> Result<u32, BedError> + Send + 'static,
    ) -> Result<Self, BedError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (answer, born) = mpsc::channel();
        let builder = thread::Builder::new().name(program::HOST_THREAD.to_owned());
        let work = move || {
            let entered = enter();
            let is_there = entered.is_ok();
            if answer.send(entered).is_ok() && is_there {
                queue.into_iter().for_each(|job| job());
            }
        };
        let thread = builder.spawn(work).map_err(BedError::Namespace)?;
        let lost = || BedError::Namespace(io::Error::other("the host's thread died"));
        let thread_id = born.recv().map_err(|_| lost())??;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), thread_id })
    }

    /// Returns the thread's id, by which the namespace can be named.
    pub fn thread_id(&self) -> u32 {
        self.thread_id
    }

    /// Runs a job on the host's thread and waits for it.
    ///
    /// # Panics
    /// If the job panics.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, outcome) = mpsc::channel();
        let job = move || drop(answer.send(catch_unwind(AssertUnwindSafe(job))));
        let jobs = self.jobs.as_ref().expect("it is there until drop");
        jobs.send(Box::new(job)).expect("the thread lives until drop");
        match outcome.recv().expect("every job answers") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Runs a program on the host to its end and returns its output.
    ///
    /// # Errors
    /// [`BedError`] if it cannot be started, or fails.
    pub fn command(&self, name: &str, arguments: &[&str]) -> Result<String, BedError> {
        let mut command = program::command(name, arguments);
        let (command, output) = self.run(move || {
            let output = command.output();
            (command, output)
        });
        program::checked(name, &command, output)
    }

    /// Starts a program on the host. It is killed when it or the host is dropped.
    ///
    /// # Errors
    /// [`BedError`] if it cannot be started.
    pub fn start(
        &self,
        name: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Program, BedError> {
        let mut command = program::command(name, arguments);
        command.envs(environment.iter().copied());
        let child = self.run(move || program::start(&mut command));
        child.map_err(|error| program::not_started(name, error))
    }

    /// Returns the kernel's counters of an interface; zeros if there is none of that name.
    pub fn counts(&self, interface: &str) -> InterfaceCounts {
        let interface = interface.to_owned();
        let list = self.run(|| fs::read_to_string("/proc/thread-self/net/dev"));
        let list = list.unwrap_or_default();
        let mut lines = list.lines().filter_map(|line| line.split_once(':'));
        let Some((_, numbers)) = lines.find(|(name, _)| name.trim() == interface) else {
            return InterfaceCounts::default();
        };
        let numbers: Vec<u64> =
            numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        // Source: net/core/net-procfs.c, dev_seq_printf_stats.
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        InterfaceCounts {
            received: at(1),
            received_bytes: at(0),
            received_dropped: at(3),
            sent: at(9),
            sent_dropped: at(11),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // A job cannot panic: `run` catches it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Enters a new namespace, and disables IPv6 in it.
fn enter() -> Result<(), BedError> {
    namespace::enter_new_network().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => BedError::NotPermitted,
        _ => BedError::Namespace(error),
    })?;
    for which in ["all", "default"] {
        let switch = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        // A kernel without IPv6 has no such file.
        let _ = fs::write(switch, "1");
    }
    Ok(())
}

/// Returns the calling thread's id.
fn thread_number() -> Result<u32, BedError> {
    let link = fs::read_link("/proc/thread-self").map_err(BedError::Namespace)?;
    let number = link.file_name().and_then(|name| name.to_str()?.parse().ok());
    number.ok_or_else(|| BedError::Namespace(io::Error::other("no /proc/thread-self")))
}

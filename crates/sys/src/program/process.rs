//! A child process as a descriptor, so that a signal never reaches another process with its pid.
//!
//! Source: pidfd_open(2), Linux 5.3; pidfd_send_signal(2), Linux 5.1.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};

/// A process, valid even after it has ended.
#[derive(Debug)]
pub struct Process(OwnedFd);

/// Signals to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A request to end: SIGTERM.
    End,
    /// An immediate end: SIGKILL.
    Kill,
}

impl Process {
    /// Opens a child that has not been waited for yet. Takes a descriptor.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn of(child: &Child) -> io::Result<Self> {
        Ok(Self(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?))
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// The process has ended and was waited for, or runs as another user now.
    pub fn ask(&self, request: Request) -> io::Result<()> {
        let signal = match request {
            Request::End => Signal::TERM,
            Request::Kill => Signal::KILL,
        };
        Ok(pidfd_send_signal(&self.0, signal)?)
    }
}

/// Sends this process SIGTERM, as any other process would.
pub fn ask_self_to_end() {
    // A process may signal itself: kill(2).
    let _ = kill_process(getpid(), Signal::TERM);
}

/// Has the kernel continue this process when the thread that has started it ends, if it is stopped
/// then. Call it once privileges are dropped, which takes this back: prctl(2), `PR_SET_PDEATHSIG`.
///
/// # Errors
/// Errors from the kernel.
pub fn go_on_when_parent_ends() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::CONT))?)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_signal_reaches_the_child_and_after_its_end_nobody() {
        for (request, number) in [(Request::End, 15), (Request::Kill, 9)] {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            let process = Process::of(&child).unwrap();
            process.ask(request).unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(number));
            assert!(process.ask(request).is_err());
        }
    }
}

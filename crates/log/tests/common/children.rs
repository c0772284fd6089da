//! Starts a test's second process: this same program, running one ignored test, its role, with the
//! files of a seat open.

use std::env;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};

use burstline_log::{ReceivedFiles, RemoteSeat, Start};
use rustix::io::{FdFlags, fcntl_setfd};

/// The environment variable with the numbers of the files, of the seat, and of the window.
const FILES: &str = "BURSTLINE_TEST_FILES";

/// Starts the test `role` in a process that inherits the seat's files.
pub(crate) fn spawn(role: &str, seat: &RemoteSeat) -> Child {
    let files = seat.files();
    let clones = [files.packets, files.control, files.page].map(|file| {
        let clone = file.try_clone_to_owned().unwrap();
        fcntl_setfd(&clone, FdFlags::empty()).unwrap();
        clone
    });
    let [packets, control, page] = clones.each_ref().map(AsRawFd::as_raw_fd);
    let text = format!("{packets} {control} {page} {} {}", files.seat, files.window);
    Command::new(env::current_exe().unwrap())
        .args([role, "--exact", "--ignored", "--nocapture"])
        .env(FILES, text)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the inherited files. Call it once, in the started process.
pub(crate) fn inherited(start: Start) -> ReceivedFiles {
    let text = env::var(FILES).expect("started by another test");
    let numbers: Vec<RawFd> = text.split(' ').map(|word| word.parse().unwrap()).collect();
    // SAFETY: the parent left these three open for this process, and nothing else here owns them.
    let [packets, control, page] = [0, 1, 2].map(|at| unsafe { OwnedFd::from_raw_fd(numbers[at]) });
    let (seat, window) = (numbers[3] as usize, numbers[4] as usize);
    ReceivedFiles { packets, control, page, seat, window, start, part: None, verdicts: None }
}

//! Helpers for several of the log's tests.

use std::os::fd::BorrowedFd;

use burstline_log::{LogFiles, ReceivedFiles};

/// Returns the files of a seat as a process receives them over a socket.
pub(crate) fn received(files: LogFiles<'_>) -> ReceivedFiles {
    let own = |file: BorrowedFd<'_>| file.try_clone_to_owned().unwrap();
    ReceivedFiles {
        packets: own(files.packets),
        control: own(files.control),
        page: own(files.page),
        seat: files.seat,
        window: files.window,
        start: files.start,
        part: files.part,
        verdicts: files.verdicts.map(own),
    }
}

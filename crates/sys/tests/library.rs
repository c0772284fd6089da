//! Threads that a library started lose their capabilities. All threads of this process but the main
//! one do, so it has one test.

use std::io;
use std::sync::mpsc;
use std::thread;

use burstline_sys::privileges::{drop_of_libraries, effective, expect_library_threads};

#[test]
fn a_thread_that_only_waits_loses_its_capabilities() {
    if effective().unwrap() == 0 {
        return burstline_skip::skip("needs root");
    }
    let (ask, asked) = mpsc::channel();
    let waiting = thread::spawn(move || -> io::Result<u64> {
        asked.recv().map_err(io::Error::other)?;
        effective()
    });
    drop_of_libraries().unwrap();
    assert_ne!(effective().unwrap(), 0, "no library has threads");
    expect_library_threads();
    drop_of_libraries().unwrap();
    ask.send(()).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap(), 0);
    // There is no one left.
    drop_of_libraries().unwrap();
}

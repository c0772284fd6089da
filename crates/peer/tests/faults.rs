//! What a whole process has once: the table of mappings that a peer may cut, and the handler of
//! SIGBUS. Faults that are not the peer's are passed on; each is one of a process of its own, this
//! program started again.

use std::mem::zeroed;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::ptr;

use burstline_peer::{PeerMemory, PeerMemoryError};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// What the process does: `alone`, or `handled` by a handler that was there before ours.
const TRY: &str = "BURSTLINE_TEST_FAULT";
/// The exit code of that handler.
const HANDLED: i32 = 42;

fn file() -> OwnedFd {
    let file = memfd_create("peer-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 4096).unwrap();
    file
}

#[test]
fn a_table_that_is_full_refuses_and_has_room_when_one_goes() {
    let file = file();
    let map = || PeerMemory::map(file.as_fd(), 4096);
    let mut all: Vec<_> = (0..2048).map(|_| map().unwrap()).collect();
    assert!(matches!(map(), Err(PeerMemoryError::TooMany(2048))));
    all.pop();
    assert!(map().is_ok());
}

#[test]
fn a_fault_of_others_is_passed_on() {
    match std::env::var(TRY).as_deref() {
        Ok("handled") => {
            let handler = exit_at_fault as *const () as usize;
            // SAFETY: zeros are a valid structure, and the handler only ends the process.
            unsafe {
                let mut ours: libc::sigaction = zeroed();
                (ours.sa_sigaction, ours.sa_flags) = (handler, libc::SA_SIGINFO);
                assert_eq!(libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()), 0);
            }
            fault();
        }
        Ok(_) => {
            // Rust's own handler is there before ours, too.
            // SAFETY: the default is not a function.
            unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
            fault();
        }
        Err(_) => {
            assert_eq!(outcome("alone").signal(), Some(libc::SIGBUS));
            assert_eq!(outcome("handled").code(), Some(HANDLED));
        }
    }
}

fn outcome(how: &str) -> ExitStatus {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "a_fault_of_others_is_passed_on"]).env(TRY, how);
    program.output().unwrap().status
}

extern "C" fn exit_at_fault(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: it ends the process, and is allowed in a handler.
    unsafe { libc::_exit(HANDLED) }
}

/// Installs our handler, and then reads a page that its file no longer has and no peer cut.
fn fault() {
    let _ours = PeerMemory::map(file().as_fd(), 4096).unwrap();
    let (other, access) = (file(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { mmap(ptr::null_mut(), 4096, access, MapFlags::SHARED, &other, 0) };
    let start = start.unwrap().cast::<u8>();
    ftruncate(&other, 0).unwrap();
    // SAFETY: the page is mapped; reading it is a SIGBUS, which ends this process.
    unsafe { start.read_volatile() };
}

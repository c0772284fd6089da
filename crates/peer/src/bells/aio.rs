//! Rings an event through the completion of a read that the kernel executes.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};

/// The most completions that the kernel may keep before we fetch them.
const ENDS: usize = 128;

/// Source: include/uapi/linux/aio_abi.h.
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_FLAG_RESFD: u32 = 1;

/// `struct iocb` of aio_abi.h, for the byte order of the target.
#[repr(C)]
struct Request {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    flags_of_read: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `struct io_event` of aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct End {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// The process's context for asynchronous reads, and an empty file to read.
pub(super) struct Ringer {
    context: libc::c_ulong,
    file: OwnedFd,
}

static RINGER: OnceLock<Option<Ringer>> = OnceLock::new();

impl Ringer {
    /// Rings an event. Returns false if the kernel has no such calls, or does not allow them.
    pub(super) fn ring(event: BorrowedFd<'_>) -> bool {
        let ringer = RINGER.get_or_init(|| Self::open().ok());
        ringer.as_ref().is_some_and(|ringer| ringer.submit(event) || ringer.submit(event))
    }

    fn open() -> io::Result<Self> {
        let file = memfd_create("bells", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number to a live variable.
        match unsafe { libc::syscall(libc::SYS_io_setup, ENDS, &raw mut context) } {
            0 => Ok(Self { context, file }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Submits an empty read, which is complete when this returns. Returns false if the kernel
    /// refused because too many completions wait; these are then fetched.
    fn submit(&self, event: BorrowedFd<'_>) -> bool {
        // SAFETY: a plain structure, for which all zeros are valid.
        let mut request: Request = unsafe { zeroed() };
        request.opcode = IOCB_CMD_PREAD;
        request.file = self.file.as_raw_fd() as u32;
        request.flags = IOCB_FLAG_RESFD;
        request.event = event.as_raw_fd() as u32;
        let mut list = [&raw mut request];
        // SAFETY: one request that lives during the call. It reads 0 bytes of an empty file, so it
        // completes within the call and touches no memory.
        let sent =
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        if sent != 1 {
            self.take_ends();
        }
        sent == 1
    }

    #[cold]
    fn take_ends(&self) {
        let mut ends = [End { data: 0, request: 0, result: 0, result2: 0 }; ENDS];
        let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (most, room) = (ENDS as libc::c_long, ends.as_mut_ptr());
        loop {
            // SAFETY: there is room for the requested number of completions.
            let taken = unsafe {
                let least: libc::c_long = 0;
                let number = libc::SYS_io_getevents;
                libc::syscall(number, self.context, least, most, room, ptr::from_mut(&mut at_once))
            };
            if taken < most {
                return;
            }
        }
    }
}

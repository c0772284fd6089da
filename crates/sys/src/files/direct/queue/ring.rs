//! An io_uring that writes buffers, and can do nothing else.
//!
//! A filter of system calls does not see what is asked of a ring. So the ring is restricted before
//! its first use: whoever takes over the process cannot open, connect or send by it.
//!
//! Source: io_uring(7), io_uring_register(2), io_uring_enter(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::register::Restriction;
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

use super::AlignedBuffer;

/// `IORING_REGISTER_BUFFERS`. Source: include/uapi/linux/io_uring.h of Linux 6.18.
const REGISTER_BUFFERS: u8 = 0;

/// A completed write.
#[derive(Debug)]
pub(super) struct Done {
    /// The index of its buffer.
    pub(super) buffer: usize,
    /// How many bytes were written.
    pub(super) result: io::Result<usize>,
}

/// Submissions and completions.
pub(super) struct Ring {
    ring: IoUring,
    under_way: usize,
    is_registered: bool,
    /// Whether it goes back to the pool: see `pool`.
    is_kept: bool,
    /// The flag that keeps writes in order.
    order: Flags,
}

impl Ring {
    /// Creates a ring for up to `writes` writes at a time.
    ///
    /// # Errors
    /// Errors from the kernel: io_uring is missing, not permitted, or older than Linux 5.10.
    pub(super) fn new(writes: usize) -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().setup_r_disabled().build(writes as u32)?;
        // One kernel worker takes one write after the other, so the disk never waits in between.
        // Before Linux 5.15 each write waits until the completions of earlier ones were seen.
        let has_one_worker = ring.submitter().register_iowq_max_workers(&mut [1, 0]).is_ok();
        let order = if has_one_worker { Flags::ASYNC } else { Flags::IO_DRAIN };
        // Linux 5.10 and later.
        ring.submitter().register_restrictions(&mut [
            Restriction::sqe_op(opcode::Write::CODE),
            Restriction::sqe_op(opcode::WriteFixed::CODE),
            Restriction::sqe_flags_allowed(order.bits()),
            Restriction::register_op(REGISTER_BUFFERS),
        ])?;
        ring.submitter().register_enable_rings()?;
        Ok(Self { ring, under_way: 0, is_registered: false, is_kept: false, order })
    }

    /// The same ring, for the pool.
    pub(super) fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Registers these buffers with the kernel, once. Returns whether it worked. A kept ring has
    /// other buffers later, and is used where nothing may be registered.
    pub(super) fn register(&mut self, buffers: &[AlignedBuffer]) -> bool {
        if self.is_kept {
            return false;
        }
        let place = |buffer: &AlignedBuffer| libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: buffer.len(),
        };
        let places: Vec<libc::iovec> = buffers.iter().map(place).collect();
        // SAFETY: by B1 of `AlignedBuffer` each place is mapped memory. The kernel pins its pages,
        // so they outlive a buffer that is dropped; by Q1 none is dropped while under way.
        self.is_registered = unsafe { self.ring.submitter().register_buffers(&places) }.is_ok();
        self.is_registered
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Begins to write a buffer, whose index is `number`.
    pub(super) fn submit(
        &mut self,
        file: BorrowedFd<'_>,
        buffer: &AlignedBuffer,
        number: usize,
        offset: u64,
    ) -> io::Result<()> {
        let (start, bytes, file) =
            (buffer.as_ptr(), buffer.len() as u32, types::Fd(file.as_raw_fd()));
        let entry = match self.is_registered {
            true => {
                opcode::WriteFixed::new(file, start, bytes, number as u16).offset(offset).build()
            }
            false => opcode::Write::new(file, start, bytes).offset(offset).build(),
        };
        // In order: no write begins before the ones submitted earlier are done.
        let entry = entry.user_data(number as u64).flags(self.order);
        // SAFETY: by Q1 of `WriteQueue` the buffer is neither written nor freed until its
        // completion was seen. By Q3 the descriptor refers to this file until then.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::other("the submission queue is full"))?;
        self.under_way += 1;
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns a completed write, if there is one. Cost: a load.
    pub(super) fn next_done(&mut self) -> Option<Done> {
        let entry = self.ring.completion().next()?;
        self.under_way -= 1;
        let result = match entry.result() {
            code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
            count => Ok(count as usize),
        };
        Some(Done { buffer: entry.user_data() as usize, result })
    }

    /// Waits for a write that is under way; `None` if there is none.
    pub(super) fn wait(&mut self) -> io::Result<Option<Done>> {
        while self.under_way > 0 {
            if let Some(done) = self.next_done() {
                return Ok(Some(done));
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_ring_does_nothing_but_write() {
        let mut ring = match Ring::new(4) {
            Ok(ring) => ring.ring,
            Err(error) => return burstline_skip::skip(format!("io_uring_setup: {error}")),
        };
        let path = c"/dev/null";
        let here = types::Fd(libc::AT_FDCWD);
        let family = (libc::AF_UNIX, libc::SOCK_STREAM);
        for (what, entry) in [
            ("open", opcode::OpenAt::new(here, path.as_ptr()).build()),
            ("socket", opcode::Socket::new(family.0, family.1, 0).build()),
            ("nothing", opcode::Nop::new().build()),
            (
                "linked",
                opcode::Write::new(types::Fd(-1), path.as_ptr().cast(), 1)
                    .build()
                    .flags(Flags::IO_LINK),
            ),
        ] {
            // SAFETY: the path is static, and nothing else is read.
            unsafe { ring.submission().push(&entry) }.unwrap();
            ring.submit_and_wait(1).unwrap();
            let refused = ring.completion().next().unwrap().result();
            assert_eq!(refused, -libc::EACCES, "{what}");
        }
        let more = ring.submitter().register_eventfd(0).unwrap_err();
        assert_eq!(more.raw_os_error(), Some(libc::EACCES));
    }
}

//! The common part of opening receiving and sending sockets.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use super::end::QueueEnd;
use super::{Copying, XdpError};

/// How long to retry a busy queue: a closed socket releases it some 80 ms later (measured).
const BUSY_PATIENCE: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Entries of a ring that the kernel requires, and that is not used.
pub(super) const RING_MIN: u32 = 64;

const RING_MAX: u32 = 1 << 20;

/// How to attach a socket to its queue.
pub(super) struct Binding {
    pub(super) copying: Copying,
    pub(super) needs_wakeup: bool,
    pub(super) is_multi_buffer: bool,
}

/// Whether a ring may have this number of entries.
pub(super) fn is_ring(entries: u32) -> bool {
    entries.is_power_of_two() && (RING_MIN..=RING_MAX).contains(&entries)
}

/// Whether frames may have this number and size, with `tail_bytes` behind them.
pub(super) fn is_shape(frames: u32, frame_bytes: u32, tail_bytes: usize) -> bool {
    let bytes = u64::from(frames) * u64::from(frame_bytes) + tail_bytes as u64;
    matches!(frame_bytes, 2048 | 4096) && is_ring(frames) && bytes < 1 << 32
}

/// Binds a socket, and retries a busy queue. Falls back to one frame per packet if the kernel or
/// the driver does not support several. Returns whether they do.
pub(super) fn bind(end: &QueueEnd, wanted: &Binding) -> Result<bool, XdpError> {
    let (link, queue) = (&end.interface().link, end.queue());
    let name = || link.name.clone();
    let mut flags = match wanted.copying {
        Copying::Auto => 0,
        Copying::Copy => libc::XDP_COPY,
        Copying::Zero => libc::XDP_ZEROCOPY,
    };
    if wanted.needs_wakeup {
        flags |= libc::XDP_USE_NEED_WAKEUP;
    }
    if wanted.is_multi_buffer {
        flags |= libc::XDP_USE_SG;
    }
    let patience = Instant::now() + BUSY_PATIENCE;
    loop {
        let Err(error) = end.socket().bind(link.index, queue, flags, None) else {
            return Ok(flags & libc::XDP_USE_SG != 0);
        };
        match error.raw_os_error() {
            Some(libc::EBUSY) if Instant::now() < patience => thread::sleep(BUSY_PAUSE),
            Some(libc::EBUSY) => return Err(XdpError::Busy { interface: name(), queue }),
            Some(libc::EINVAL | libc::EOPNOTSUPP) if flags & libc::XDP_USE_SG != 0 => {
                flags &= !libc::XDP_USE_SG;
            }
            Some(libc::EOPNOTSUPP | libc::EINVAL) if wanted.copying == Copying::Zero => {
                return Err(XdpError::NoZeroCopy { interface: name() });
            }
            _ => return Err(XdpError::system(&link.name, "binding an XDP socket")(error)),
        }
    }
}

/// Binds a socket to its queue with the frames of `owner`, which is bound, and in the same mode.
/// Retries a busy queue.
pub(super) fn bind_shared(end: &QueueEnd, owner: BorrowedFd<'_>) -> Result<(), XdpError> {
    let (link, queue) = (&end.interface().link, end.queue());
    let name = || link.name.clone();
    let patience = Instant::now() + BUSY_PATIENCE;
    loop {
        let bound = end.socket().bind(link.index, queue, libc::XDP_SHARED_UMEM, Some(owner));
        let Err(error) = bound else { return Ok(()) };
        match error.raw_os_error() {
            Some(libc::EBUSY) if Instant::now() < patience => thread::sleep(BUSY_PAUSE),
            Some(libc::EBUSY) => return Err(XdpError::Busy { interface: name(), queue }),
            Some(libc::EOPNOTSUPP) => return Err(XdpError::NoZeroCopy { interface: name() }),
            _ => {
                let call = "binding an XDP socket to shared frames (Linux 5.10)";
                return Err(XdpError::system(&link.name, call)(error));
            }
        }
    }
}

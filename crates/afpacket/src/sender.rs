//! Sends raw frames.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use burstline_sys::interface::Interface;
use libc::{c_uint, iovec, mmsghdr};

use super::AfPacketError;
use super::socket::Socket;

/// The maximum number of frames per [`Sender::send`].
pub const SEND_MAX: usize = 64;

/// A packet socket that only sends.
pub struct Sender {
    socket: Socket,
    interface: Interface,
}

impl Sender {
    /// Opens an interface of the calling thread's network namespace to send from.
    ///
    /// `bypasses_queue`: frames go directly to the driver. That is faster, but captures on this
    /// interface do not see them.
    ///
    /// # Errors
    /// As [`Ring::open`](super::Ring::open).
    pub fn open(interface: &str, bypasses_queue: bool) -> Result<Self, AfPacketError> {
        let fail = |call| AfPacketError::system(interface, call);
        let socket = Socket::new().map_err(fail("socket(AF_PACKET)"))?;
        let found = Interface::find(&socket, interface)?;
        socket
            .set(libc::PACKET_QDISC_BYPASS, &i32::from(bypasses_queue))
            .map_err(fail("PACKET_QDISC_BYPASS"))?;
        socket.bind(found.index, 0).map_err(fail("attaching a packet socket"))?;
        Ok(Self { socket, interface: found })
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Sends the first [`SEND_MAX`] of these frames, without FCS, and returns how many the device
    /// took: 0 if its queue is full. Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel for the first frame: `EMSGSIZE` if too long, `ENETDOWN`, `ENXIO`.
    pub fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        let frames = &frames[..frames.len().min(SEND_MAX)];
        // SAFETY: structs of integers and pointers may be all zeros.
        let (mut parts, mut messages): ([iovec; SEND_MAX], [mmsghdr; SEND_MAX]) =
            unsafe { (zeroed(), zeroed()) };
        for ((frame, part), message) in frames.iter().zip(&mut parts).zip(&mut messages) {
            // Sending only reads the bytes.
            *part = iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_iov = ptr::from_mut(part);
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, first, count) =
            (self.socket.as_fd().as_raw_fd(), messages.as_mut_ptr(), frames.len() as c_uint);
        // SAFETY: `count` messages are filled in, each with one part that points to a live frame;
        // all of them outlive the call.
        let sent = unsafe { libc::sendmmsg(fd, first, count, libc::MSG_DONTWAIT as _) };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => Ok(0),
            _ => Err(error),
        }
    }
}

impl AsFd for Sender {
    /// Writable when the device accepts frames.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

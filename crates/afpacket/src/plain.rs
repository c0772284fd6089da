//! Receives without a ring, like simple programs: one system call takes some packets, and the
//! kernel copies each of them twice.
//!
//! Burstline does not receive this way; it is a baseline for comparison.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use burstline_sys::interface::Interface;
use libc::{c_int, c_uint, iovec, mmsghdr};

use super::AfPacketError;
use super::socket::Socket;

/// The maximum number of packets per call.
pub const MESSAGES: usize = 64;

/// Buffer size of a packet, in bytes.
const ROOM: usize = 2048;

/// `ETH_P_ALL`. Source: include/uapi/linux/if_ether.h.
const ALL: u16 = 3;

/// A packet socket without a ring.
pub struct PlainReceiver {
    socket: Socket,
    buffers: Box<[[u8; ROOM]]>,
}

impl PlainReceiver {
    /// Opens an interface of the calling thread's network namespace, with a kernel buffer of
    /// `bytes` for waiting packets. A packet of 60 bytes takes about 800 of them.
    ///
    /// # Errors
    /// As [`Ring::open`](super::Ring::open).
    pub fn open(interface: &str, bytes: u32) -> Result<Self, AfPacketError> {
        let fail = |call| AfPacketError::system(interface, call);
        let socket = Socket::new().map_err(fail("socket(AF_PACKET)"))?;
        let found = Interface::find(&socket, interface)?;
        socket.force_buffer(bytes as c_int).map_err(fail("SO_RCVBUFFORCE"))?;
        socket.bind(found.index, ALL).map_err(fail("attaching a packet socket"))?;
        Ok(Self { socket, buffers: vec![[0; ROOM]; MESSAGES].into_boxed_slice() })
    }

    /// Receives the waiting packets, at most [`MESSAGES`], and passes each to `each`. Returns their
    /// number, 0 if there are none. Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<usize> {
        // SAFETY: structs of integers and pointers may be all zeros.
        let (mut parts, mut messages): ([iovec; MESSAGES], [mmsghdr; MESSAGES]) =
            unsafe { (zeroed(), zeroed()) };
        for ((buffer, part), message) in self.buffers.iter_mut().zip(&mut parts).zip(&mut messages)
        {
            *part = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: ROOM };
            message.msg_hdr.msg_iov = ptr::from_mut(part);
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, first) = (self.socket.as_fd().as_raw_fd(), messages.as_mut_ptr());
        let (count, wait, flags) = (MESSAGES as c_uint, ptr::null_mut(), libc::MSG_DONTWAIT as _);
        // SAFETY: `count` messages are filled in, each with one part that points to a live buffer
        // of the given length; all of them outlive the call.
        let received = unsafe { libc::recvmmsg(fd, first, count, flags, wait) };
        let Ok(received) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        for (buffer, message) in self.buffers.iter().zip(&messages).take(received) {
            each(&buffer[..ROOM.min(message.msg_len as usize)]);
        }
        Ok(received)
    }

    /// Returns arrived packets and, of them, dropped ones, since the last call.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn statistics(&self) -> io::Result<(u64, u64)> {
        let counts = self.socket.statistics()?;
        Ok((u64::from(counts.tp_packets), u64::from(counts.tp_drops)))
    }
}

//! Queries an interface before an XDP socket is opened on it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use burstline_sys::device::receive_queues;
use burstline_sys::interface::{Interface, LinkState};
use burstline_sys::limits;
use burstline_sys::raw_socket::take_error;

use super::XdpError;
use super::system::RawSocket;

/// An interface and its receive queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpInterface {
    /// Its name, index, MTU and type.
    pub link: Interface,
    /// Receive queues in use, at least 1.
    pub queues: u32,
}

impl XdpInterface {
    /// Looks up an interface of the calling thread's network namespace. Needs no privilege.
    ///
    /// # Errors
    /// [`XdpError::Interface`], [`XdpError::System`].
    pub fn by_name(name: &str) -> Result<Self, XdpError> {
        let questions = Questions::new().map_err(XdpError::system(name, "socket(AF_UNIX)"))?;
        Self::find(&questions, name)
    }

    pub(super) fn find(socket: &Questions, name: &str) -> Result<Self, XdpError> {
        let link = Interface::find(socket, name)?;
        // A driver that cannot report it has one.
        let queues = receive_queues(socket, name).unwrap_or(1).max(1);
        Ok(Self { link, queues })
    }
}

/// A socket for interface queries in the namespace it was made in: XDP sockets do not support them.
pub(super) struct Questions(UnixDatagram);

impl Questions {
    pub(super) fn new() -> io::Result<Self> {
        UnixDatagram::unbound().map(Self)
    }
}

impl AsFd for Questions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Queries the state of an XDP socket's interface. Clears the socket's pending error.
pub(super) fn link_state(
    socket: &RawSocket,
    questions: &Questions,
    index: u32,
) -> io::Result<LinkState> {
    match take_error(socket)?.and_then(|error| error.raw_os_error()) {
        // The kernel reports this once, when the interface is deleted and the socket is unbound.
        Some(libc::ENETDOWN) => Ok(LinkState::Gone),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => LinkState::of(questions, index),
    }
}

/// Returns the limit on pinned memory, as text.
pub(super) fn locked_limit() -> String {
    match limits::locked_memory_bytes() {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "unlimited".to_owned(),
    }
}

//! What has to be known of an interface before an XDP socket is opened on it.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::ptr;

use super::XdpError;
use super::system::RawSocket;
use crate::afpacket::{Interface, LinkState, present_interfaces};
use crate::device::ethtool;
use crate::limits;

/// Source: include/uapi/linux/ethtool.h.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Source: `struct ethtool_channels`, include/uapi/linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// An interface, and its receive queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpInterface {
    /// Its name, number, MTU and type.
    pub link: Interface,
    /// Receive queues in use, at least 1.
    pub queues: u32,
}

impl XdpInterface {
    /// Looks up an interface of the calling thread's network namespace. Needs no privilege.
    ///
    /// # Errors
    /// [`XdpError::NoSuchInterface`], [`XdpError::System`].
    pub fn by_name(name: &str) -> Result<Self, XdpError> {
        let questions = Questions::new().map_err(XdpError::system(name, "socket(AF_UNIX)"))?;
        Self::find(&questions, name)
    }

    pub(super) fn find(socket: &Questions, name: &str) -> Result<Self, XdpError> {
        let link =
            Interface::by_name(socket, name).map_err(|source| match source.raw_os_error() {
                Some(libc::ENODEV) | None => XdpError::NoSuchInterface {
                    name: name.to_owned(),
                    present: present_interfaces().join(", "),
                },
                _ => XdpError::system(name, "asking for an interface")(source),
            })?;
        // A driver that cannot say has one.
        let queues = receive_queues(socket, name).unwrap_or(1).max(1);
        Ok(Self { link, queues })
    }
}

/// A socket to ask about interfaces with, those of the namespace it was made in: XDP sockets take
/// no such questions.
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

/// How the interface of an XDP socket is now. Takes the error away that the kernel leaves there.
pub(super) fn link_state(
    socket: &RawSocket,
    questions: &Questions,
    index: u32,
) -> io::Result<LinkState> {
    match socket.take_error()?.and_then(|error| error.raw_os_error()) {
        // The kernel says so once, when the interface is deleted and the socket unbound.
        Some(libc::ENETDOWN) => Ok(LinkState::Gone),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => state(questions, index),
    }
}

/// How the interface of this number is now.
fn state(socket: &Questions, index: u32) -> io::Result<LinkState> {
    match Interface::by_index(socket, index) {
        Ok(interface) => Ok(LinkState::Present(interface)),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(LinkState::Gone),
        Err(error) => Err(error),
    }
}

/// How much memory the process may pin, in words.
pub(super) fn locked_limit() -> String {
    match limits::locked_memory_bytes() {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "unlimited".to_owned(),
    }
}

fn receive_queues(socket: &Questions, name: &str) -> io::Result<u32> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: `struct ethtool_channels`, which this question fills in.
    unsafe { ethtool(socket, name, &mut channels) }?;
    Ok(channels.rx + channels.combined)
}

/// Every address of every interface in the calling thread's network namespace, with the
/// interface's name, also where the address has a label (`eth0:1`). Empty if they
/// cannot be read.
pub fn addresses() -> Vec<(String, IpAddr)> {
    let mut list = ptr::null_mut();
    // SAFETY: the call fills in `list`, or fails.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: a list that getifaddrs made: each entry is live until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the name is a C string of that list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        if let Some(address) = address_of(entry.ifa_addr) {
            let name = name.to_string_lossy();
            // A label begins with the name, and no name has a colon.
            let name = name.split(':').next().unwrap_or_default();
            found.push((name.to_owned(), address));
        }
    }
    // SAFETY: `list` is what getifaddrs returned, and nothing of it is used after this.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null, or an address that getifaddrs made, whose family says what it is.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: of this family it is a `sockaddr_in`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: of this family it is a `sockaddr_in6`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

//! The packet socket: all system calls on it.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use burstline_sys::filter::{FILTER_MAX, Instruction};
use burstline_sys::interface::LinkState;
use burstline_sys::option::{SocketOption, check, read_option, set_option};
use burstline_sys::raw_socket::{raw_socket, set_with_rights, take_error};
use libc::{c_int, sockaddr_ll, socklen_t};

use super::AfPacketError;

/// Opens a packet socket for a program that will start with fewer rights. It is not bound, and
/// stays open in programs that this process starts. They pass its number as
/// [`RingOptions::inherited`](super::RingOptions::inherited). Needs `CAP_NET_RAW`.
///
/// # Errors
/// Errors from the kernel.
pub fn socket_to_inherit() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) })?;
    // SAFETY: the descriptor is new, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket of family `AF_PACKET` that delivers whole frames.
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket that is not bound and takes no packets yet.
    pub(super) fn new() -> io::Result<Self> {
        raw_socket(libc::AF_PACKET).map(Self)
    }

    /// Copies descriptor number `number`, which the parent process left open: a raw packet socket
    /// that is not bound.
    ///
    /// # Errors
    /// `EBADF` if there is none, `EPROTOTYPE` if it is something else.
    fn inherited(number: RawFd) -> io::Result<Self> {
        // SAFETY: the call takes no pointer, and a wrong number is an error.
        let fd = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
        // SAFETY: the descriptor is new, and nothing else knows it.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let domain = socket.option(libc::SOL_SOCKET, libc::SO_DOMAIN)?;
        let kind = socket.option(libc::SOL_SOCKET, libc::SO_TYPE)?;
        let fits = (domain, kind) == (libc::AF_PACKET, libc::SOCK_RAW)
            && socket.address()?.sll_protocol == 0;
        fits.then_some(socket).ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTOTYPE))
    }

    /// Opens a socket for a ring on `interface`: a new one, or a copy of the inherited descriptor
    /// with the number `inherited`.
    ///
    /// # Errors
    /// See [`AfPacketError`].
    pub(super) fn for_ring(
        interface: &str,
        inherited: Option<RawFd>,
    ) -> Result<Self, AfPacketError> {
        match inherited {
            None => Self::new().map_err(AfPacketError::system(interface, "socket(AF_PACKET)")),
            Some(number) => Self::inherited(number)
                .map_err(|source| AfPacketError::BadInherited { number, source }),
        }
    }

    /// Binds the socket to an interface. `protocol` is an `ETH_P_` number; 0 to receive nothing.
    pub(super) fn bind(&self, interface_index: u32, protocol: u16) -> io::Result<()> {
        // SAFETY: a struct of integers may be all zeros.
        let mut address: sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface_index as c_int;
        let bytes = size_of::<sockaddr_ll>() as socklen_t;
        let address = (&raw const address).cast();
        // SAFETY: `address` is a live struct of `bytes` bytes, which the call reads.
        check(unsafe { libc::bind(self.0.as_raw_fd(), address, bytes) }).map(drop)
    }

    /// Returns the index of its interface: 0 for none, negative for a deleted one.
    pub(super) fn interface_index(&self) -> io::Result<c_int> {
        Ok(self.address()?.sll_ifindex)
    }

    fn address(&self) -> io::Result<sockaddr_ll> {
        // SAFETY: a struct of integers may be all zeros.
        let mut address: sockaddr_ll = unsafe { zeroed() };
        let mut bytes = size_of::<sockaddr_ll>() as socklen_t;
        let place = (&raw mut address).cast();
        // SAFETY: `place` has room for `bytes` bytes, which the call fills in.
        check(unsafe { libc::getsockname(self.0.as_raw_fd(), place, &raw mut bytes) })?;
        Ok(address)
    }

    /// Sets an option of level `SOL_PACKET`.
    ///
    /// `T` is the plain struct that the kernel expects for this option, or an integer.
    pub(super) fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        self.set_at(libc::SOL_PACKET, option, value)
    }

    /// Makes its receive buffer as small as the kernel permits.
    pub(super) fn shrink_buffer(&self) -> io::Result<()> {
        self.set_at::<c_int>(libc::SOL_SOCKET, libc::SO_RCVBUF, &0)
    }

    /// Sets its receive buffer to `bytes`, beyond the limit for unprivileged processes.
    pub(super) fn force_buffer(&self, bytes: c_int) -> io::Result<()> {
        set_with_rights(&self.0, libc::SO_RCVBUFFORCE, bytes)
    }

    fn set_at<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let option = SocketOption { level, name: option };
        // SAFETY: the callers, all in this crate, pass what the kernel expects for the option. A
        // program's instructions are read during the call, in which they are borrowed.
        unsafe { set_option(self.0.as_raw_fd(), option, value) }
    }

    /// Reads an option of level `SOL_PACKET`. `PACKET_STATISTICS` is reset by reading.
    pub(super) fn statistics(&self) -> io::Result<libc::tpacket_stats_v3> {
        let mut value = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let option = SocketOption { level: libc::SOL_PACKET, name: libc::PACKET_STATISTICS };
        // SAFETY: the option is a struct of integers.
        unsafe { read_option(self.0.as_raw_fd(), option, &mut value) }?;
        Ok(value)
    }

    /// Queries the state of its interface, which has this index. Clears the pending error.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is down or gone.
    pub(super) fn link_state(&self, index: u32) -> io::Result<LinkState> {
        if let Some(error) = take_error(self)? {
            let code = error.raw_os_error();
            if !matches!(code, Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO)) {
                return Err(error);
            }
        }
        // Only the socket knows for certain: the index may have been reused by another interface.
        match self.interface_index()? == index as i32 {
            true => LinkState::of(self, index),
            false => Ok(LinkState::Gone),
        }
    }

    fn option(&self, level: c_int, name: c_int) -> io::Result<c_int> {
        let mut value: c_int = 0;
        // SAFETY: the option is an integer.
        unsafe { read_option(self.0.as_raw_fd(), SocketOption { level, name }, &mut value) }?;
        Ok(value)
    }

    /// Attaches `program` as the filter, in place of any other. Its length must be between 1 and
    /// `FILTER_MAX`.
    pub(super) fn attach_filter(&self, program: &[Instruction]) -> io::Result<()> {
        self.set_at(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &as_kernel_program(program))
    }

    pub(super) fn detach_filter(&self) -> io::Result<()> {
        self.set_at(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
    }

    /// Sets the program that distributes packets in a fanout group.
    pub(super) fn set_fanout_program(&self, program: &[Instruction]) -> io::Result<()> {
        self.set(libc::PACKET_FANOUT_DATA, &as_kernel_program(program))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the kernel's view of a program; it is valid as long as `program`.
fn as_kernel_program(program: &[Instruction]) -> libc::sock_fprog {
    assert!((1..=FILTER_MAX).contains(&program.len()), "{} instructions", program.len());
    libc::sock_fprog {
        len: program.len() as u16,
        // The kernel only reads it; both structs have the same layout, by the assertions beside
        // `Instruction`.
        filter: program.as_ptr().cast_mut().cast(),
    }
}

//! System calls on an XDP socket.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use burstline_sys::option::{SocketOption, check, read_option, set_option};
use burstline_sys::raw_socket::raw_socket;
use libc::{c_int, socklen_t};

/// A socket of family `AF_XDP`.
pub(super) struct RawSocket(OwnedFd);

const _: () = assert!(size_of::<libc::xdp_mmap_offsets>() == 128);
const _: () = assert!(size_of::<libc::xdp_statistics>() == 48);
const _: () = assert!(size_of::<libc::xdp_desc>() == 16);

impl RawSocket {
    pub(super) fn new() -> io::Result<Self> {
        raw_socket(libc::AF_XDP).map(Self)
    }

    /// Registers `bytes` bytes at `start` as frames.
    ///
    /// # Safety
    /// The bytes stay mapped until the socket is closed. Frames handed to the kernel through the
    /// fill ring are not accessed until they come back.
    pub(super) unsafe fn register_umem(
        &self,
        start: *mut u8,
        bytes: usize,
        frame_bytes: u32,
    ) -> io::Result<()> {
        // SAFETY: a struct of integers may be all zeros.
        let mut request: libc::xdp_umem_reg = unsafe { zeroed() };
        request.addr = start as u64;
        request.len = bytes as u64;
        request.chunk_size = frame_bytes;
        self.set(libc::XDP_UMEM_REG, &request)
    }

    /// Sets an option of level `SOL_XDP` to a plain struct or an integer.
    pub(super) fn set<T>(&self, option: c_int, value: &T) -> io::Result<()> {
        self.set_at(libc::SOL_XDP, option, value)
    }

    /// Sets an option of any level.
    pub(super) fn set_at<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let option = SocketOption { level, name: option };
        // SAFETY: the callers, all in this crate, pass what the kernel expects for the option;
        // `register_umem` has its caller's guarantee for the memory that it names.
        unsafe { set_option(self.0.as_raw_fd(), option, value) }
    }

    pub(super) fn offsets(&self) -> io::Result<libc::xdp_mmap_offsets> {
        // SAFETY: a struct of integers may be all zeros.
        let mut value = unsafe { zeroed() };
        self.get(libc::XDP_MMAP_OFFSETS, &mut value)?;
        Ok(value)
    }

    /// Reads the kernel's counters of the socket.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: a struct of integers may be all zeros.
        let mut value = unsafe { zeroed() };
        self.get(libc::XDP_STATISTICS, &mut value)?;
        Ok(value)
    }

    /// Returns whether the device writes into the UMEM directly. Known once the socket is bound.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        let mut value = libc::xdp_options { flags: 0 };
        self.get(libc::XDP_OPTIONS, &mut value)?;
        Ok(value.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Reads an option of level `SOL_XDP` into a plain struct.
    fn get<T>(&self, name: c_int, value: &mut T) -> io::Result<()> {
        let option = SocketOption { level: libc::SOL_XDP, name };
        // SAFETY: the callers, all above, pass structs of integers.
        unsafe { read_option(self.0.as_raw_fd(), option, value) }
    }

    /// Binds the socket to a queue of an interface. With `XDP_SHARED_UMEM`, and then no other flag,
    /// it uses the frames of the bound socket `owner`.
    pub(super) fn bind(
        &self,
        interface_index: u32,
        queue: u32,
        flags: u16,
        owner: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface_index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: owner.map_or(0, |owner| owner.as_raw_fd() as u32),
        };
        let bytes = size_of_val(&address) as socklen_t;
        // SAFETY: `address` is a live struct of `bytes` bytes, which the call reads.
        check(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), bytes) })
            .map(drop)
    }

    /// Tells the kernel to check the fill ring, and with busy polling to run the driver's loop.
    pub(super) fn kick_receive(&self) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let (nothing, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the call requests no bytes and no address.
        let got = unsafe {
            libc::recvfrom(fd, nothing, 0, libc::MSG_DONTWAIT, nowhere, std::ptr::null_mut())
        };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

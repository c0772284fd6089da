//! The calls that create a device and set it up.
//!
//! Source of the numbers: include/uapi/linux/if_tun.h.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use libc::{c_int, c_ulong};

use super::header::HEADER_BYTES;
use super::{TapError, TapOptions};
use crate::helper;
use crate::interface::{ask, request};
use crate::machine::program;
use crate::option::check;

const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETPERSIST: c_ulong = 0x4004_54cb;
const TUNSETOFFLOAD: c_ulong = 0x4004_54d0;
const TUNSETVNETHDRSZ: c_ulong = 0x4004_54d8;
const TUNGETIFF: c_ulong = 0x8004_54d2;

/// Checksums, and TCP segments of both IP versions with congestion marks.
const OFFLOADS: c_ulong = 1 | 2 | 4 | 8;
/// UDP segments of both IP versions: Linux 6.2.
const UDP_OFFLOADS: c_ulong = 0x20 | 0x40;

/// A setting of an interface that takes a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The depth of its queues, in packets.
    Depth = 1,
    /// Its MTU.
    Mtu = 2,
    /// Whether it is up; the value is 1.
    Up = 3,
}

impl Setting {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Depth, Self::Mtu, Self::Up].into_iter().find(|one| *one as u32 == number)
    }
}

fn driver() -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open("/dev/net/tun")
}

pub(super) fn open_driver() -> Result<File, TapError> {
    driver().map_err(|source| TapError::NoDriver { source })
}

/// Attaches a queue to a device, with flags of `TUNSETIFF`, in the calling thread's own name.
pub(crate) fn queue_directly(name: &str, flags: u32) -> io::Result<OwnedFd> {
    attach(driver()?, name, flags)
}

fn attach(file: File, name: &str, flags: u32) -> io::Result<OwnedFd> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = flags as i16;
    ask(&file, TUNSETIFF, &mut request)?;
    Ok(file.into())
}

/// Attaches a queue to the device. The first one creates the device.
pub(super) fn open_queue(name: &str, options: &TapOptions) -> Result<OwnedFd, TapError> {
    let queues = options.queues;
    let not_a_tap = || TapError::NotATap { name: name.to_owned(), queues };
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    flags |= if options.passes_offloads { libc::IFF_VNET_HDR } else { 0 };
    flags |= if queues > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
    let opened = match helper::needed_for_descriptors() {
        Some(helper) => helper.tap_queue(name, flags as u32),
        None => attach(open_driver()?, name, flags as u32),
    };
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => TapError::NotPermitted { program: program() },
        Some(libc::EBUSY) => TapError::Busy { name: name.to_owned() },
        // Without a number: the name cannot be one of an interface.
        Some(libc::EINVAL | libc::EEXIST | libc::E2BIG) | None => not_a_tap(),
        _ => TapError::system(name, "making a tap device")(error),
    })
}

/// Turns offloads on or off. A kernel without UDP segments still passes the others. Both settings
/// belong to the device, so one queue is enough.
pub(super) fn pass_offloads(queue: &OwnedFd, is_passing: bool) -> io::Result<()> {
    if !is_passing {
        return set(queue, TUNSETOFFLOAD, 0);
    }
    let (device, header_bytes) = (queue.as_raw_fd(), HEADER_BYTES as c_int);
    // SAFETY: the call reads an integer, which lives longer than it.
    check(unsafe { libc::ioctl(device, TUNSETVNETHDRSZ as _, &raw const header_bytes) })?;
    set(queue, TUNSETOFFLOAD, OFFLOADS | UDP_OFFLOADS)
        .or_else(|_| set(queue, TUNSETOFFLOAD, OFFLOADS))
}

pub(super) fn set_persistent(queue: &OwnedFd, is_persistent: bool) -> io::Result<()> {
    set(queue, TUNSETPERSIST, c_ulong::from(is_persistent))
}

/// Returns whether the descriptor is still attached to its device.
pub(super) fn is_attached(queue: &OwnedFd) -> io::Result<bool> {
    let mut request = request("")?;
    match ask(queue, TUNGETIFF, &mut request) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets the depth of the queues, and returns the resulting one. In a user namespace it stays the
/// same: the kernel requires CAP_NET_ADMIN of the machine. Source: `dev_ifsioc()` and
/// `dev_ioctl()`, net/core/dev_ioctl.c.
pub(super) fn set_depth(socket: impl AsFd, name: &str, depth: u32) -> io::Result<u32> {
    match set_interface(&socket, name, Setting::Depth, depth) {
        Ok(()) => Ok(depth),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mut request = request(name)?;
            ask(&socket, libc::SIOCGIFTXQLEN, &mut request)?;
            // SAFETY: the call above succeeded, so the kernel filled in this member.
            Ok(u32::try_from(unsafe { request.ifr_ifru.ifru_metric }).unwrap_or(0))
        }
        Err(error) => Err(error),
    }
}

pub(super) fn set_mtu(socket: impl AsFd, name: &str, mtu: u32) -> io::Result<()> {
    set_interface(socket, name, Setting::Mtu, mtu)
}

pub(super) fn take_up(socket: impl AsFd, name: &str) -> io::Result<()> {
    set_interface(socket, name, Setting::Up, 1)
}

fn set_interface(socket: impl AsFd, name: &str, setting: Setting, value: u32) -> io::Result<()> {
    match helper::needed_for_descriptors() {
        Some(helper) => helper.set_interface(name, setting as u32, value),
        None => set_directly(socket, name, setting, value),
    }
}

/// Changes a setting of an interface in the namespace of `socket`, in the calling thread's own
/// name.
pub(crate) fn set_directly(
    socket: impl AsFd,
    name: &str,
    setting: Setting,
    value: u32,
) -> io::Result<()> {
    let mut request = request(name)?;
    match setting {
        Setting::Depth => {
            // Any integer member of the union will do.
            request.ifr_ifru.ifru_metric = value as c_int;
            ask(&socket, libc::SIOCSIFTXQLEN, &mut request)
        }
        Setting::Mtu => {
            request.ifr_ifru.ifru_mtu = value as c_int;
            ask(&socket, libc::SIOCSIFMTU, &mut request)
        }
        Setting::Up => {
            ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
            // SAFETY: the call above succeeded, so the kernel filled in this member.
            let flags = unsafe { request.ifr_ifru.ifru_flags };
            request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
            ask(&socket, libc::SIOCSIFFLAGS, &mut request)
        }
    }
}

fn set(queue: &OwnedFd, what: c_ulong, value: c_ulong) -> io::Result<()> {
    // SAFETY: these calls take an integer and no pointer.
    check(unsafe { libc::ioctl(queue.as_raw_fd(), what as _, value) }).map(drop)
}

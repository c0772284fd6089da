//! Network interfaces and their addresses in a network namespace.
//!
//! `/sys/class/net` shows the namespace that it was mounted in, and `/proc/net` that of the
//! process's first thread. So we query through a socket, and read this thread's own list.
//!
//! Source: netdevice(7).

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::ptr;

use libc::{c_ulong, ifreq};

use crate::option::check;

/// Properties of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its current name.
    pub name: String,
    /// Its index, which stays the same after a rename.
    pub index: u32,
    /// The longest payload of a frame, in bytes, link header not counted.
    pub mtu: u32,
    /// The kind of its link header: an `ARPHRD_` number, 1 for Ethernet.
    pub hardware_type: u16,
    /// Whether it is administratively up.
    pub is_up: bool,
    /// Whether it is up and can send: it has a cable, and the other end is up.
    pub has_carrier: bool,
}

/// Why an interface lookup failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// No interface has this name.
    #[error("no interface '{name}'; there are: {present}")]
    NoSuchInterface {
        /// The requested name.
        name: String,
        /// The existing names.
        present: String,
    },
    /// A system call that failed.
    #[error("{interface}: {call}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The call, and what it was for.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl InterfaceError {
    fn system(interface: &str, call: &'static str) -> impl FnOnce(io::Error) -> Self {
        let interface = interface.to_owned();
        move |source| Self::System { interface, call, source }
    }
}

/// The state of a socket's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The interface exists, though it may be down or renamed.
    Present(Interface),
    /// The interface was deleted, or moved to another namespace: no packet will ever come.
    Gone,
}

impl Interface {
    /// Looks up an interface of the calling thread's network namespace. Needs no privilege.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        let fail = InterfaceError::system(name, "socket(AF_UNIX)");
        Self::find(UnixDatagram::unbound().map_err(fail)?, name)
    }

    /// Returns whether the MTU admits a frame: with an Ethernet header, plus 4 bytes for a VLAN
    /// tag.
    ///
    /// Source: net/packet/af_packet.c, `tpacket_snd`, `packet_extra_vlan_len_allowed`; we also
    /// grant the 4 bytes to service tags (IEEE 802.1ad).
    #[inline]
    pub fn admits(&self, frame: &[u8]) -> bool {
        let most = self.mtu as usize + 14;
        frame.len() <= most
            || (frame.len() <= most + 4 && matches!(frame[12..14], [0x81, 0] | [0x88, 0xa8]))
    }

    /// Looks up an interface by one of its names, in the namespace of `socket`. Any socket but an
    /// XDP socket will do. The kernel also accepts an alternative name, and a name with an
    /// address's label (`eth0:1`); [`name`](Self::name) is the interface's own name.
    ///
    /// # Errors
    /// Errors from the kernel. An error without a number: no interface has this name.
    pub fn by_name(socket: impl AsFd, name: &str) -> io::Result<Self> {
        let mut request = request(name)?;
        ask(&socket, libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: the call above succeeded, so the kernel filled in this member.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Self::by_index(socket, u32::try_from(index).unwrap_or(0))
    }

    /// Looks up an interface by its index, in the namespace of `socket`. Any socket but an XDP
    /// socket will do. Cost: five system calls.
    ///
    /// # Errors
    /// Errors from the kernel; `ENODEV` if there is no such interface.
    pub fn by_index(socket: impl AsFd, index: u32) -> io::Result<Self> {
        loop {
            let mut request = request("")?;
            request.ifr_ifru.ifru_ifindex = index as i32;
            ask(&socket, libc::SIOCGIFNAME, &mut request)?;
            match Self::of_request(&socket, request) {
                Ok(interface) if interface.index == index => return Ok(interface),
                Err(error) if error.raw_os_error() != Some(libc::ENODEV) => return Err(error),
                // It was renamed meanwhile: the next round finds its new name.
                _ => {}
            }
        }
    }

    /// Completes the interface whose own name is in the request.
    fn of_request(socket: impl AsFd, mut request: ifreq) -> io::Result<Self> {
        ask(&socket, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the call succeeded, so the kernel filled in this member.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        ask(&socket, libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the call succeeded, so the kernel filled in this member.
        let hardware_type = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the call succeeded, so the kernel filled in this member.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        ask(&socket, libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: the call succeeded, so the kernel filled in this member.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        let name = request.ifr_name.iter().take_while(|&&byte| byte != 0);
        let name: Vec<u8> = name.map(|&byte| byte as u8).collect();
        Ok(Self {
            name: String::from_utf8_lossy(&name).into_owned(),
            index: u32::try_from(index).unwrap_or(0),
            mtu: u32::try_from(mtu).unwrap_or(0),
            hardware_type,
            is_up: flags & libc::IFF_UP != 0,
            has_carrier: flags & libc::IFF_RUNNING != 0,
        })
    }

    /// Like [`by_name`](Self::by_name), with the existing names in the error if none matches.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn find(socket: impl AsFd, name: &str) -> Result<Self, InterfaceError> {
        Self::by_name(socket, name).map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV) | None => InterfaceError::NoSuchInterface {
                name: name.to_owned(),
                present: present_interfaces().join(", "),
            },
            _ => InterfaceError::system(name, "asking for an interface")(source),
        })
    }
}

impl LinkState {
    /// Queries the state of the interface with this index, in the namespace of `socket`. Any socket
    /// but an XDP socket will do. Cost: five system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is gone.
    pub fn of(socket: impl AsFd, index: u32) -> io::Result<Self> {
        match Interface::by_index(socket, index) {
            Ok(interface) => Ok(Self::Present(interface)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(Self::Gone),
            Err(error) => Err(error),
        }
    }
}

/// Returns the names of the interfaces in the calling thread's network namespace; empty if they
/// cannot be read.
pub fn present_interfaces() -> Vec<String> {
    let list = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = list.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Makes a request about an interface. An error without a number: none can have this name.
pub(crate) fn request(name: &str) -> io::Result<ifreq> {
    // SAFETY: a struct of integers, and unions of them, may be all zeros.
    let mut request: ifreq = unsafe { zeroed() };
    let place = &mut request.ifr_name[..libc::IFNAMSIZ - 1];
    if name.len() > place.len() || name.bytes().any(|byte| byte == 0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in place.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

/// Makes one ioctl with a `struct ifreq`: of netdevice(7), or to attach to or query a TAP device.
pub(crate) fn ask(socket: impl AsFd, question: c_ulong, request: &mut ifreq) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `request` is a live `struct ifreq`, which all calls made here and in `tap` read and
    // fill in.
    check(unsafe { libc::ioctl(fd, question as _, &raw mut *request) }).map(drop)
}

/// Returns every address of every interface in the calling thread's network namespace, with the
/// interface's name, also if the address has a label (`eth0:1`). Empty if they cannot be read.
pub fn addresses() -> Vec<(String, IpAddr)> {
    let mut list = ptr::null_mut();
    // SAFETY: the call fills in `list`, or fails.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: getifaddrs made this list: each entry is live until it is freed below.
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
    // SAFETY: `list` comes from getifaddrs, and nothing in it is used after this.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null, or an address that getifaddrs made; every family starts with this header.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::tap::tests::{in_namespace, ip};

    #[test]
    fn addresses_of_both_families_bear_the_name_of_their_interface() {
        in_namespace(|| {
            ip("link set lo up");
            ip("address add 10.9.9.9/24 dev lo label lo:login");
            ip("address add 2001:db8::7/64 dev lo nodad");
            let found = addresses();
            for address in ["127.0.0.1", "10.9.9.9", "2001:db8::7"] {
                let wanted = ("lo".to_owned(), address.parse().unwrap());
                assert!(found.contains(&wanted), "{address}: {found:?}");
            }
        });
    }
}

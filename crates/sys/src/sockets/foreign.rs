//! Sockets that a library opened in this process, and the packets that the kernel lost at them.
//!
//! ```text
//!   OpenSockets::now()          by their inode numbers
//!   the library opens some
//!   before.opened_since(interface)  ──► Foreign: queried now and then, never closed by us
//! ```
//!
//! Some drivers that use packet sockets or XDP sockets do not report packets lost at a full ring.
//! The kernel reports them to any holder of the descriptor. The library may close its sockets at
//! any time, and the next file gets the descriptor's number. So we query a descriptor only while it
//! is still the same socket.
//!
//! Source: packet(7), `PACKET_STATISTICS`; `XDP_STATISTICS` of include/uapi/linux/if_xdp.h.

use std::collections::BTreeSet;
use std::fs;
use std::mem::zeroed;
use std::os::fd::RawFd;
use std::path::Path;

use libc::{c_int, socklen_t};

use crate::folder;
use crate::option::{SocketOption, check, read_option};

/// The open sockets of a process, by their inode numbers.
#[derive(Clone, Debug, Default)]
pub struct OpenSockets(BTreeSet<u64>);

/// A socket that belongs to a library.
#[derive(Debug)]
pub struct Foreign {
    descriptor: RawFd,
    inode: u64,
    kind: Kind,
    /// Packets lost so far, as far as known.
    lost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Packet,
    Xdp,
}

impl OpenSockets {
    /// Returns the sockets open now; empty without `/proc`.
    pub fn now() -> Self {
        Self(sockets().map(|(_, inode)| inode).collect())
    }

    /// Returns new XDP sockets, and new packet sockets of `interface`. Packets they have lost
    /// already count, too.
    pub fn opened_since(&self, interface: u32) -> Vec<Foreign> {
        let new = sockets().filter(|(_, inode)| !self.0.contains(inode));
        let ours = new.filter_map(|(descriptor, inode)| {
            let kind = kind_of(descriptor, interface)?;
            let mut foreign = Foreign { descriptor, inode, kind, lost: 0 };
            foreign.learn().then_some(foreign)
        });
        ours.collect()
    }
}

impl Foreign {
    /// Returns the packets that did not fit into the socket's ring. After the socket is closed the
    /// number stays. Cost: two system calls.
    pub fn lost(&mut self) -> u64 {
        self.learn();
        self.lost
    }

    fn learn(&mut self) -> bool {
        if inode_of(self.descriptor) != Some(self.inode) {
            return false;
        }
        match self.kind {
            Kind::Packet => {
                // SAFETY: a struct of integers may be all zeros.
                let mut counts: libc::tpacket_stats = unsafe { zeroed() };
                let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
                let option = SocketOption { level, name };
                // SAFETY: a struct of integers.
                let is_told = unsafe { read_option(self.descriptor, option, &mut counts) }.is_ok();
                self.lost = self.kind.sum(self.lost, counts.tp_drops.into());
                is_told
            }
            Kind::Xdp => {
                // SAFETY: a struct of integers may be all zeros.
                let mut counts: libc::xdp_statistics = unsafe { zeroed() };
                let option = SocketOption { level: libc::SOL_XDP, name: libc::XDP_STATISTICS };
                // SAFETY: a struct of integers.
                let is_told = unsafe { read_option(self.descriptor, option, &mut counts) }.is_ok();
                self.lost = self.kind.sum(self.lost, counts.rx_ring_full);
                is_told
            }
        }
    }
}

impl Kind {
    /// Returns the packets lost, with a reading of the kernel's counter; 0 if it failed.
    fn sum(self, lost: u64, reading: u64) -> u64 {
        match self {
            // Reading resets the kernel's counter: a driver that reads it too has the other part.
            Self::Packet => lost + reading,
            // 64 bits, which nobody resets.
            Self::Xdp => lost.max(reading),
        }
    }
}

/// Returns the sockets listed in `/proc`: descriptors and inode numbers.
fn sockets() -> impl Iterator<Item = (RawFd, u64)> {
    let open = Path::new("/proc/self/fd");
    let names = folder::names(open).into_iter().flatten();
    names.filter_map(|name| {
        let target = fs::read_link(open.join(&name)).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((name.to_str()?.parse().ok()?, inode))
    })
}

fn inode_of(descriptor: RawFd) -> Option<u64> {
    // SAFETY: a struct of integers may be all zeros.
    let mut found: libc::stat = unsafe { zeroed() };
    // SAFETY: `found` has room for what the call fills in; any descriptor number is allowed.
    check(unsafe { libc::fstat(descriptor, &raw mut found) }).ok()?;
    Some(found.st_ino)
}

fn kind_of(descriptor: RawFd, interface: u32) -> Option<Kind> {
    let mut domain: c_int = 0;
    let option = SocketOption { level: libc::SOL_SOCKET, name: libc::SO_DOMAIN };
    // SAFETY: an integer.
    unsafe { read_option(descriptor, option, &mut domain) }.ok()?;
    match domain {
        libc::AF_XDP => Some(Kind::Xdp),
        libc::AF_PACKET => (bound_to(descriptor)? == interface).then_some(Kind::Packet),
        _ => None,
    }
}

/// Returns the interface of a packet socket.
fn bound_to(descriptor: RawFd) -> Option<u32> {
    // SAFETY: a struct of integers may be all zeros.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut bytes = size_of_val(&address) as socklen_t;
    let place = (&raw mut address).cast();
    // SAFETY: `place` has room for `bytes` bytes; the call fills in at most that many.
    check(unsafe { libc::getsockname(descriptor, place, &raw mut bytes) }).ok()?;
    u32::try_from(address.sll_ifindex).ok()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_socket_is_known_by_its_inode_and_others_are_not_asked() {
        let before = OpenSockets::now();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let inode = inode_of(descriptor).unwrap();
        assert!(!before.0.contains(&inode) && OpenSockets::now().0.contains(&inode));
        assert_eq!(kind_of(descriptor, 1), None);
        // The number now refers to another file, or to none.
        let mut foreign = Foreign { descriptor, inode: inode + 1, kind: Kind::Packet, lost: 7 };
        assert_eq!((foreign.learn(), foreign.lost()), (false, 7));
    }

    #[test]
    fn counts_that_a_reading_resets_add_up_and_others_do_not() {
        const MOST: u64 = u32::MAX as u64;
        let sum = |kind: Kind, readings: [u64; 4]| {
            readings.iter().fold(0, |lost, &reading| kind.sum(lost, reading))
        };
        assert_eq!(sum(Kind::Packet, [MOST, 0, MOST, 7]), 2 * MOST + 7);
        // The third reading failed.
        assert_eq!(sum(Kind::Xdp, [MOST, MOST + 3, 0, MOST + 5]), MOST + 5);
    }

    #[test]
    fn sockets_opened_since_are_found_with_what_they_lost() {
        use std::os::fd::{AsFd, AsRawFd};

        crate::tap::tests::in_namespace(|| {
            crate::tap::tests::ip("link set lo up");
            let before = OpenSockets::now();
            let packets = crate::raw_socket::raw_socket(libc::AF_PACKET).unwrap();
            let frames = crate::raw_socket::raw_socket(libc::AF_XDP).unwrap();
            let descriptors = [&packets, &frames].map(|socket| socket.as_fd().as_raw_fd());
            // Other tests of this process open sockets meanwhile, and close some below ours.
            let found = |interface: u32| -> Vec<_> {
                let mut mine = before.opened_since(interface);
                mine.retain(|foreign| descriptors.contains(&foreign.descriptor));
                mine.iter_mut().for_each(|foreign| assert_eq!(foreign.lost(), 0));
                descriptors.map(|d| mine.iter().find(|f| f.descriptor == d).map(|f| f.kind)).into()
            };
            // A packet socket that is not bound belongs to interface 0, an XDP socket to any.
            assert_eq!(found(0), [Some(Kind::Packet), Some(Kind::Xdp)]);
            assert_eq!(found(1), [None, Some(Kind::Xdp)]);
        });
    }
}

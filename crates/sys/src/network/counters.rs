//! The kernel's counters of an interface, found by its index.
//!
//! An interface keeps its index when it is renamed, and no other one has it meanwhile. A name may
//! belong to another interface a moment later, whose counters say nothing about the first.
//!
//! Source: rtnetlink(7); `struct rtnl_link_stats64`, include/uapi/linux/if_link.h.

use std::io;

use crate::netlink::{Line, find};

/// `struct ifinfomsg`: family, padding, type, index, flags, change.
const FIXED_BYTES: usize = 16;
const INDEX_AT: usize = 4;

/// Positions in `struct rtnl_link_stats64`, in words: rx_packets, tx_packets, rx and tx bytes, rx
/// and tx errors, rx_dropped, tx_dropped.
const SENT: usize = 1;
const SENT_DROPPED: usize = 7;

/// An interface whose counters can be read from any thread and network namespace.
#[derive(Debug)]
pub struct LinkCounters {
    line: Line,
    index: u32,
}

/// Counts of an interface since it was made, unless its driver restarts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkCounts {
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that it was to send, and dropped.
    pub sent_dropped: u64,
}

impl LinkCounters {
    /// Names the interface with this index in the calling thread's network namespace. It need not
    /// be there.
    ///
    /// # Errors
    /// Errors from the kernel, for instance that no descriptors are left.
    pub fn of(index: u32) -> io::Result<Self> {
        Ok(Self { line: Line::open(libc::NETLINK_ROUTE)?, index })
    }

    /// Returns the counts; `None` if the interface is gone, or in another namespace. Cost: two
    /// system calls, which wait while the kernel changes any interface.
    pub fn read(&self) -> Option<LinkCounts> {
        let mut question = [0; FIXED_BYTES];
        question[INDEX_AT..INDEX_AT + 4].copy_from_slice(&self.index.to_ne_bytes());
        let answer = self.line.ask(libc::RTM_GETLINK, &question).ok()?;
        let counts = find(answer.get(FIXED_BYTES..)?, |kind| kind == libc::IFLA_STATS64)?;
        let at = |word: usize| {
            let bytes = counts.get(word * 8..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        Some(LinkCounts { sent: at(SENT)?, sent_dropped: at(SENT_DROPPED)? })
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::namespace::interface_index;
    use crate::tap::tests::{in_namespace, ip};

    const SENT_PACKETS: u64 = 5;

    /// Makes a cable between two interfaces, and returns the first one's counters.
    fn cable(near: &str, far: &str) -> LinkCounters {
        ip(&format!("link add {near} type veth peer name {far}"));
        LinkCounters::of(interface_index(near).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn an_interface_keeps_its_counts_when_another_one_gets_its_name() {
        in_namespace(|| {
            let counters = cable("v0", "v1");
            for command in [
                "link set v0 up",
                "link set v1 up",
                "address add 10.9.8.1/24 dev v0",
                "neighbour add 10.9.8.2 lladdr 02:00:00:00:00:02 dev v0",
            ] {
                ip(command);
            }
            let sender = UdpSocket::bind("10.9.8.1:0").unwrap();
            for _ in 0..SENT_PACKETS {
                sender.send_to(b"counted", "10.9.8.2:9").unwrap();
            }
            let before = counters.read().unwrap();
            assert!(before.sent >= SENT_PACKETS, "{before:?}");
            ip("link set v0 down");
            ip("link set v0 name old");
            let other = cable("v0", "v2");
            assert_eq!(other.read().unwrap(), LinkCounts::default());
            // The kernel may have sent something of its own before it was down.
            assert!(counters.read().unwrap().sent >= before.sent);
            ip("link delete old");
            assert_eq!(counters.read(), None);
        });
    }
}

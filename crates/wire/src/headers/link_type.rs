//! Link types: the numbers of pcap and pcapng files.

/// Type of a packet's first header, by its number in pcap and pcapng files.
///
/// Source: <https://www.tcpdump.org/linktypes.html>, also for the layout of each link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: an address family of 4 bytes in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet: 14 bytes and VLAN tags.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6 without a link header, distinguished by the version nibble.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: an address family of 4 bytes in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture, version 1: 16 bytes.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4 without a link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without a link header.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2: 20 bytes.
    pub const LINUX_SLL2: Self = Self(276);

    /// Returns its name, if it is one of the usual ones.
    ///
    /// Source: the list of link-layer header types of tcpdump.org.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "BSD loopback",
            1 => "Ethernet",
            9 => "PPP",
            101 => "raw IP",
            105 => "IEEE 802.11",
            108 => "OpenBSD loopback",
            113 => "Linux cooked",
            127 => "IEEE 802.11 with radiotap",
            220 => "Linux USB",
            228 => "raw IPv4",
            229 => "raw IPv6",
            253 => "Netlink",
            276 => "Linux cooked, version 2",
            _ => return None,
        })
    }
}

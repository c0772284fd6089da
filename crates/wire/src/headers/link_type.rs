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
}

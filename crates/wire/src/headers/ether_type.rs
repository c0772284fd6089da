//! EtherTypes that the parser acts on. Source: IANA "IEEE 802 Numbers", IEEE 802.1Q.

/// IPv4.
pub const IPV4: u16 = 0x0800;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// 802.1Q customer tag.
pub const VLAN: u16 = 0x8100;
/// 802.1ad service tag.
pub const SERVICE_VLAN: u16 = 0x88a8;
/// The stacked tag that switches used before 802.1ad.
pub const OLD_STACKED_VLAN: u16 = 0x9100;

/// MPLS, RFC 3032 section 5 as RFC 5332 has it.
pub const MPLS: u16 = 0x8847;
/// MPLS with a label that upstream assigned, once "multicast", RFC 5332 section 3.
pub const MPLS_MULTICAST: u16 = 0x8848;
/// A PPPoE session, RFC 2516 section 4.
pub const PPPOE_SESSION: u16 = 0x8864;
/// A whole Ethernet frame, where a tunnel header has an EtherType. RFC 1701, RFC 8926 section 3.4.
pub const ETHERNET_BRIDGING: u16 = 0x6558;
/// ERSPAN types I and II in GRE, draft-foschiano-erspan-03 section 4.
pub const ERSPAN: u16 = 0x88be;
/// ERSPAN type III in GRE, draft-foschiano-erspan-03 section 4.
pub const ERSPAN_III: u16 = 0x22eb;

/// Largest value of the field that is an 802.3 length, in bytes. Source: IEEE 802.3, 3.2.6.
pub(super) const LENGTH_MAX: u16 = 1500;

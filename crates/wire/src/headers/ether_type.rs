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

/// Largest value of the field that is an 802.3 length, in bytes. Source: IEEE 802.3, 3.2.6.
pub(super) const LENGTH_MAX: u16 = 1500;

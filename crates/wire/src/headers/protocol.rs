//! IP protocol numbers that the parser acts on. Source: IANA "Protocol Numbers".

/// ICMP for IPv4, RFC 792.
pub const ICMP: u8 = 1;
/// IPv4 in IP, RFC 2003.
pub const IPV4: u8 = 4;
/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;
/// IPv6 in IP, RFC 2473, RFC 4213.
pub const IPV6: u8 = 41;
/// Generic routing encapsulation, RFC 2784.
pub const GRE: u8 = 47;
/// ICMP for IPv6, RFC 4443.
pub const ICMPV6: u8 = 58;
/// SCTP, RFC 9260.
pub const SCTP: u8 = 132;

/// IPv6 hop-by-hop options, RFC 8200 section 4.3.
pub const HOP_BY_HOP: u8 = 0;
/// IPv6 routing header, RFC 8200 section 4.4.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header, RFC 8200 section 4.5.
pub const FRAGMENT: u8 = 44;
/// Authentication header, RFC 4302.
pub const AUTHENTICATION: u8 = 51;
/// IPv6 destination options, RFC 8200 section 4.6.
pub const DESTINATION_OPTIONS: u8 = 60;
/// IPv6 mobility header, RFC 6275 section 6.1.
pub const MOBILITY: u8 = 135;

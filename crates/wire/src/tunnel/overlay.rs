//! VXLAN, VXLAN-GPE and Geneve: a frame and its network number in UDP.

use super::{Content, Cursor, announced};
use crate::headers::ether_type;

/// The network number is present, which is mandatory. Source: RFC 7348 section 5.
const VXLAN_HAS_NETWORK: u8 = 0x08;
/// Bits of the first byte. Source: draft-ietf-nvo3-vxlan-gpe-13 section 3.1.
const GPE_VERSION: u8 = 0x30;
const GPE_HAS_PROTOCOL: u8 = 0x04;
const GPE_IS_MANAGEMENT: u8 = 0x01;
/// Next protocols. Source: draft-ietf-nvo3-vxlan-gpe-13 section 3.1.
const GPE_IPV4: u8 = 1;
const GPE_IPV6: u8 = 2;
const GPE_ETHERNET: u8 = 3;
const GPE_MPLS: u8 = 5;
/// Bits of the first two bytes. Source: RFC 8926 section 3.4.
const GENEVE_VERSION: u8 = 0xc0;
const GENEVE_OPTION_WORDS: u8 = 0x3f;
const GENEVE_IS_CONTROL: u8 = 0x80;

/// Source: RFC 7348 section 5. Flags other than the network's are reserved, or a vendor's group
/// policy; the header is 8 bytes in any case.
pub(super) fn vxlan(at: &mut Cursor<'_>) -> Option<Content> {
    let [flags, ..] = at.take::<8>()?;
    (flags & VXLAN_HAS_NETWORK != 0).then_some(Content::Ethernet)
}

/// Source: draft-ietf-nvo3-vxlan-gpe-13 section 3.1. A management packet carries no traffic.
pub(super) fn vxlan_gpe(at: &mut Cursor<'_>) -> Option<Content> {
    let [flags, _, _, next, ..] = at.take::<8>()?;
    if flags & VXLAN_HAS_NETWORK == 0 || flags & (GPE_VERSION | GPE_IS_MANAGEMENT) != 0 {
        return None;
    }
    match next {
        // Same as plain VXLAN.
        _ if flags & GPE_HAS_PROTOCOL == 0 => Some(Content::Ethernet),
        GPE_IPV4 => Some(Content::Ipv4),
        GPE_IPV6 => Some(Content::Ipv6),
        GPE_ETHERNET => Some(Content::Ethernet),
        GPE_MPLS => announced(ether_type::MPLS, at),
        _ => None,
    }
}

/// Source: RFC 8926 section 3.4. A control packet carries no traffic.
///
/// The bit that marks critical options is for the end of the tunnel, which must understand them
/// (section 3.5). Here they are skipped by length like all others. A flow must not be split because
/// some of its packets have one.
pub(super) fn geneve(at: &mut Cursor<'_>) -> Option<Content> {
    let [version_and_length, flags, protocol @ .., _, _, _, _] = at.take::<8>()?;
    if version_and_length & GENEVE_VERSION != 0 || flags & GENEVE_IS_CONTROL != 0 {
        return None;
    }
    at.skip(usize::from(version_and_length & GENEVE_OPTION_WORDS) * 4)?;
    announced(u16::from_be_bytes(protocol), at)
}

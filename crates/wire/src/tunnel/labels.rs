//! MPLS label stacks and PPPoE sessions: headers between a link header and IP.
//!
//! A label stack does not say what it carries. As every router that balances load does, we guess by
//! the first nibble after it (RFC 4928 section 3, RFC 4385 section 3):
//!
//! | nibble | what it is | |
//! |---|---|---|
//! | 4, 6 | IPv4, IPv6 | |
//! | 0, and 12 zero bits | the control word of a pseudowire | Ethernet follows |
//! | 1 | the control channel of a pseudowire | not followed |
//! | other | the first address of a pseudowire without control word | Ethernet |
//!
//! A guess of Ethernet counts only if IP follows it, so that the payload of another kind of
//! pseudowire is not taken for addresses. An explicit null label at the bottom is not a guess.

use super::{Content, Cursor, announced};
use crate::headers::ether_type;

/// Labels that are followed in one stack. Real stacks have up to a handful.
pub const LABELS_MAX: usize = 16;

/// Bottom of stack, in the last byte but one. Source: RFC 3032 section 2.1.
const BOTTOM: u8 = 0x01;
/// Explicit null labels. Source: RFC 3032 section 2.1.
const EXPLICIT_NULL_IPV4: u32 = 0;
const EXPLICIT_NULL_IPV6: u32 = 2;
/// Bytes of a control word, and its first bytes for Ethernet. Source: RFC 4448 section 4.6.
const CONTROL_WORD_BYTES: usize = 4;
const CONTROL_WORD: [u8; 2] = [0, 0];

/// Version, type and code of a packet in a PPPoE session. Source: RFC 2516 sections 4 and 6.
const PPPOE_SESSION: [u8; 2] = [0x11, 0];
/// PPP protocols. Source: RFC 1332 section 2, RFC 5072 section 3, RFC 3032 section 4.3.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;

/// Reads a label stack.
pub(super) fn mpls(at: &mut Cursor<'_>) -> Option<Content> {
    let label = bottom_label(at)?;
    match (label, at.peek()?) {
        (EXPLICIT_NULL_IPV4, _) => Some(Content::Ipv4),
        (EXPLICIT_NULL_IPV6, _) => Some(Content::Ipv6),
        (_, CONTROL_WORD) => {
            at.skip(CONTROL_WORD_BYTES)?;
            Some(Content::PerhapsEthernet)
        }
        (_, [first, _]) => match first >> 4 {
            1 => None,
            4 => Some(Content::Ipv4),
            6 => Some(Content::Ipv6),
            _ => Some(Content::PerhapsEthernet),
        },
    }
}

/// Skips the label at the bottom of the stack and returns it, in `[0, 2^20)`.
///
/// Source: RFC 3032 section 2.1.
fn bottom_label(at: &mut Cursor<'_>) -> Option<u32> {
    for _ in 0..LABELS_MAX {
        let entry @ [_, _, flags, _] = at.take()?;
        if flags & BOTTOM != 0 {
            return Some(u32::from_be_bytes(entry) >> 12);
        }
    }
    None
}

/// Reads the header of a PPPoE session and the PPP protocol, which is not compressed there.
///
/// Source: RFC 2516 sections 4 and 7.
pub(super) fn pppoe(at: &mut Cursor<'_>) -> Option<Content> {
    let [version_and_type, code, _, _, length @ ..] = at.take::<6>()?;
    if [version_and_type, code] != PPPOE_SESSION {
        return None;
    }
    at.cut(usize::from(u16::from_be_bytes(length)));
    match u16::from_be_bytes(at.take()?) {
        PPP_IPV4 => Some(Content::Ipv4),
        PPP_IPV6 => Some(Content::Ipv6),
        PPP_MPLS => announced(ether_type::MPLS, at),
        _ => None,
    }
}

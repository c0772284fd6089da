//! GTP-U version 1: the traffic of mobile phones, in UDP.
//!
//! ```text
//! | flags | type | length | endpoint | sequence, N-PDU number, next | extensions | IP |
//! 0       1      2        4          8  if any of E, S, PN          12  if E
//! ```
//!
//! Source: 3GPP TS 29.281 section 5.

use super::{Content, Cursor};

/// Extension headers that are followed in one packet.
const EXTENSIONS_MAX: usize = 8;

/// Version 1 of GTP, not GTP'; in the upper four bits. Source: section 5.1.
const VERSION_AND_TYPE: u8 = 0b0011;
/// E, S and PN: any of them adds four bytes. Source: section 5.1.
const HAS_MORE: u8 = 0b111;
const HAS_EXTENSIONS: u8 = 0b100;
/// The message that carries a user's packet, G-PDU. Source: section 6.1.
const USER_PACKET: u8 = 255;

/// Reads the GTP-U header of a user's packet, which is always IP.
pub(super) fn gtp(at: &mut Cursor<'_>) -> Option<Content> {
    let [flags, message, length_high, length_low, ..] = at.take::<8>()?;
    if flags >> 4 != VERSION_AND_TYPE || message != USER_PACKET {
        return None;
    }
    at.cut(usize::from(u16::from_be_bytes([length_high, length_low])));
    if flags & HAS_MORE != 0 {
        let [_, _, _, next] = at.take()?;
        if flags & HAS_EXTENSIONS != 0 {
            extensions(at, next)?;
        }
    }
    Some(Content::Ip)
}

/// Skips the extension headers; the first has type `next`, and 0 ends them.
///
/// Each starts with its length in units of 4 bytes and ends with the type of the next one. Source:
/// section 5.2.1.
fn extensions(at: &mut Cursor<'_>, mut next: u8) -> Option<()> {
    for _ in 0..EXTENSIONS_MAX {
        if next == 0 {
            return Some(());
        }
        let [words] = at.peek()?;
        at.skip((usize::from(words) * 4).checked_sub(1)?)?;
        [next] = at.take()?;
    }
    (next == 0).then_some(())
}

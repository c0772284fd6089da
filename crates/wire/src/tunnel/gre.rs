//! GRE with all its optional fields, and ERSPAN's mirrored frames in it.
//!
//! ```text
//! | C R K S  version | protocol | checksum, offset | key | sequence | routing |
//! 0                  2          4  C or R            K     S          R
//! ```

use super::{Content, Cursor, Tunnel, announced};
use crate::headers::ether_type;

/// Flags of the first two bytes. Source: RFC 2784 section 2, RFC 2890 section 2, and for the
/// routing field, which RFC 2784 dropped, RFC 1701.
const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// The version nibbles, and bits of the last two bytes of a type III header.
/// Source: draft-foschiano-erspan-03 sections 4.2 and 4.3.
const ERSPAN_II: u8 = 1;
const ERSPAN_III: u8 = 2;
const FRAME_TYPE: u16 = 0x7c00;
const FRAME_TYPE_ETHERNET: u16 = 0;
const FRAME_TYPE_IP: u16 = 2 << 10;
const PLATFORM_SUBHEADER: u16 = 0x0001;
const PLATFORM_SUBHEADER_BYTES: usize = 8;

/// Reads a GRE header of version 0, and the ERSPAN header after it.
pub(super) fn gre(at: &mut Cursor<'_>) -> Option<(Tunnel, Content)> {
    let flags = u16::from_be_bytes(at.take()?);
    let protocol = u16::from_be_bytes(at.take()?);
    if flags & VERSION != 0 {
        return None;
    }
    for present in [CHECKSUM | ROUTING, KEY, SEQUENCE] {
        at.skip(if flags & present != 0 { 4 } else { 0 })?;
    }
    if flags & ROUTING != 0 {
        routing(at)?;
    }
    let content = match protocol {
        // Type I has no header and no sequence number, which distinguishes it from type II.
        ether_type::ERSPAN if flags & SEQUENCE == 0 => Content::Ethernet,
        ether_type::ERSPAN => erspan_ii(at)?,
        ether_type::ERSPAN_III => erspan_iii(at)?,
        _ => return Some((Tunnel::Gre, announced(protocol, at)?)),
    };
    Some((Tunnel::Erspan, content))
}

/// Skips the source routes, which end with an empty one. Source: RFC 1701.
fn routing(at: &mut Cursor<'_>) -> Option<()> {
    loop {
        let [family_high, family_low, _, length] = at.take()?;
        if [family_high, family_low, length] == [0; 3] {
            return Some(());
        }
        at.skip(usize::from(length))?;
    }
}

fn erspan_ii(at: &mut Cursor<'_>) -> Option<Content> {
    let [version, ..] = at.take::<8>()?;
    (version >> 4 == ERSPAN_II).then_some(Content::Ethernet)
}

fn erspan_iii(at: &mut Cursor<'_>) -> Option<Content> {
    let [version, .., high, low] = at.take::<12>()?;
    if version >> 4 != ERSPAN_III {
        return None;
    }
    let bits = u16::from_be_bytes([high, low]);
    if bits & PLATFORM_SUBHEADER != 0 {
        at.skip(PLATFORM_SUBHEADER_BYTES)?;
    }
    match bits & FRAME_TYPE {
        FRAME_TYPE_ETHERNET => Some(Content::Ethernet),
        FRAME_TYPE_IP => Some(Content::Ip),
        _ => None,
    }
}

//! Capture files: a decoder that finds packets in place, and encoders that write into lent buffers.
//!
//! Nothing here does I/O. A caller reads a file or a pipe into its own buffer and lends it to the
//! [`Decoder`], which returns [`Record`]s: the location of each packet in the buffer. An encoder
//! writes into a lent buffer and returns how many bytes it wrote.
//!
//! ```text
//!            chunk, lent by the caller                     what the decoder says
//!   | block | EPB ░░packet░░ | EPB ░░packet░░ | EP..   Packet(Record { offset, length, time })
//!   ^ position                                  ^      NeedMore { bytes }: keep this tail, read on
//! ```
//!
//! | format | read | written |
//! |---|---|---|
//! | pcap in us and ns, both byte orders, also "modified" records | yes | [`PcapNsEncoder`] |
//! | pcapng, several sections, both byte orders | yes | [`PcapngEncoder`] |
//! | segmented pcapng (`docs/format.md`), by blocks | yes | [`SegmentEncoder`] |
//! | a segment by its worklist | [`SegmentIndex`] | |
//!
//! A file is hostile input. These invariants hold for any bytes:
//!
//! - I1. No input panics. Every call makes progress: it moves `position` forward, or asks for more
//!   contiguous bytes than it got. Or it reports damage that earlier calls have skipped, refuses
//!   the file, or returns `End`, which is final.
//! - I2. The decoder never asks for more than [`MAX_NEED`] contiguous bytes. It never holds more
//!   than [`MAX_INTERFACES`] interface descriptions, each with at most [`MAX_NAME_BYTES`] bytes of
//!   name. The same holds for [`MAX_SECTIONS`] sections and [`MAX_TEXT_BYTES`] of a comment.
//! - I3. Malformed bytes are reported as [`Damage`], with offset and length, and decoding continues
//!   after them. The bytes delivered and skipped add up to the whole file.
//! - I4. A record is whole inside the chunk: `offset + captured_length <= chunk.len()`.
//! - I5. In a segmented section no packet is delivered as [`Trust::Checked`] before the checksum of
//!   its whole segment was verified. No byte of a packet can start a section.
//!
//! Not supported: growing files, decryption, decompression, and trust in a section length.
//!
//! Source: draft-ietf-opsawg-pcap (classic), draft-ietf-opsawg-pcapng (blocks and options).

mod ahead;
mod block_scan;
mod blocks;
mod chains;
mod classic;
mod decoder;
mod gaps;
mod interface;
mod kind;
mod layout;
mod options;
mod record;
mod resolution;
mod segment;
mod slots;
mod writing;

use writing::{description, encode, pcap_encoder, pcapng_encoder};

pub use ahead::{Landmark, SegmentAhead};
pub use decoder::Decoder;
pub use description::{InterfaceDescription, SectionDescription};
pub use encode::{EncodeError, PacketToWrite};
pub use interface::{Counters, Interface, Section};
pub use kind::{FileKind, FormatError};
pub use pcap_encoder::PcapNsEncoder;
pub use pcapng_encoder::PcapngEncoder;
pub use record::{Damage, DamageKind, Direction, LostPackets, PacketOptions, Record, Step, Trust};
pub use resolution::Resolution;
pub use segment::{
    LOSS_CAUSES, LossCause, PlainItem, PlainRun, Recorded, SegmentEncoder, SegmentEnd,
    SegmentError, SegmentIndex, Sketch, Trailer, WorkEntry,
};

/// The longest captured length that is accepted, in bytes.
///
/// Source: `MAXIMUM_SNAPLEN`, libpcap 1.10 `pcap-int.h`; Wireshark's
/// `WTAP_MAX_PACKET_SIZE_STANDARD`. A record longer than the snapshot length of its interface is
/// accepted up to this, as in Wireshark (libpcap cuts it to the snapshot length).
pub const MAX_CAPTURED: u32 = 262_144;

/// The longest block that is accepted, in bytes. Source: `MAX_BLOCK_SIZE`, Wireshark `pcapng.c`.
pub const MAX_BLOCK: u32 = 16 << 20;

/// The most contiguous bytes that [`Step::NeedMore`] asks for, except for segments and for blocks
/// that are not parsed. It has room for the longest block that is parsed, or for three of the
/// longest classic records and a header.
pub const USUAL_NEED: usize = 1 << 20;

/// The most contiguous bytes that [`Step::NeedMore`] ever asks for: a segment, which is checked
/// before any of its packets is delivered, or the longest block, whose end is checked.
pub const MAX_NEED: usize = 16 << 20;

const _: () = assert!(USUAL_NEED >= 3 * (24 + MAX_CAPTURED as usize) + 24);
const _: () = assert!(USUAL_NEED >= 2 * MAX_CONTIGUOUS as usize);
const _: () = assert!(MAX_NEED >= MAX_BLOCK as usize);

/// The longest block that is parsed, or found by a scan after damage.
pub(crate) const MAX_CONTIGUOUS: u32 = 512 << 10;

/// The most interface descriptions that a decoder keeps, over all sections of a file.
pub const MAX_INTERFACES: usize = 2048;

/// The longest interface name that is kept, in bytes; a longer one is truncated.
pub const MAX_NAME_BYTES: usize = 256;

/// The most descriptions of sections that a decoder keeps. Those that say the same are one.
pub const MAX_SECTIONS: usize = 16;

/// The longest comment of a section that is kept, in bytes; a longer one is truncated.
pub const MAX_TEXT_BYTES: usize = 4096;

/// Type of the block that closes a segment: in the local-use range, which other readers skip.
pub(crate) const CLOSING_BLOCK: u32 = 0x8000_0001;

/// Type of the block after the last segment of a compressed recording, also for local use. Only its
/// writer reads its contents; the decoder skips it. It has at most [`MAX_NEED`] bytes.
pub const TABLE_BLOCK: u32 = 0x8000_0002;

/// Block types. Source: draft-ietf-opsawg-pcapng, section 11.1.
pub(crate) mod block_type {
    pub(crate) const SECTION: u32 = 0x0A0D_0D0A;
    pub(crate) const INTERFACE: u32 = 1;
    pub(crate) const OBSOLETE_PACKET: u32 = 2;
    pub(crate) const SIMPLE_PACKET: u32 = 3;
    pub(crate) const NAME_RESOLUTION: u32 = 4;
    pub(crate) const STATISTICS: u32 = 5;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
    pub(crate) const DECRYPTION_SECRETS: u32 = 10;
    pub(crate) const CUSTOM: u32 = 0x0BAD;
    pub(crate) const CUSTOM_NO_COPY: u32 = 0x4000_0BAD;
}

/// The value after the length of a section header, in its writer's byte order.
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Reads the 32-bit word at `at`, swapped or not; 0 if it is out of bounds.
#[inline(always)]
pub(crate) fn word(bytes: &[u8], at: usize, swapped: bool) -> u32 {
    let Some(four) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { return 0 };
    order(u32::from_le_bytes(*four), swapped)
}

/// Reads the 16-bit half word at `at`, swapped or not; 0 if it is out of bounds.
#[inline]
pub(crate) fn half(bytes: &[u8], at: usize, swapped: bool) -> u16 {
    let Some(two) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { return 0 };
    if swapped { u16::from_be_bytes(*two) } else { u16::from_le_bytes(*two) }
}

/// Swaps a word if its writer had the other byte order.
#[inline(always)]
pub(crate) fn order(word: u32, swapped: bool) -> u32 {
    if swapped { word.swap_bytes() } else { word }
}

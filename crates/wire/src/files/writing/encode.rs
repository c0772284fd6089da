//! Writes packet blocks into lent bytes, always little-endian.

use thiserror::Error;

use crate::files::{Direction, block_type};

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct PacketToWrite<'a> {
    /// The captured bytes, without FCS.
    pub bytes: &'a [u8],
    /// Bytes that the packet had on the wire, without FCS.
    pub original_length: u32,
    /// Time in ns since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Number of its interface, in the order of their descriptions.
    pub interface: u32,
    /// Direction of the packet, if known.
    pub direction: Option<Direction>,
    /// Packets lost on its interface since the previous one; 0 is not written.
    pub drops_before: u64,
    /// Receive queue, if it should be in the file.
    pub queue: Option<u32>,
    /// Flow hash for the worklist of a segment; plain pcapng does not write it.
    pub hash: Option<u32>,
}

impl<'a> PacketToWrite<'a> {
    /// Creates a whole packet of interface 0 without options.
    pub fn new(bytes: &'a [u8], time_ns: u64) -> Self {
        PacketToWrite {
            bytes,
            original_length: bytes.len() as u32,
            time_ns,
            interface: 0,
            direction: None,
            drops_before: 0,
            queue: None,
            hash: None,
        }
    }

    #[inline]
    fn has_options(&self) -> bool {
        self.drops_before != 0 || self.direction.is_some() || self.queue.is_some()
    }

    /// Returns the bytes of its Enhanced Packet Block: a multiple of 4, below 2^32 if the packet
    /// is.
    #[inline]
    pub(crate) fn block_bytes(&self) -> usize {
        let bare = 32 + self.bytes.len().next_multiple_of(4);
        if self.has_options() { bare + self.options_bytes() } else { bare }
    }

    fn options_bytes(&self) -> usize {
        let four = usize::from(self.direction.is_some()) + usize::from(self.queue.is_some());
        8 * four + if self.drops_before != 0 { 12 } else { 0 } + 4
    }
}

/// Why something cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// libpcap refuses a file whose interfaces differ in link type.
    #[error(
        "link type {interface} differs from the file's {file}; --link-types split writes a file \
         for each"
    )]
    LinkDiffers {
        /// Link type of the file.
        file: u16,
        /// Link type of the interface.
        interface: u16,
    },
    /// The packet's interface has not been described.
    #[error("interface {interface} is not described: there are {described}")]
    UnknownInterface {
        /// Number of the interface.
        interface: u32,
        /// How many are described.
        described: u32,
    },
    /// The packet is longer than readers accept, or than an empty segment holds.
    #[error("packet of {captured} bytes is too long: {capacity} fit")]
    TooLong {
        /// Bytes of the packet.
        captured: usize,
        /// The most bytes that fit.
        capacity: usize,
    },
    /// A text is too long for its option.
    #[error("text of {length} bytes is too long: {limit} fit")]
    TextTooLong {
        /// Bytes of the text.
        length: usize,
        /// The most that fit.
        limit: usize,
    },
    /// The descriptions do not fit into the header segment.
    #[error("the header does not fit into a segment of {segment_bytes} bytes")]
    HeaderTooLong {
        /// Bytes of a segment.
        segment_bytes: usize,
    },
}

/// Writes the Enhanced Packet Block of a packet at the start of `out`.
///
/// Returns its bytes, or 0 if `out` has no room for them; then nothing is written.
#[inline]
pub(crate) fn write_packet(out: &mut [u8], packet: &PacketToWrite<'_>) -> usize {
    let length = packet.block_bytes();
    let Some(block) = out.get_mut(..length) else { return 0 };
    let captured = packet.bytes.len();
    let Some((head, rest)) = block.split_first_chunk_mut::<28>() else { return 0 };
    let words = [
        block_type::ENHANCED_PACKET,
        length as u32,
        packet.interface,
        (packet.time_ns >> 32) as u32,
        packet.time_ns as u32,
        captured as u32,
        packet.original_length,
    ];
    put_words(head, words);
    let Some((rest, trailing)) = rest.split_last_chunk_mut::<4>() else { return 0 };
    *trailing = (length as u32).to_le_bytes();
    let Some((data, behind)) = rest.split_at_mut_checked(captured) else { return 0 };
    data.copy_from_slice(packet.bytes);
    if !behind.is_empty() {
        finish_packet(behind, captured, packet);
    }
    length
}

/// Bytes of a block around a packet without options.
pub(crate) const PLAIN_BYTES: usize = 32;

/// Writes the block of a whole packet without options, which fills `block`.
#[inline(always)]
pub(crate) fn write_plain(block: &mut [u8], interface: u32, bytes: &[u8], time_ns: u64) {
    let (length, captured) = (block.len() as u32, bytes.len() as u32);
    let (high, low) = ((time_ns >> 32) as u32, time_ns as u32);
    let kind = block_type::ENHANCED_PACKET;
    let (head, rest) = block.split_at_mut(28);
    put_words(head, [kind, length, interface, high, low, captured, captured]);
    let (body, behind) = rest.split_at_mut(rest.len() - 4);
    // The last word has the padding, up to three bytes: cheaper than a call for the bytes alone.
    if let Some(last) = body.last_chunk_mut::<4>() {
        *last = [0; 4];
    }
    copy(&mut body[..bytes.len()], bytes);
    behind.copy_from_slice(&length.to_le_bytes());
}

/// Copies a packet. Most packets are short, and a call would cost more than the copy.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        16..=32 => copy_ends::<16>(to, from),
        33..=64 => copy_ends::<32>(to, from),
        65..=128 => copy_ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last N of up to 2 N bytes: in the middle they overlap.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
        *to = *from;
    }
}

/// Writes words one after the other; `place` has their size.
#[inline]
pub(crate) fn put_words<const N: usize>(place: &mut [u8], words: [u32; N]) {
    for (place, word) in place.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}

/// Writes the padding and the options after a packet.
#[inline]
fn finish_packet(behind: &mut [u8], captured: usize, packet: &PacketToWrite<'_>) {
    let padding = captured.next_multiple_of(4) - captured;
    behind[..padding].fill(0);
    if behind.len() > padding {
        write_options(&mut behind[padding..], packet);
    }
}

#[cold]
fn write_options(out: &mut [u8], packet: &PacketToWrite<'_>) {
    let mut put = Put::new(out);
    match packet.direction {
        Some(Direction::Inbound) => put.option(2, &1u32.to_le_bytes()),
        Some(Direction::Outbound) => put.option(2, &2u32.to_le_bytes()),
        None => {}
    }
    if packet.drops_before != 0 {
        put.option(4, &packet.drops_before.to_le_bytes());
    }
    if let Some(queue) = packet.queue {
        put.option(6, &queue.to_le_bytes());
    }
    put.bytes(&[0; 4]);
}

/// Writes fields one after the other; what does not fit is left out and remembered.
pub(crate) struct Put<'a> {
    out: &'a mut [u8],
    at: usize,
    fits: bool,
}

impl<'a> Put<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Put { out, at: 0, fits: true }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.at..self.at + bytes.len()) {
            Some(place) => place.copy_from_slice(bytes),
            None => self.fits = false,
        }
        self.at += bytes.len();
    }

    pub(crate) fn word(&mut self, word: u32) {
        self.bytes(&word.to_le_bytes());
    }

    /// Writes an option with its padding. `value` is shorter than 64 KiB: callers check texts.
    pub(crate) fn option(&mut self, code: u16, value: &[u8]) {
        self.bytes(&code.to_le_bytes());
        self.bytes(&(value.len() as u16).to_le_bytes());
        self.bytes(value);
        self.bytes(&[0; 3][..value.len().next_multiple_of(4) - value.len()]);
    }

    /// Writes a text option unless it is empty.
    pub(crate) fn text(&mut self, code: u16, text: &str) {
        if !text.is_empty() {
            self.option(code, text.as_bytes());
        }
    }

    /// Ends options and block: writes the length at both ends. Returns the bytes of the block, or 0
    /// if it did not fit.
    pub(crate) fn close(mut self) -> usize {
        self.bytes(&[0; 4]);
        let length = self.at as u32 + 4;
        self.word(length);
        if !self.fits {
            return 0;
        }
        self.out[4..8].copy_from_slice(&length.to_le_bytes());
        self.at
    }
}

//! Builds capture files by hand, byte by byte, and reads them back in chunks of any size.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use burstline_wire::files::{
    Damage, DamageKind, Decoder, FormatError, MAX_NEED, PacketOptions, Record, Step,
};

/// A byte order to write in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

pub(crate) const ORDERS: [Order; 2] = [Order::Little, Order::Big];

impl Order {
    pub(crate) fn u16(self, value: u16) -> [u8; 2] {
        if self == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }
    pub(crate) fn u32(self, value: u32) -> [u8; 4] {
        if self == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }
    pub(crate) fn u64(self, value: u64) -> [u8; 8] {
        if self == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }
    pub(crate) fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&word| self.u32(word)).collect()
    }
}

/// Returns the header of a classic file.
pub(crate) fn pcap_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    let mut file = order.u32(magic).to_vec();
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    file.extend(order.words(&[0, 0, 65_535, link]));
    file
}

pub(crate) fn pcap_record(
    order: Order,
    seconds: u32,
    fraction: u32,
    data: &[u8],
    wire: u32,
) -> Vec<u8> {
    let mut record = order.words(&[seconds, fraction, data.len() as u32, wire]);
    record.extend(data);
    record
}

pub(crate) fn block(order: Order, block_type: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = order.u32(12 + padded as u32);
    let mut block = [order.u32(block_type), length].concat();
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

pub(crate) fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [order.u16(code), order.u16(value.len() as u16)].concat();
    option.extend(value);
    option.resize(4 + value.len().next_multiple_of(4), 0);
    option
}

pub(crate) fn section(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1A2B_3C4D).to_vec();
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend([0xFF; 8]);
    block(order, 0x0A0D_0D0A, &body)
}

pub(crate) fn interface(order: Order, link: u16, snaplen: u32, options: &[Vec<u8>]) -> Vec<u8> {
    let mut body = [order.u16(link), [0; 2]].concat();
    body.extend(order.u32(snaplen));
    body.extend(options.concat());
    block(order, 1, &body)
}

pub(crate) fn enhanced(
    order: Order,
    interface: u32,
    ticks: u64,
    data: &[u8],
    wire: u32,
    options: &[Vec<u8>],
) -> Vec<u8> {
    let (high, low) = ((ticks >> 32) as u32, ticks as u32);
    let mut body = order.words(&[interface, high, low, data.len() as u32, wire]);
    body.extend(data);
    body.resize(20 + data.len().next_multiple_of(4), 0);
    body.extend(options.concat());
    block(order, 6, &body)
}

/// Returns a unique packet without consecutive small numbers.
pub(crate) fn payload(number: u32, length: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 24) as u8 | 0x80
    };
    (0..length).map(|_| next()).collect()
}

/// The result of decoding a whole file.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) packets: Vec<Packet>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) refused: Option<FormatError>,
    pub(crate) calls: usize,
    pub(crate) largest_need: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) original_length: u32,
    pub(crate) time_ns: u64,
    pub(crate) interface: u32,
    pub(crate) link: u16,
    pub(crate) options: Option<PacketOptions>,
    pub(crate) timed: bool,
}

/// Decodes a file that is lent in one piece.
pub(crate) fn decode(file: &[u8]) -> Decoded {
    decode_with(&mut Decoder::new(), file, usize::MAX)
}

/// Decodes a file in chunks of `chunk` bytes, and checks the contract of each step.
pub(crate) fn decode_with(decoder: &mut Decoder, file: &[u8], chunk: usize) -> Decoded {
    let mut decoded = Decoded::default();
    let (mut start, mut end, mut position) = (0, chunk.min(file.len()), 0);
    loop {
        let (lent, at_end) = (&file[start..end], end == file.len());
        let before = position;
        let step = decoder.next(lent, &mut position, at_end);
        assert!(position >= before && position <= lent.len(), "position {before} to {position}");
        assert_eq!(decoder.file_offset(), (start + position) as u64);
        decoded.calls += 1;
        assert!(decoded.calls <= 16 + 2 * file.len(), "no progress");
        match step {
            Step::Packet(record) => decoded.packets.push(packet(decoder, &record, lent, before)),
            Step::NeedMore { bytes } => {
                assert!(!at_end && bytes > lent.len() - position && bytes <= MAX_NEED, "{bytes}");
                decoded.largest_need = decoded.largest_need.max(bytes);
                start += position;
                position = 0;
                end = (start + bytes.max(chunk)).min(file.len());
            }
            Step::Damage(damage) => {
                let is_of_segments = matches!(
                    damage.kind,
                    DamageKind::Corrupt { .. }
                        | DamageKind::MissingSegments { .. }
                        | DamageKind::OutOfOrder { .. }
                        | DamageKind::Torn { .. }
                        | DamageKind::NotClosed { .. }
                );
                assert_eq!(damage.skipped == 0, is_of_segments, "{damage}");
                assert_eq!(damage.offset + damage.skipped, decoder.file_offset(), "{damage}");
                decoded.damage.push(damage);
            }
            Step::Refused(error) => decoded.refused = Some(error),
            Step::End => {
                let again = decoder.next(lent, &mut position, at_end);
                assert_eq!(again, Step::End, "the end is for ever");
                return decoded;
            }
        }
    }
}

fn packet(decoder: &Decoder, record: &Record, lent: &[u8], before: usize) -> Packet {
    assert!(record.offset >= before);
    let interface = &decoder.interfaces()[record.interface as usize];
    assert_eq!(interface.link, record.link);
    Packet {
        bytes: lent[record.offset..][..record.captured_length as usize].to_vec(),
        original_length: record.original_length,
        time_ns: record.time_ns,
        interface: record.interface,
        link: record.link.0,
        options: record.has_options.then(|| *decoder.options()),
        timed: record.timed,
    }
}

//! Recordings to damage, and what is read of them.

use burstline_port::{Loss, OpenOptions, PortError};
use burstline_wire::files::{
    Counters, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use crate::common::{Folder, drain_by_lending, source};

/// Size of the segments of most recordings.
pub(crate) const S: usize = 8192;

/// The default size, and how many bytes more the packets then have: there are a few segments.
pub(crate) const LONG: usize = 1 << 20;
const MORE_BYTES: usize = 9000;

/// Size of the segments that an attacker sends: whole, in one packet.
const FORGED: usize = 4096;

/// Numbers that a seed determines.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// A segmented recording, with the packets of each segment.
pub(crate) struct Recording {
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) packets: Vec<Vec<Vec<u8>>>,
}

pub(crate) fn put(
    encoder: &mut SegmentEncoder,
    segment: &mut [u8],
    bytes: &[u8],
    time_ns: u64,
) -> bool {
    let packet = PacketToWrite::new(bytes, time_ns);
    encoder.push(segment, &PacketToWrite { hash: Some(time_ns as u32), ..packet }).unwrap()
}

/// Returns sections and blocks as an attacker would send them: whole and with valid lengths.
fn forged() -> Vec<u8> {
    let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::None, 0);
    let mut segment = vec![0; S];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "forged");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let end = (0..S).step_by(4).find(|&at| segment[at..at + 4] == 0x8000_0001_u32.to_le_bytes());
    let mut bytes = segment[..end.unwrap()].to_vec();
    encoder.advance();
    for number in 0..3 {
        assert!(put(&mut encoder, &mut segment, &[0xFA; 60], number));
    }
    bytes.extend(&segment[..3 * 92]);
    bytes
}

/// Returns a whole segment with a correct checksum.
fn forged_segment() -> Vec<u8> {
    segment_of("forged", &[0xFB; 60], 9, FORGED, 0)
}

/// Returns the first segment with packets of a recording of the interface `name`. It has `count`
/// packets of these bytes, and `first_packet` before it.
pub(crate) fn segment_of(
    name: &str,
    bytes: &[u8],
    count: u64,
    segment_bytes: usize,
    first_packet: u64,
) -> Vec<u8> {
    let (link, hash) = (LinkType::ETHERNET, HashKind::None);
    let mut encoder = SegmentEncoder::new(segment_bytes, link, 0, hash, first_packet);
    let mut segment = vec![0; segment_bytes];
    let interface = InterfaceDescription::new(link, name);
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    encoder.advance();
    for number in 0..count {
        assert!(put(&mut encoder, &mut segment, bytes, number));
    }
    encoder.finish(&mut segment, &[0; 8]);
    segment
}

/// Returns the packet with this number, different from all others. One in 20 has what an attacker
/// would send.
pub(crate) fn packet(random: &mut Random, number: u64, segment_bytes: usize) -> Vec<u8> {
    let more = if segment_bytes == S { 400 } else { MORE_BYTES };
    let mut bytes = vec![random.below(256) as u8; 60 + random.below(more)];
    if random.below(20) == 0 {
        bytes = if random.below(2) == 0 { forged() } else { forged_segment() };
    }
    bytes.extend(number.to_le_bytes());
    bytes
}

pub(crate) fn record(
    random: &mut Random,
    packets: u64,
    hash: HashKind,
    segment_bytes: usize,
) -> Recording {
    let mut encoder = SegmentEncoder::new(segment_bytes, LinkType::ETHERNET, 0, hash, 0);
    let mut segment = vec![0; segment_bytes];
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    let mut made = Recording { segments: vec![segment.clone()], packets: vec![Vec::new()] };
    encoder.advance();
    let mut own = Vec::new();
    for number in 0..packets {
        let bytes = packet(random, number, segment_bytes);
        if !put(&mut encoder, &mut segment, &bytes, number) {
            encoder.finish(&mut segment, &[0; 8]);
            made.segments.push(segment.clone());
            made.packets.push(std::mem::take(&mut own));
            encoder.advance();
            assert!(put(&mut encoder, &mut segment, &bytes, number));
        }
        own.push(bytes);
    }
    for last in [false, true] {
        if last {
            let counters = Counters { delivered: Some(packets), ..Counters::default() };
            assert!(encoder.push_statistics(&mut segment, 0, 1, &counters).unwrap());
        }
        encoder.finish(&mut segment, &[0; 8]);
        made.segments.push(segment.clone());
        made.packets.push(std::mem::take(&mut own));
        encoder.advance();
    }
    made
}

/// The result of reading a file.
pub(crate) struct Read {
    pub(crate) packets: Vec<Vec<u8>>,
    pub(crate) corrupt: u64,
    pub(crate) missing: u64,
    pub(crate) is_damaged: bool,
    pub(crate) closes: bool,
    pub(crate) notes: Vec<String>,
}

/// Writes a file and reads it.
pub(crate) fn read(folder: &Folder, file: &[u8]) -> Read {
    let path = folder.file("recording", file);
    let opened = source(&format!("file:{}", path.display()), &OpenOptions::default());
    let mut port = match opened {
        Ok(port) => port,
        // Without a header and any valid segment it cannot be recognised.
        Err(error @ PortError::NotACapture { .. }) => {
            return Read {
                packets: Vec::new(),
                corrupt: 0,
                missing: 0,
                is_damaged: true,
                closes: true,
                notes: vec![error.to_string()],
            };
        }
        Err(error) => panic!("{error}"),
    };
    let packets: Vec<_> =
        drain_by_lending(&mut *port, u64::MAX).into_iter().map(|packet| packet.bytes).collect();
    let account = port.account();
    Read {
        corrupt: account.lost.of(Loss::Corrupt),
        missing: account.lost.of(Loss::MissingSegments),
        is_damaged: account.is_damaged,
        closes: account.offered == packets.len() as u64 + account.lost.total(),
        packets,
        notes: account.notes,
    }
}

/// Returns the packet with this number, without any pattern, and different from all others.
pub(crate) fn noise(random: &mut Random, number: u32) -> Vec<u8> {
    let length = 60 + random.below(400);
    let bytes = (0..length).map(|_| 0x80 | random.below(128) as u8);
    number.to_be_bytes().iter().map(|byte| 0x80 | byte).chain(bytes).collect()
}

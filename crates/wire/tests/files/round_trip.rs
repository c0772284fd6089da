//! The decoder and the segment index read what the encoders write.

use crate::build::*;
use burstline_wire::files::{
    Counters, Decoder, Direction, EncodeError, InterfaceDescription, LossCause, MAX_CAPTURED,
    PacketToWrite, PcapNsEncoder, PcapngEncoder, PlainItem, SectionDescription, SegmentEncoder,
    SegmentError, SegmentIndex,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use proptest::prelude::*;

const ETHERNET: LinkType = LinkType::ETHERNET;

/// A packet that owns its bytes.
#[derive(Clone, Debug)]
struct Owned {
    bytes: Vec<u8>,
    more: u32,
    time_ns: u64,
    interface: u32,
    direction: Option<Direction>,
    drops_before: u64,
    queue: Option<u32>,
    hash: Option<u32>,
}

impl Owned {
    fn lend(&self) -> PacketToWrite<'_> {
        PacketToWrite {
            bytes: &self.bytes,
            original_length: self.bytes.len() as u32 + self.more,
            time_ns: self.time_ns,
            interface: self.interface,
            direction: self.direction,
            drops_before: self.drops_before,
            queue: self.queue,
            hash: self.hash,
        }
    }

    fn assert_is(&self, read: &Packet) {
        assert_eq!(read.bytes, self.bytes);
        assert_eq!(read.original_length, self.bytes.len() as u32 + self.more);
        assert_eq!((read.time_ns, read.interface), (self.time_ns, self.interface));
        let options = read.options.unwrap_or_default();
        assert_eq!(options.direction(), self.direction);
        assert_eq!(options.drops_before.unwrap_or(0), self.drops_before);
        assert_eq!(options.queue, self.queue);
        let says = self.direction.is_some() || self.drops_before > 0 || self.queue.is_some();
        assert_eq!(read.options.is_some(), says);
    }
}

fn packets() -> impl Strategy<Value = Vec<Owned>> {
    let direction =
        prop_oneof![Just(None), Just(Some(Direction::Inbound)), Just(Some(Direction::Outbound))];
    let drops = prop_oneof![3 => Just(0), 1 => any::<u64>()];
    let time = prop_oneof![1_000_000_000u64..20_000_000_000, any::<u64>()];
    let hash = prop::option::of(any::<u32>());
    let queue = prop::option::of(any::<u32>());
    let bytes = prop::collection::vec(any::<u8>(), 0..700);
    let packet = (bytes, 0..3u32, time, 0..2u32, direction, drops, queue, hash).prop_map(
        |(bytes, more, time_ns, interface, direction, drops_before, queue, hash)| Owned {
            bytes,
            more,
            time_ns,
            interface,
            direction,
            drops_before,
            queue,
            hash,
        },
    );
    prop::collection::vec(packet, 0..60)
}

fn interfaces() -> [InterfaceDescription<'static>; 2] {
    let first = InterfaceDescription {
        description: "afpacket:eth0",
        os: "Linux",
        hardware: "veth",
        filter: "udp",
        speed_bits_per_s: 10_000_000_000,
        ..InterfaceDescription::new(ETHERNET, "eth0")
    };
    [first, InterfaceDescription::new(ETHERNET, "eth1")]
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pcapng_comes_back(packets in packets()) {
        let mut encoder = PcapngEncoder::new(ETHERNET, MAX_CAPTURED);
        let mut out = vec![0xEE; 100_000];
        let mut end = encoder.section(&mut out, &SectionDescription::default()).unwrap();
        for interface in &interfaces() {
            end += encoder.interface(&mut out[end..], interface).unwrap();
        }
        for packet in &packets {
            let bytes = encoder.packet(&mut out[end..], &packet.lend()).unwrap();
            // One byte less is too little, and nothing is written.
            let short = &mut vec![0xEE; bytes - 1][..];
            prop_assert_eq!(encoder.packet(short, &packet.lend()).unwrap(), 0);
            prop_assert!(short.iter().all(|&byte| byte == 0xEE));
            end += bytes;
        }
        let counters = Counters { received: Some(7), delivered: Some(5), ..Default::default() };
        end += encoder.statistics(&mut out[end..], 1, 99, &counters).unwrap();
        let mut decoder = Decoder::new();
        let decoded = decode_with(&mut decoder, &out[..end], usize::MAX);
        prop_assert_eq!(&decoded.damage, &[]);
        prop_assert_eq!(decoded.packets.len(), packets.len());
        for (packet, read) in packets.iter().zip(&decoded.packets) {
            packet.assert_is(read);
        }
        prop_assert_eq!(decoder.interfaces()[1].counters, counters);
        prop_assert_eq!(&decoder.interfaces()[0].name, "eth0");
    }

    #[test]
    fn plain_packets_are_written_in_runs_as_they_are_one_by_one(
        packets in packets(),
        size in prop_oneof![Just(4096usize), Just(1 << 16)],
        run in 1..70usize,
    ) {
        let (mut one, mut many) = (vec![0xEE; size], vec![0xEE; size]);
        let (mut by_one, mut by_many) = (segments(size), segments(size));
        for (encoder, segment) in [(&mut by_one, &mut one), (&mut by_many, &mut many)] {
            encoder.header(segment, &SectionDescription::default(), &interfaces()).unwrap();
            encoder.advance();
        }
        let interface_of = |number: usize| (number / run % 2) as u32;
        let mut at = 0;
        while at < packets.len() {
            let end = packets.len().min((at / run + 1) * run);
            let plain = packets[at..end].iter().map(|packet| PlainItem {
                bytes: &packet.bytes,
                time_ns: packet.time_ns,
                hash: packet.hash.unwrap_or(0),
            });
            let taken = by_many.push_plain(&mut many, interface_of(at), plain);
            for (number, packet) in (at..).zip(&packets[at..at + taken.packets]) {
                let plain = PacketToWrite::new(&packet.bytes, packet.time_ns);
                let hash = Some(packet.hash.unwrap_or(0));
                let plain = PacketToWrite { interface: interface_of(number), hash, ..plain };
                prop_assert!(by_one.push(&mut one, &plain).unwrap());
            }
            let took = &packets[at..at + taken.packets];
            let bytes: usize = took.iter().map(|packet| packet.bytes.len()).sum();
            let latest_ns = took.iter().map(|packet| packet.time_ns).max().unwrap_or(0);
            prop_assert_eq!((taken.bytes, taken.latest_ns), (bytes as u64, latest_ns));
            at += taken.packets;
            for (encoder, segment) in [(&mut by_one, &mut one), (&mut by_many, &mut many)] {
                encoder.finish(segment, &[3; 8]);
            }
            prop_assert_eq!(&one, &many);
            prop_assert!(SegmentIndex::parse(&many).is_ok());
            if at < end {
                // Alone it may fit: a run keeps room for hashes that may turn out to be known.
                let packet = PacketToWrite::new(&packets[at].bytes, packets[at].time_ns);
                let hash = Some(packets[at].hash.unwrap_or(0));
                let packet = PacketToWrite { interface: interface_of(at), hash, ..packet };
                let fits = by_one.push(&mut one, &packet).unwrap();
                prop_assert_eq!(by_many.push(&mut many, &packet).unwrap(), fits);
                if fits {
                    at += 1;
                } else {
                    by_one.advance();
                    by_many.advance();
                }
            }
        }
        let item = PlainItem { bytes: &[1], time_ns: 1, hash: 0 };
        let unknown = by_many.push_plain(&mut many, 2, [item].into_iter());
        prop_assert_eq!(unknown.packets, 0);
    }

    #[test]
    fn short_packets_of_some_flows_take_96_bytes_and_sketches_of_all_flows_fit(
        flows in 1..40_000u32,
    ) {
        let size = 1 << 20;
        let (mut encoder, mut segment) = (segments(size), vec![0; size]);
        encoder.header(&mut segment, &SectionDescription::default(), &interfaces()).unwrap();
        encoder.advance();
        let hash = |number: u32| (number % flows).wrapping_mul(0x9E37_79B1);
        let item = |number| PlainItem { bytes: &[7; 60], time_ns: 1, hash: hash(number) };
        let taken = encoder.push_plain(&mut segment, 0, (0..20_000).map(item)).packets;
        encoder.finish(&mut segment, &[0; 8]);
        prop_assert!(SegmentIndex::parse(&segment).is_ok());
        // 92 bytes of a block, two of the worklist, and the sketch.
        prop_assert!(flows > 1000 || size < taken * 95, "{taken} of {flows}");
        prop_assert!(size < taken * 97, "{taken} of {flows}");
    }

    #[test]
    fn segments_come_back_by_blocks_and_by_worklist(packets in packets(), flush in 1..9usize) {
        let (mut slots, mut encoder) = (Vec::<Vec<u8>>::new(), segments(4096));
        let mut segment = vec![0xEE; 4096];
        // Writes a finished segment into its slot.
        let write = |slots: &mut Vec<Vec<u8>>, encoder: &SegmentEncoder, segment: &[u8]| {
            let slot = encoder.file_offset() as usize / 4096;
            assert!(slot == slots.len() || slot + 1 == slots.len());
            slots.resize(slot + 1, Vec::new());
            slots[slot] = segment.to_vec();
        };
        encoder.header(&mut segment, &SectionDescription::default(), &interfaces()).unwrap();
        write(&mut slots, &encoder, &segment);
        encoder.advance();
        for (number, packet) in packets.iter().enumerate() {
            if !encoder.push(&mut segment, &packet.lend()).unwrap() {
                encoder.finish(&mut segment, &[number as u64; 8]);
                write(&mut slots, &encoder, &segment);
                encoder.advance();
                prop_assert!(encoder.push(&mut segment, &packet.lend()).unwrap());
            }
            if number % flush == 0 {
                encoder.finish(&mut segment, &[1; 8]);
                write(&mut slots, &encoder, &segment);
            }
        }
        if !encoder.push_statistics(&mut segment, 0, 9, &Counters::default()).unwrap() {
            encoder.finish(&mut segment, &[2; 8]);
            write(&mut slots, &encoder, &segment);
            encoder.advance();
            encoder.push_statistics(&mut segment, 0, 9, &Counters::default()).unwrap();
        }
        encoder.finish(&mut segment, &[2; 8]);
        write(&mut slots, &encoder, &segment);
        prop_assert_eq!(encoder.next_packet(), 100 + packets.len() as u64);

        let mut decoder = Decoder::new();
        let decoded = decode_with(&mut decoder, &slots.concat(), usize::MAX);
        prop_assert_eq!(&decoded.damage, &[]);
        prop_assert_eq!(decoded.packets.len(), packets.len());
        prop_assert_eq!(decoder.recorded().segments, slots.len() as u64);
        prop_assert_eq!(decoder.recorded().packets, packets.len() as u64);
        let mut expected = packets.iter().zip(&decoded.packets);
        let mut first_packet = 100;
        for (slot, segment) in slots.iter().enumerate() {
            let index = SegmentIndex::parse(segment).unwrap();
            prop_assert_eq!(index.trailer().sequence, slot as u64);
            prop_assert_eq!(index.trailer().first_packet, first_packet);
            prop_assert_eq!(index.entries().count(), index.packets() as usize);
            first_packet += u64::from(index.packets());
            for entry in index.entries() {
                let (packet, read) = expected.next().unwrap();
                packet.assert_is(read);
                prop_assert_eq!(index.packet(&entry), &packet.bytes[..]);
                prop_assert_eq!(entry.time_ns, packet.time_ns);
                prop_assert_eq!(entry.interface, packet.interface);
                prop_assert_eq!(entry.truncated, packet.more > 0);
                let range = index.trailer().earliest_ns..=index.trailer().latest_ns;
                prop_assert!(range.contains(&entry.time_ns));
            }
        }
        prop_assert!(expected.next().is_none());
    }

    #[test]
    fn pcap_comes_back(lengths in prop::collection::vec(0..900usize, 1..40)) {
        let encoder = PcapNsEncoder::new(ETHERNET, MAX_CAPTURED);
        let mut out = vec![0xEE; 40_000];
        let mut end = encoder.header(&mut out);
        let time = |number: usize| 1_700_000_000_999_999_990 + number as u64;
        for (number, &length) in lengths.iter().enumerate() {
            let data = payload(number as u32, length);
            let mut packet = PacketToWrite::new(&data, time(number));
            packet.original_length += 4;
            end += encoder.packet(&mut out[end..], &packet).unwrap();
        }
        let decoded = decode(&out[..end]);
        prop_assert_eq!(&decoded.damage, &[]);
        prop_assert_eq!(decoded.packets.len(), lengths.len());
        for (number, read) in decoded.packets.iter().enumerate() {
            prop_assert_eq!(&read.bytes, &payload(number as u32, lengths[number]));
            prop_assert_eq!(read.time_ns, time(number));
            prop_assert_eq!(read.original_length, lengths[number] as u32 + 4);
        }
    }
}

fn segments(size: usize) -> SegmentEncoder {
    SegmentEncoder::new(size, ETHERNET, 0, HashKind::FiveTuple, 100)
}

#[test]
fn half_a_mebibyte_holds_the_longest_packet_and_less_says_so() {
    let size = 512 << 10;
    let longest = vec![0xA5; MAX_CAPTURED as usize];
    for size in [size, size << 1, size << 2] {
        let (mut encoder, mut segment) = (segments(size), vec![0; size]);
        encoder.header(&mut segment, &SectionDescription::default(), &interfaces()).unwrap();
        let mut file = segment.clone();
        encoder.advance();
        let mut packet = PacketToWrite::new(&longest, 5);
        (packet.drops_before, packet.queue) = (1, Some(1));
        packet.direction = Some(Direction::Inbound);
        assert!(encoder.push(&mut segment, &packet).unwrap());
        encoder.finish(&mut segment, &[0; 8]);
        file.extend(&segment);
        encoder.advance();
        encoder.push_statistics(&mut segment, 0, 9, &Counters::default()).unwrap();
        encoder.finish(&mut segment, &[3; 8]);
        file.extend(&segment);
        for chunk in [1, 5000, 262_144, usize::MAX] {
            let mut decoder = Decoder::new();
            let decoded = decode_with(&mut decoder, &file, chunk);
            assert_eq!((decoded.packets.len(), decoded.damage.len()), (1, 0));
            assert_eq!(decoder.recorded().segments, 3);
            assert_eq!(decoder.recorded().losses[LossCause::Full as usize], 3);
        }
    }
    let encoder = segments(4096);
    let capacity = encoder.capacity();
    let (mut encoder, mut segment) = (encoder, vec![0; 4096]);
    encoder.header(&mut segment, &SectionDescription::default(), &interfaces()).unwrap();
    encoder.advance();
    let mut packet = PacketToWrite::new(&longest[..capacity], 5);
    (packet.drops_before, packet.queue) = (1, Some(1));
    packet.direction = Some(Direction::Outbound);
    assert!(encoder.push(&mut segment, &packet).unwrap());
    packet.bytes = &longest[..capacity + 1];
    let error = encoder.push(&mut segment, &packet).unwrap_err();
    assert_eq!(error, EncodeError::TooLong { captured: capacity + 1, capacity });
}

#[test]
fn an_interface_may_appear_and_counts_close_the_file() {
    let (mut encoder, mut segment) = (segments(4096), vec![0; 4096]);
    encoder.header(&mut segment, &SectionDescription::default(), &interfaces()[..1]).unwrap();
    let mut file = segment.clone();
    encoder.advance();
    let data = payload(1, 60);
    let mut packet = PacketToWrite::new(&data, 5);
    packet.interface = 1;
    let error = encoder.push(&mut segment, &packet).unwrap_err();
    assert_eq!(error, EncodeError::UnknownInterface { interface: 1, described: 1 });
    assert!(encoder.push_interface(&mut segment, &interfaces()[1]).unwrap());
    assert!(encoder.push(&mut segment, &packet).unwrap());
    let counters = Counters { missed: Some(4), ..Default::default() };
    assert!(encoder.push_statistics(&mut segment, 1, 9, &counters).unwrap());
    encoder.finish(&mut segment, &[0; 8]);
    file.extend(&segment);
    let mut decoder = Decoder::new();
    let decoded = decode_with(&mut decoder, &file, usize::MAX);
    assert_eq!((decoded.packets[0].interface, decoded.damage.len()), (1, 0));
    assert_eq!(decoder.interfaces()[1].counters, counters);
    assert_eq!(SegmentIndex::parse(&segment).unwrap().trailer().interfaces, 2);
}

#[test]
fn errors_have_their_numbers() {
    let mut encoder = PcapngEncoder::new(ETHERNET, 0);
    let other = InterfaceDescription::new(LinkType::RAW, "tun0");
    let error = encoder.interface(&mut [0; 200], &other).unwrap_err();
    assert_eq!(error, EncodeError::LinkDiffers { file: 1, interface: 101 });
    let long = "x".repeat(5000);
    let named = InterfaceDescription::new(ETHERNET, &long);
    let error = encoder.interface(&mut [0; 9000], &named).unwrap_err();
    assert_eq!(error, EncodeError::TextTooLong { length: 5000, limit: 4096 });
    let mut full = segments(4096);
    let text = &long[..4000];
    let named = InterfaceDescription::new(ETHERNET, text);
    let error = full.header(&mut [0; 4096], &SectionDescription::default(), &[named]).unwrap_err();
    assert_eq!(error, EncodeError::HeaderTooLong { segment_bytes: 4096 });
}

#[test]
fn every_flipped_bit_of_a_segment_is_noticed_by_its_index() {
    let (mut encoder, mut segment) = (segments(4096), vec![0; 4096]);
    encoder.header(&mut segment, &SectionDescription::default(), &interfaces()).unwrap();
    encoder.advance();
    for number in 0..5 {
        let data = payload(number, 300);
        assert!(encoder.push(&mut segment, &PacketToWrite::new(&data, 5)).unwrap());
    }
    encoder.finish(&mut segment, &[0; 8]);
    assert_eq!(SegmentIndex::parse(&segment).unwrap().packets(), 5);
    for bit in 0..8 * segment.len() {
        segment[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentIndex::parse(&segment).is_err(), "bit {bit}");
        segment[bit / 8] ^= 1 << (bit % 8);
    }
    for length in [0, 100, 4095] {
        let error = SegmentIndex::parse(&segment[..length]).unwrap_err();
        assert_eq!(error, SegmentError::NoTrailer { length });
    }
}

//! Plain pcapng whose packets contain blocks: after damage the real ones are found again.

use crate::build::*;
use burstline_wire::files::{Damage, DamageKind, Decoder, Step};

/// Bytes of a hostile packet, of its block, and of what comes before its own blocks.
const PACKET: usize = 65_000;
const BLOCK: usize = PACKET + 32;
const BEFORE: usize = 1000;

/// A type of block whose contents are not looked at.
const CUSTOM: u32 = 0x0BAD;

/// Packets after the hostile ones.
const LATER: u32 = 300;

/// The bytes of a packet that nobody recorded.
const FORGED: [u8; 60] = [0xFA; 60];

/// Returns a section with two packets.
fn forged(order: Order) -> Vec<u8> {
    let packet = enhanced(order, 0, 1, &FORGED, 60, &[]);
    [section(order), interface(order, 1, 0, &[]), packet.clone(), packet].concat()
}

/// Returns `count` packets in a row. The blocks in the first one lead through all of them, over the
/// real blocks between them, in this byte order.
fn hostile(order: Order, count: usize, first: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = vec![vec![0; PACKET]; count];
    packets[0][BEFORE..BEFORE + first.len()].copy_from_slice(first);
    let mut start = BEFORE + first.len();
    for number in 1..count {
        // From `start` in one packet to `BEFORE` in the next.
        let length = (BLOCK + BEFORE - start) as u32;
        packets[number - 1][start..start + 4].copy_from_slice(&order.u32(CUSTOM));
        packets[number - 1][start + 4..start + 8].copy_from_slice(&order.u32(length));
        packets[number][BEFORE - 4..BEFORE].copy_from_slice(&order.u32(length));
        start = BEFORE;
    }
    packets
}

/// Returns a file with a usual packet, hostile ones, and usual ones. One bit of the length of the
/// first hostile one is flipped.
fn file(hostile: &[Vec<u8>]) -> Vec<u8> {
    let o = Order::Little;
    let mut file = [section(o), interface(o, 1, 0, &[])].concat();
    file.extend(enhanced(o, 0, 1, &payload(0, 60), 60, &[]));
    let damaged = file.len() + 5;
    for packet in hostile {
        file.extend(enhanced(o, 0, 2, packet, packet.len() as u32, &[]));
    }
    for number in 1..=LATER {
        file.extend(enhanced(o, 0, 3, &payload(number, 60), 60, &[]));
    }
    file[damaged] ^= 1;
    file
}

/// Returns how many packets were delivered that were recorded, and how many that were not.
fn counted(decoder: &mut Decoder, file: &[u8], chunk: usize) -> (usize, usize) {
    let packets = decode_with(decoder, file, chunk).packets;
    let forged = packets.iter().filter(|packet| packet.bytes == FORGED).count();
    (packets.len() - forged, forged)
}

#[test]
fn blocks_that_lead_over_real_ones_are_not_real() {
    let check = |packets: &[Vec<u8>]| {
        let file = file(packets);
        // The first one is damaged; one is before them.
        let all = packets.len() + LATER as usize;
        for chunk in [4000, 256 << 10, usize::MAX] {
            let found = counted(&mut Decoder::new(), &file, chunk);
            assert_eq!(found, (all, 0), "{} packets in chunks of {chunk}", packets.len());
        }
    };
    for order in ORDERS {
        // Six lead further than a packet is long, ten as far as blocks are followed.
        for count in [2, 6, 10] {
            check(&hostile(order, count, &forged(order)));
        }
    }
    // The same without a section header. Nothing tells those apart that lead as far as ten.
    let first = &forged(Order::Little)[section(Order::Little).len()..];
    for count in [2, 6] {
        check(&hostile(Order::Little, count, first));
    }
}

#[test]
fn a_section_in_a_packet_does_not_hide_what_follows_it() {
    // The first block in the packet is of the file's byte order, and could be real.
    let first = enhanced(Order::Little, 0, 1, &FORGED, 60, &[]);
    for order in ORDERS {
        let mut packet = vec![0; PACKET];
        let blocks = [first.clone(), forged(order)].concat();
        packet[BEFORE..BEFORE + blocks.len()].copy_from_slice(&blocks);
        let file = file(&[packet]);
        for chunk in [4000, usize::MAX] {
            let (real, forged) = counted(&mut Decoder::new(), &file, chunk);
            assert_eq!(real, 1 + LATER as usize, "{order:?} in {chunk}");
            assert!(forged <= 3, "{order:?} in {chunk}: {forged}");
        }
    }
}

#[test]
fn a_section_in_a_packet_of_a_pipe_is_none() {
    for order in ORDERS {
        let mut packet = vec![0; PACKET];
        packet[BEFORE..BEFORE + forged(order).len()].copy_from_slice(&forged(order));
        let file = file(&[packet]);
        let (real, _) = counted(&mut Decoder::live(), &file, 4000);
        assert_eq!(real, 1 + LATER as usize, "{order:?}");
    }
}

#[test]
fn a_section_behind_a_torn_block_of_a_silent_pipe_is_found() {
    let o = Order::Little;
    let mut file = [section(o), interface(o, 1, 0, &[])].concat();
    file.extend(enhanced(o, 0, 1, &payload(0, 60), 60, &[]));
    file.extend(&enhanced(o, 0, 1, &payload(1, 60), 60, &[])[..50]);
    let o = Order::Big;
    file.extend([section(o), interface(o, 1, 0, &[])].concat());
    file.extend(enhanced(o, 0, 1, &payload(2, 60), 60, &[]));
    let (mut decoder, mut position, mut packets) = (Decoder::live(), 0, 0);
    loop {
        match decoder.next(&file, &mut position, false) {
            Step::Packet(_) => packets += 1,
            Step::Damage(_) => {}
            Step::NeedMore { .. } => break,
            step => panic!("{step:?}"),
        }
    }
    assert_eq!((packets, position), (2, file.len()));
}

/// What one candidate's rivals lead to may be too near for it, and far enough for the next one.
#[test]
fn a_bad_block_that_real_ones_lead_to_is_as_far_as_it_is() {
    let o = Order::Little;
    let mut file = [section(o), interface(o, 1, 0, &[])].concat();
    file.extend(enhanced(o, 0, 1, &payload(0, 60), 60, &[]));
    let start = file.len();
    // Blocks from 0, 200, 600, 1100 and 1500 to 2400. The first and the last one are damaged.
    for length in [168, 368, 468, 368, 868] {
        file.extend(enhanced(o, 0, 0, &vec![0; length], length as u32, &[]));
    }
    for number in [1, 2] {
        file.extend(enhanced(o, 0, 3, &payload(number, 60), 60, &[]));
    }
    let mut put = |at: usize, words: &[u32]| {
        file[start + at..][..4 * words.len()].copy_from_slice(&o.words(words));
    };
    put(4, &[201]);
    put(1504, &[901]);
    // Forged blocks: from 40 to a bad one at 2000; past it, but no packet; from 400 to one at 1000.
    put(40, &[CUSTOM, 1960]);
    put(1996, &[1960, CUSTOM, 16]);
    put(300, &[6, 1800, 0, 0, 0, u32::MAX]);
    put(2096, &[1800]);
    put(400, &[CUSTOM, 600]);
    put(996, &[600, CUSTOM, 16]);
    // The one at 300 wins against the first, and costs the packet that it is in.
    let lengths: Vec<_> = decode(&file).packets.iter().map(|packet| packet.bytes.len()).collect();
    assert_eq!(lengths, [60, 468, 368, 60, 60]);
}

/// Bytes are missing from a packet to another one, and the first one's length is there by chance.
#[test]
fn a_length_that_agrees_by_chance_hides_no_packet() {
    const LENGTH: usize = 364;
    for order in ORDERS {
        let block = |packet: &[u8]| enhanced(order, 0, 1, packet, packet.len() as u32, &[]);
        let packets = [60, LENGTH, 100, LENGTH - 32, 60].map(|length| payload(1, length));
        let before = [section(order), interface(order, 1, 0, &[]), block(&packets[0])].concat();
        let torn = before.len();
        let [next, after] = [&packets[1..], &packets[2..]]
            .map(|packets| packets.iter().flat_map(|packet| block(packet)).collect::<Vec<_>>());
        // Its end is the next packet's captured length, or the beginning of a later block.
        let head = order.words(&[6, LENGTH as u32]).to_vec();
        let as_length = [head, vec![0xFF; LENGTH - 32], next].concat();
        let start = &block(&vec![7; LENGTH - 32])[..LENGTH - 8 - 132];
        let as_block = [start, &after].concat();
        for (rest, skipped, first) in [(as_length, LENGTH - 24, 1), (as_block, LENGTH - 140, 2)] {
            let file = [&before[..], &rest].concat();
            for chunk in [LENGTH, usize::MAX] {
                let decoded = decode_with(&mut Decoder::new(), &file, chunk);
                let found = decoded.packets.iter().map(|packet| &packet.bytes);
                let real = packets[..1].iter().chain(&packets[first..]);
                assert!(found.eq(real), "{first}: {:?}", decoded.damage);
                let kind = DamageKind::BlockLength { block_type: 6, length: LENGTH as u32 };
                let damage = Damage { offset: torn as u64, kind, skipped: skipped as u64 };
                assert_eq!(decoded.damage, [damage]);
            }
        }
    }
}

//! Handmade blocks: reinserted tags, and headers that lie. The port's tests cover blocks from the
//! kernel, over real interfaces.

use burstline_sys::filter::Instruction;

use super::counter::with;
use super::packet::take;
use super::*;

const HEADER: usize = 68;
const MAC: usize = 86;

/// One packet at `at` in a block of 512 bytes, in the kernel's layout.
struct Header {
    next: u32,
    snapshot: u32,
    length: u32,
    status: u32,
    mac: u16,
    tag: (u16, u16),
    kind: u8,
}

impl Default for Header {
    fn default() -> Self {
        let (snapshot, length, mac) = (60, 60, MAC as u16);
        Self { next: 0, snapshot, length, status: 0, mac, tag: (0, 0), kind: 0 }
    }
}

impl Header {
    fn block(&self, at: usize) -> Vec<u8> {
        let mut block = vec![0; 512];
        let (seconds, nanoseconds) = (7_u32, 9_u32);
        let words = [self.next, seconds, nanoseconds, self.snapshot, self.length, self.status];
        for (index, word) in words.iter().enumerate() {
            block[at + index * 4..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        block[at + 24..][..2].copy_from_slice(&self.mac.to_ne_bytes());
        block[at + 32..][..4].copy_from_slice(&u32::from(self.tag.1).to_ne_bytes());
        block[at + 36..][..2].copy_from_slice(&self.tag.0.to_ne_bytes());
        block[at + 48 + 10] = self.kind;
        for (index, byte) in block[at + HEADER..].iter_mut().enumerate() {
            *byte = index as u8;
        }
        block
    }
}

#[test]
fn a_packet_is_where_the_header_says() {
    let header = Header { next: 152, kind: 4, status: 1 << 3 | 1 << 8, ..Header::default() };
    let (packet, next) = take(&mut header.block(48), 48).unwrap();
    assert_eq!((packet.offset, packet.length, packet.original_length), (134, 60, 60));
    assert_eq!((packet.time_ns, next), (7_000_000_009, 200));
    assert!(packet.marks.is_outgoing() && packet.marks.has_partial_checksum());
    assert!(packet.marks.is_merged_tcp() && !packet.marks.has_hardware_time());
}

#[test]
fn a_tag_goes_back_behind_the_addresses() {
    for (status, protocol) in [(1 << 4 | 1 << 6, 0x88a8_u16), (1 << 4, 0x8100)] {
        let header = Header { status, tag: (0x88a8, 0xa123), ..Header::default() };
        let mut block = header.block(48);
        let before = block.clone();
        let (packet, _) = take(&mut block, 48).unwrap();
        assert_eq!((packet.offset, packet.length, packet.original_length), (130, 64, 64));
        let bytes = &block[130..194];
        assert_eq!(bytes[..12], before[134..146]);
        assert_eq!(bytes[12..14], protocol.to_be_bytes());
        assert_eq!(bytes[14..16], [0xa1, 0x23]);
        assert_eq!(bytes[16..], before[146..194]);
    }
}

#[test]
fn a_packet_cut_before_its_tag_stays_as_it_is() {
    let header = Header { status: 1 << 4, snapshot: 11, ..Header::default() };
    let mut block = header.block(48);
    let before = block.clone();
    let (packet, _) = take(&mut block, 48).unwrap();
    assert_eq!((packet.offset, packet.length, packet.original_length), (134, 11, 64));
    assert_eq!(block, before);
}

#[test]
fn headers_that_lie_are_refused() {
    let cases = [
        Header { snapshot: 512 - 134 + 1, ..Header::default() },
        Header { snapshot: u32::MAX, ..Header::default() },
        Header { mac: 20, ..Header::default() },
        Header { mac: u16::MAX, ..Header::default() },
    ];
    for header in cases {
        assert_eq!(take(&mut header.block(48), 48), None);
    }
    assert_eq!(take(&mut Header::default().block(48), 512 - HEADER + 1), None);
    assert_eq!(take(&mut Header::default().block(48), usize::MAX), None);
}

#[test]
fn whatever_a_block_holds_packets_lie_inside() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as u32
    };
    let mut taken = 0;
    for _ in 0..20_000 {
        let header = Header {
            next: random() % 600,
            snapshot: random() % 500,
            length: random(),
            status: random(),
            mac: (random() % 300) as u16,
            tag: (random() as u16, random() as u16),
            kind: (random() % 8) as u8,
        };
        let at = random() as usize % 400;
        let mut block = header.block(at);
        if let Some((packet, _)) = take(&mut block, at) {
            assert!((packet.offset + packet.length) as usize <= block.len());
            assert!(packet.offset as usize >= at + HEADER);
            assert!(packet.length <= packet.original_length);
            taken += 1;
        }
    }
    assert!(taken > 1000, "{taken} of 20000 were packets");
}

#[test]
fn rings_that_make_no_sense_are_refused_before_the_kernel_is_asked() {
    for (block_bytes, blocks) in
        [(3000, 4), (2048, 4), (1 << 12, 1), (1 << 12, 1 << 17), (1 << 30, 4)]
    {
        let options = RingOptions { block_bytes, blocks, ..RingOptions::default() };
        let outcome = Ring::open("lo", &options).err();
        assert!(matches!(outcome, Some(AfPacketError::BadRing { .. })), "{block_bytes} {blocks}");
    }
}

#[test]
fn filters_for_a_direction_keep_the_filter_behind_them() {
    use super::filter::for_direction;
    let own = [Instruction::keep(96)];
    assert_eq!(for_direction(&own, Direction::In), own);
    assert_eq!(for_direction(&[], Direction::Both), []);
    let out = for_direction(&own, Direction::Out);
    assert_eq!(out.last(), own.last());
    let all_out = for_direction(&[], Direction::Out);
    assert_eq!(all_out.last(), Some(&Instruction::keep(u32::MAX)));
}

#[test]
fn counts_of_32_bits_that_wrapped_still_say_how_many_were_kept() {
    let reading =
        |tp_packets, tp_drops| libc::tpacket_stats_v3 { tp_packets, tp_drops, tp_freeze_q_cnt: 1 };
    let mut sum = RingStatistics::default();
    // 10 kept and 2^32 - 5 dropped without a reading: their sum is 5 in 32 bits.
    for (packets, drops, kept, dropped) in [
        (8, 3, 5, 3),
        (5, u32::MAX - 4, 15, u64::from(u32::MAX) - 1),
        (0, 0, 15, u64::from(u32::MAX) - 1),
    ] {
        sum.add(&reading(packets, drops));
        assert_eq!((sum.packets - sum.drops, sum.drops), (kept, dropped));
    }
    assert_eq!(sum.freezes, 3);
}

#[test]
fn counts_that_each_reading_resets_add_up_beyond_32_bits() {
    const MOST: u32 = u32::MAX;
    let reading =
        |tp_packets, tp_drops| libc::tpacket_stats_v3 { tp_packets, tp_drops, tp_freeze_q_cnt: 0 };
    let (mut sum, mut rejected) = (RingStatistics::default(), 0);
    // Nothing counts twice, and a reading that fails takes nothing back.
    for (packets, drops) in [(MOST, MOST), (0, 0), (MOST, 1), (7, 7)] {
        sum.add(&reading(packets, drops));
        rejected = with(rejected, Ok(reading(packets, drops)));
        rejected = with(rejected, Err(std::io::ErrorKind::NotFound.into()));
    }
    let most = u64::from(MOST);
    assert_eq!((sum.packets, sum.drops, rejected), (2 * most + 7, most + 8, 2 * most + 7));
}

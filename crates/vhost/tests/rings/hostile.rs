//! A guest that damages its rings, even while we work on them.
//!
//! F13 to F16 are classes of faults that other programs had:
//! - short and split headers and double fetches (CVE-2022-2132, CVE-2024-11614)
//! - indices and addresses (CVE-2019-14818, CVE-2020-10722 to 10726)
//! - offsets that wrap and chains past the ring (VPP e36567760d6)

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_peer::{FromPeer, LONGEST, OFFLOAD_BYTES, PeerMemory, Put, Refusal, Taken, ToPeer};
use burstline_vhost::RingFault;
use rustix::fs::ftruncate;

use crate::guest::{BUFFER_ADDRESS, BUFFERS_AT, Desc, GUEST, Guest, MEMORY, SIZE};

fn take_one(guest: &Guest) -> Taken {
    let berth = &guest.device.lanes().lane(0).from;
    let mut ring = berth.take().unwrap();
    let taken = ring.take(&mut vec![0; LONGEST]);
    ring.publish();
    berth.give_back(ring);
    taken
}

fn fault(guest: &Guest) -> Option<RingFault> {
    guest.device.lanes().lane(0).from.try_look(|ring| ring.fault()).unwrap()
}

/// Offers one invalid chain, which is given back; the next packet is delivered.
fn refused(guest: &mut Guest, head: u16, expected: Refusal) {
    let before = guest.used_index(1);
    guest.offer(1, head);
    assert_eq!(take_one(guest), Taken::Refused(expected));
    assert_eq!(guest.used(1, before), (head.into(), 0));
    guest.send(60, &[1; 60]);
    assert!(matches!(take_one(guest), Taken::Packet { bytes: 60, .. }), "the next one comes");
    assert_eq!(guest.used_index(1), before.wrapping_add(2));
}

#[test]
fn f13_a_header_that_is_short_or_alone_is_refused() {
    let mut guest = Guest::start();
    for bytes in [0, 1, 11, 12] {
        guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, bytes));
        refused(&mut guest, 0, Refusal::Short);
    }
    // A header split over twelve descriptors of a byte, without a packet.
    for index in 0..12 {
        guest.desc(1, index, Desc::of(BUFFER_ADDRESS, 1).marked(u16::from(index < 11), index + 1));
    }
    refused(&mut guest, 0, Refusal::Short);
}

#[test]
fn f14_addresses_outside_of_the_memory_are_refused() {
    let mut guest = Guest::start();
    for address in [0, GUEST - 1, GUEST + MEMORY, u64::MAX, u64::MAX - 11, 1 << 63] {
        guest.desc(1, 0, Desc::of(address, 100));
        refused(&mut guest, 0, Refusal::Malformed);
    }
    // The buffer begins inside the memory and ends outside.
    guest.desc(1, 0, Desc::of(GUEST + MEMORY - 50, 100));
    refused(&mut guest, 0, Refusal::Malformed);
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 100).marked(2, 0));
    refused(&mut guest, 0, Refusal::Malformed);
}

#[test]
fn f15_chains_without_end_past_the_ring_or_too_long_are_refused() {
    let mut guest = Guest::start();
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 1).marked(1, 0));
    refused(&mut guest, 0, Refusal::Malformed);
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 20).marked(1, SIZE));
    refused(&mut guest, 0, Refusal::Malformed);
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, u32::MAX));
    refused(&mut guest, 0, Refusal::Long);
    // The sum of the lengths wraps 32 bits.
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 0x8000).marked(1, 1));
    guest.desc(1, 1, Desc::of(BUFFER_ADDRESS, 0xffff_8000));
    refused(&mut guest, 0, Refusal::Long);
    // Many buffers, none of which is too long alone.
    for index in 0..40 {
        let desc = Desc::of(BUFFER_ADDRESS, 0x8000);
        guest.desc(1, index, desc.marked(u16::from(index < 39), index + 1));
    }
    refused(&mut guest, 0, Refusal::Long);
}

#[test]
fn f15_tables_of_descriptors_inside_others_or_of_odd_size_are_refused() {
    let mut guest = Guest::start();
    for (bytes, flags) in [(0, 4), (15, 4), (24, 4), (16, 5)] {
        guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, bytes).marked(flags, 0));
        refused(&mut guest, 0, Refusal::Malformed);
    }
    // An indirect table that contains itself.
    let own: [u8; 16] = {
        let mut own = [0; 16];
        own[..8].copy_from_slice(&BUFFER_ADDRESS.to_le_bytes());
        own[8] = 16;
        own[12] = 4;
        own
    };
    guest.write(BUFFERS_AT, &own);
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 16).marked(4, 0));
    refused(&mut guest, 0, Refusal::Malformed);
    // A cyclic chain: no more of it is read than the ring has descriptors.
    let mut circle = own;
    circle[8] = 1;
    circle[12] = 1;
    guest.write(BUFFERS_AT, &circle);
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 0xffff_fff0).marked(4, 0));
    refused(&mut guest, 0, Refusal::Malformed);
    guest.desc(1, 0, Desc::of(u64::MAX - 15, 16).marked(4, 0));
    refused(&mut guest, 0, Refusal::Malformed);
}

#[test]
fn f14_an_index_or_a_head_that_cannot_be_stops_the_ring_and_nothing_else() {
    let guest = Guest::start();
    guest.set_index(1, SIZE + 1);
    assert_eq!(take_one(&guest), Taken::Nothing);
    assert_eq!(fault(&guest), Some(RingFault::Index { chains: SIZE + 1, size: SIZE }));
    guest.set_index(1, 1);
    assert_eq!(take_one(&guest), Taken::Nothing, "it stays stopped");
    let mut guest = Guest::start();
    guest.offer(1, SIZE);
    assert_eq!(take_one(&guest), Taken::Nothing);
    assert_eq!(fault(&guest), Some(RingFault::Head { head: SIZE, size: SIZE }));
    // The other ring continues, and the front-end can start this one again.
    guest.desc(0, 0, Desc::of(BUFFER_ADDRESS, 2000).marked(2, 0));
    guest.offer(0, 0);
    assert_eq!(guest.put(&[3; 60]), Put::Done);
    guest.say(11, crate::guest::words(&[1, 0]), vec![]).unwrap();
    guest.set_index(1, 0);
    guest.next[1] = 0;
    guest.start_ring(1, 0).unwrap();
    guest.send(0, &[7; 60]);
    assert!(matches!(take_one(&guest), Taken::Packet { bytes: 60, .. }));
}

#[test]
fn buffers_that_are_none_are_given_back_empty_and_hold_nobody_up() {
    let mut guest = Guest::start();
    let bad = [
        Desc::of(BUFFER_ADDRESS, 0).marked(2, 0),
        Desc::of(BUFFER_ADDRESS, 11).marked(2, 0),
        Desc::of(BUFFER_ADDRESS, 100),
        Desc::of(u64::MAX, 100).marked(2, 0),
        Desc::of(BUFFER_ADDRESS, 1).marked(3, 4),
    ];
    for (index, desc) in bad.into_iter().enumerate() {
        guest.desc(0, index as u16, desc);
        guest.offer(0, index as u16);
    }
    guest.desc(0, 8, Desc::of(BUFFER_ADDRESS, 72).marked(2, 0));
    guest.offer(0, 8);
    assert_eq!(guest.put(&[3; 60]), Put::Done);
    assert_eq!([0, 4, 5].map(|index| guest.used(0, index)), [(0, 0), (4, 0), (8, 72)]);
}

/// The guest chooses the length of chains and the number of invalid ones. An empty buffer ends a
/// chain, and a packet tries at most 16.
#[test]
fn empty_buffers_and_rings_full_of_wrong_ones_hold_nobody_up() {
    let mut guest = Guest::start();
    guest.desc(1, 0, Desc::of(BUFFER_ADDRESS, 20).marked(1, 1));
    guest.desc(1, 1, Desc::of(BUFFER_ADDRESS, 0).marked(1, 2));
    guest.desc(1, 2, Desc::of(BUFFER_ADDRESS, 20));
    refused(&mut guest, 0, Refusal::Short);
    for index in 0..SIZE {
        guest.desc(0, index, Desc::of(u64::MAX, 100).marked(2, 0));
        guest.offer(0, index);
    }
    for tried in 1..=2 {
        assert_eq!((guest.put(&[3; 60]), guest.used_index(0)), (Put::NoRoom, 16 * tried));
    }
}

#[test]
fn f16_memory_that_is_cut_under_us_stops_only_this_guest() {
    let mut guest = Guest::start();
    guest.send(0, &[1; 60]);
    assert!(matches!(take_one(&guest), Taken::Packet { .. }));
    ftruncate(&guest.file, 0).unwrap();
    // The ring's index is 0 now, which is less than what was taken.
    assert_eq!(take_one(&guest), Taken::Nothing);
    assert_eq!(fault(&guest), Some(RingFault::Lost));
}

/// Another thread overwrites rings, descriptors and buffers while we take and put. Nothing panics,
/// hangs or reads out of bounds, and the guest's view of the index matches the chains taken.
#[test]
fn a_guest_that_scribbles_while_we_read_harms_itself_only() {
    let chains: u64 = std::env::var("BURSTLINE_CHAINS").map_or(300_000, |n| n.parse().unwrap());
    let (mut taken, mut done, mut guests) = (0, 0, 0);
    while taken < chains {
        let round = Scribbled::of_a_guest(chains - taken);
        (taken, done, guests) = (taken + round.taken, done + round.done, guests + 1);
    }
    assert!(done > 0);
    // A ring stops if a scribbled buffer address hits the ring's own words, which is rare.
    assert!(guests <= 2 + chains / 30_000, "{guests} guests for {chains} chains");
}

/// Counts of one guest, until it had enough chains or overwrote its own ring.
struct Scribbled {
    taken: u64,
    done: u64,
}

impl Scribbled {
    fn of_a_guest(chains: u64) -> Self {
        let mut guest = Guest::start();
        let is_over = Arc::new(AtomicBool::new(false));
        let scribbler = std::thread::spawn({
            let (is_over, memory) = (Arc::clone(&is_over), Arc::clone(&guest.memory));
            move || scribble(&memory, &is_over)
        });
        let (mut seen, mut given) = (Self { taken: 0, done: 0 }, 0);
        let mut is_sound = true;
        while is_sound && seen.taken < chains {
            for index in 0..32 {
                let at = BUFFERS_AT + 0x1000 * usize::from(index);
                guest.desc(1, index, Desc::of(GUEST + at as u64, 72));
                guest.desc(0, index, Desc::of(GUEST + at as u64, 2000).marked(2, 0));
                guest.offer(1, index);
                guest.offer(0, index);
            }
            given += seen.take_all(&guest, &mut is_sound);
            seen.put_some(&guest, &mut is_sound);
        }
        is_over.store(true, Relaxed);
        scribbler.join().unwrap();
        assert_eq!(given, seen.taken, "V3");
        assert_eq!(guest.used_index(1), seen.taken as u16);
        seen
    }

    /// Takes all packets of the guest, and returns the number of chains given back.
    fn take_all(&mut self, guest: &Guest, is_sound: &mut bool) -> u64 {
        let berth = &guest.device.lanes().lane(0).from;
        let (mut ring, mut room) = (berth.take().unwrap(), vec![0; LONGEST]);
        let mut longest = 0;
        loop {
            match ring.take(&mut room) {
                Taken::Nothing => break,
                Taken::Packet { bytes, .. } => longest = longest.max(bytes),
                Taken::Refused(_) => {}
            }
            self.taken += 1;
        }
        let given = ring.publish();
        *is_sound &= ring.fault().is_none();
        // Before any assertion may fail: the guest's drop waits for its rings.
        berth.give_back(ring);
        assert!(longest <= LONGEST, "{longest}");
        given.into()
    }

    /// Sends more packets to the guest than it has room for.
    fn put_some(&mut self, guest: &Guest, is_sound: &mut bool) {
        let berth = &guest.device.lanes().lane(0).to;
        let mut ring = berth.take().unwrap();
        for _ in 0..64 {
            match ring.put(&[5; 60], &[0; OFFLOAD_BYTES]) {
                Put::NoRoom => break,
                Put::Done => self.done += 1,
                Put::Unfit => {}
            }
        }
        ring.publish();
        *is_sound &= ring.fault().is_none();
        berth.give_back(ring);
    }
}

/// Overwrites descriptors and buffers with headers; not the index, which would stop the ring.
fn scribble(memory: &PeerMemory, is_over: &AtomicBool) {
    let mut seed = 88_172_645_463_325_252u64;
    while !is_over.load(Relaxed) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (at, value) = match seed % 4 {
            0 => ((seed >> 8) as usize % 0x800, seed >> 20),
            1 => (0x2000 + (seed >> 8) as usize % 0x400, seed >> 20),
            2 => (0x2000 + (seed >> 8) as usize % 0x400, GUEST + (seed >> 44)),
            _ => (BUFFERS_AT + (seed >> 8) as usize % 0x4_0000, seed),
        };
        let bytes = 1 + (seed >> 60) as usize % 8;
        assert!(memory.write(at, &value.to_le_bytes()[..bytes]));
    }
}

use super::{Held, Marks, Plain};
use crate::device::tests::{TURN, eal, options};
use crate::{Device, DeviceOptions, Exit, Receiver, Sender, leaked_mbufs};
use burstline_log::{Meta, Scratch};
use std::sync::{Arc, PoisonError};

fn device(devargs: &str) -> Arc<Device> {
    let options = DeviceOptions { devargs: devargs.to_owned(), ..options(0, Some(2047)) };
    Device::open(&options, &eal()).unwrap()
}

fn send(sender: &mut Sender, packets: &[Vec<u8>]) {
    for packet in packets {
        assert!(sender.push(packet));
        assert_eq!(sender.send(), 1);
    }
}

/// Writes flags, packet type and hash of a held packet, like a driver. Source: `struct rte_mbuf`,
/// rte_mbuf_core.h, whose first cache line is DPDK's ABI.
fn mark(held: &mut Held, index: usize, flags: u64, packet_type: u32, hash: u32) {
    assert!((held.freed..held.count).contains(&index) && !held.is_looked_at);
    let mbuf = held.mbufs[index];
    // SAFETY: by H1 the mbuf is live and ours, and those are the offsets of the three fields.
    unsafe {
        mbuf.byte_add(24).cast::<u64>().write(flags);
        mbuf.byte_add(32).cast::<u32>().write(packet_type);
        mbuf.byte_add(44).cast::<u32>().write(hash);
    }
}

/// Receives packets that have these flags and types.
fn marked(sender: &mut Sender, receiver: &mut Receiver, marks: &[(u64, u32)]) -> Vec<Marks> {
    send(sender, &vec![vec![0; 60]; marks.len()]);
    assert_eq!(receiver.poll(64), marks.len());
    for (index, &(flags, packet_type)) in marks.iter().enumerate() {
        mark(&mut receiver.held, index, flags, packet_type, 0x5eed + index as u32);
    }
    let mut told = Vec::new();
    while let Some((_, marks)) = receiver.peek() {
        told.push(marks);
        receiver.advance();
    }
    told
}

/// Source of flags and packet types: rte_mbuf_core.h, rte_mbuf_ptype.h.
fn check_marks(sender: &mut Sender, receiver: &mut Receiver) {
    const HASHED: u64 = 1 << 1;
    let [ipv4, tcp, udp, fragment, icmp] = [0x10, 0x100, 0x200, 0x300, 0x500];
    let vxlan = 0x3000;
    let marks = [
        (HASHED, ipv4 | tcp),
        (HASHED, ipv4 | udp),
        (0, ipv4 | tcp),
        (HASHED, ipv4 | fragment),
        (HASHED, ipv4 | icmp),
        (HASHED, ipv4 | udp | vxlan),
        (HASHED, 0),
        // IP good, transport bad; IP bad; transport neither: left to a device.
        (1 << 7 | 1 << 3, ipv4 | udp),
        (1 << 4, ipv4 | udp),
        (1 << 3 | 1 << 8, ipv4 | udp),
    ];
    let told = marked(sender, receiver, &marks);
    let hashes = told.iter().map(|marks| marks.hash());
    let first = [Some(0x5eed), Some(0x5eed + 1)];
    assert!(hashes.eq(first.into_iter().chain([None; 8])), "{told:?}");
    assert!(told[..7].iter().all(|marks| !marks.is_odd() && marks.time().is_none()));
    let sums = told[7..].iter().map(|m| (m.has_bad_checksum(), m.has_partial_checksum()));
    assert!(sums.eq([(true, false), (true, false), (false, true)]), "{told:?}");
}

/// Returns the undelivered packets.
fn taken(receiver: &mut Receiver) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Some((bytes, _)) = receiver.peek() {
        packets.push(bytes.to_vec());
        receiver.advance();
    }
    packets
}

/// A long packet may be rewritten in its first mbuf; the bytes in the others stay as they are.
fn check_treatment(sender: &mut Sender, receiver: &mut Receiver) {
    send(sender, &[vec![1; 60], vec![2; 9000], vec![3; 61]]);
    assert_eq!(receiver.poll(64), 3);
    let mut lengths = Vec::new();
    receiver.treat(|bytes| {
        lengths.push(bytes.len());
        bytes.fill(7);
        bytes.len() != 61
    });
    let [60, first @ 1514..9000, 61] = lengths[..] else { panic!("{lengths:?}") };
    assert!(taken(receiver) == [vec![7; 60], [vec![7; first], vec![2; 9000 - first]].concat()]);
}

/// One test, because EAL and the leak count belong to the process.
#[test]
fn mbufs_come_and_go_and_a_lost_one_is_noticed() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let ring = device("net_ring0");
    let mut sender = Sender::new(&ring).unwrap();
    let mut receiver = Receiver::new(&ring, 0, 64).unwrap();
    assert!(Receiver::new(&ring, 0, 64).is_err() && Exit::new(&ring).is_err());
    // The third does not fit into an mbuf: it is chained.
    let packets: Vec<Vec<u8>> =
        [60, 1514, 9000, 61, 62].iter().map(|&length| vec![length as u8; length]).collect();
    send(&mut sender, &packets);
    assert_eq!(receiver.poll(64), 5);
    let mut scratch = Scratch::new();
    let mut runs = Vec::new();
    let mut got = Vec::new();
    while receiver.undelivered() > 0 {
        let burst = receiver.lend(&mut scratch, 64, 0, None, |bytes, _| {
            Some((u32::MAX >> 13, Meta::new(0, bytes.len() as u32, 0)))
        });
        runs.push(burst.len());
        got.extend(burst.packets().map(|packet| packet.bytes().to_vec()));
        let again = receiver.lent(&mut scratch);
        let again: Vec<_> = again.packets().map(|packet| packet.bytes().to_vec()).collect();
        assert!(got.ends_with(&again) && again.len() == *runs.last().unwrap());
    }
    assert!(got == packets);
    assert_eq!(runs, [2, 1, 2]);
    // Descs of another burst yield empty packets.
    scratch.clear();
    scratch.push(7, 100, &Meta::new(0, 100, 0));
    assert!(receiver.lent(&mut scratch).packets().all(|packet| packet.bytes().is_empty()));

    check_marks(&mut sender, &mut receiver);
    check_treatment(&mut sender, &mut receiver);

    // Mbufs of another pool, and a chained one, are not plain.
    send(&mut sender, &packets[1..3]);
    assert_eq!(receiver.poll(64), 2);
    let plain = Plain { port: 0, time_ns: 1 };
    assert_eq!(receiver.copy_plain(&mut scratch, 64, plain, |_| unreachable!()), None);
    assert_eq!(receiver.discard(), 2);

    // When the device is closed, some packets are held, some wait in the ring and some are fresh.
    send(&mut sender, &packets[..2]);
    assert_eq!(receiver.poll(1), 1);
    drop((sender, receiver, ring));
    assert_eq!(leaked_mbufs(), 0);

    copied_until_there_is_no_room();
    pushed_until_there_are_no_mbufs();
    mbufs_are_apart();
    assert_eq!(leaked_mbufs(), 0);

    let ring = device("net_ring1");
    let mut sender = Sender::new(&ring).unwrap();
    let mut receiver = Receiver::new(&ring, 0, 64).unwrap();
    send(&mut sender, &packets[..2]);
    assert_eq!(receiver.poll(64), 2);
    // As if another owner had it, which is not true.
    receiver.hand_over(1);
    drop((sender, receiver, ring));
    assert_eq!(leaked_mbufs(), 1);
}

/// Even in small pages, the mbufs of a burst do not share sets of the first cache: each begins a
/// line further in its page than the one before.
fn mbufs_are_apart() {
    let null = device("net_null2");
    let mut receiver = Receiver::new(&null, 0, 64).unwrap();
    assert_eq!(receiver.poll(64), 64);
    let lines = receiver.held.mbufs[..64].iter().map(|mbuf| mbuf.addr() % 4096 / 64);
    let lines: std::collections::BTreeSet<usize> = lines.collect();
    assert!(lines.len() > 48, "64 mbufs begin at {} places of a page: {lines:?}", lines.len());
}

/// A log with room for one packet: the others are delivered one by one.
fn copied_until_there_is_no_room() {
    let null = device("net_null0,size=100");
    let mut receiver = Receiver::new(&null, 0, 8).unwrap();
    let (mut scratch, plain) = (Scratch::new(), Plain { port: 0, time_ns: 1 });
    assert_eq!(receiver.poll(8), 8);
    assert_eq!(receiver.copy_plain(&mut scratch, 7, plain, |_| unreachable!()), None);
    let mut lengths = Vec::new();
    let taken = receiver.copy_plain(&mut scratch, 8, plain, |bytes| {
        let has_room = lengths.is_empty();
        lengths.extend(has_room.then_some(bytes.len()));
        has_room
    });
    assert_eq!((taken, receiver.undelivered()), (Some(1), 7));
    assert!(receiver.lent(&mut scratch).packets().all(|packet| packet.bytes().is_empty()));
    while let Some((bytes, _)) = receiver.peek() {
        lengths.push(bytes.len());
        receiver.advance();
    }
    assert_eq!(lengths, [100; 8]);
}

/// A long packet that finds too few mbufs is not taken. Those it had are free: a short one fits.
fn pushed_until_there_are_no_mbufs() {
    let ring = device("net_ring2");
    let mut sender = Sender::new(&ring).unwrap();
    let mut receiver = Receiver::new(&ring, 0, 64).unwrap();
    let long: Vec<u8> = (0..60_000_u32).map(|at| (at / 7) as u8).collect();
    for _ in 0..2 {
        let mut sent = Vec::new();
        while sender.push(&long) {
            assert_eq!(sender.send(), 1);
            sent.push(long.clone());
        }
        sent.push(vec![5; 60]);
        assert!(sent.len() > 64 && sender.push(&[5; 60]));
        assert_eq!((sender.send(), sender.unsent()), (1, 0));
        let mut got = Vec::new();
        while receiver.poll(64) > 0 {
            got.append(&mut taken(&mut receiver));
        }
        assert!(got == sent, "{} packets of {}", got.len(), sent.len());
    }
}

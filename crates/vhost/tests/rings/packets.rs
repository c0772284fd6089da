//! Packets in all layouts that a driver may use.

use burstline_peer::{FromPeer, LONGEST, Put, Taken};

use crate::guest::{BUFFERS_AT, Desc, FEATURES, GUEST, Guest, words};

fn take(guest: &Guest) -> Vec<Taken> {
    take_into(guest, &mut vec![0; LONGEST])
}

fn take_into(guest: &Guest, room: &mut [u8]) -> Vec<Taken> {
    let mut ring = guest.device.lanes().lane(0).from.take().unwrap();
    let mut all = Vec::new();
    loop {
        match ring.take(room) {
            Taken::Nothing => break,
            taken => all.push(taken),
        }
    }
    assert_eq!(usize::from(ring.publish()), all.len(), "V3");
    guest.device.lanes().lane(0).from.give_back(ring);
    all
}

fn packet(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|byte| (byte % 251) as u8).collect()
}

fn whole(bytes: usize) -> Taken {
    Taken::Packet { bytes, is_partial: false, is_merged: false }
}

#[test]
fn packets_come_whole_in_order_and_over_the_wrap_of_the_index() {
    let mut guest = Guest::start();
    let mut room = vec![0; LONGEST];
    for round in 0..70_000u32 {
        let bytes = 60 + round as usize % 1455;
        guest.send((round % 64) as u16, &packet(bytes));
        assert_eq!(take_into(&guest, &mut room), [whole(bytes)], "{round}");
        assert_eq!(room[..bytes], packet(bytes));
        assert_eq!(guest.used_index(1), (round + 1) as u16);
        assert_eq!(guest.used(1, round as u16), (round % 64, 0));
    }
}

#[test]
fn a_chain_may_be_cut_anywhere_and_its_descriptors_may_be_elsewhere() {
    let mut guest = Guest::start();
    let (at, packet) = (BUFFERS_AT as u64, packet(100));
    guest.write(BUFFERS_AT, &[&[0; 12][..], &packet].concat());
    let mut room = vec![0; LONGEST];
    for cut in 1..112 {
        guest.desc(1, 5, Desc::of(GUEST + at, cut).marked(1, 9));
        guest.desc(1, 9, Desc::of(GUEST + at + u64::from(cut), 112 - cut));
        guest.offer(1, 5);
        // The same in an indirect table.
        let table = [
            (GUEST + at).to_le_bytes().to_vec(),
            words(&[cut, 1 | 1 << 16]),
            (GUEST + at + u64::from(cut)).to_le_bytes().to_vec(),
            words(&[112 - cut, 0]),
        ];
        guest.write(BUFFERS_AT + 0x8000, &table.concat());
        guest.desc(1, 3, Desc::of(GUEST + at + 0x8000, 32).marked(4, 0));
        guest.offer(1, 3);
        assert_eq!(take_into(&guest, &mut room), [whole(100), whole(100)], "{cut}");
        assert_eq!(room[..100], packet);
    }
}

#[test]
fn a_long_packet_takes_several_buffers_where_that_was_agreed() {
    for (features, expected) in [(FEATURES, Put::Done), (FEATURES & !(1 << 15), Put::Unfit)] {
        let mut guest = Guest::with(features);
        for index in 0..4 {
            let at = BUFFERS_AT + 0x1000 * usize::from(index);
            guest.desc(0, index, Desc::of(GUEST + at as u64, 1000).marked(2, 0));
        }
        for index in 0..3 {
            guest.offer(0, index);
        }
        assert_eq!(guest.put(&packet(2500)), expected);
        if expected == Put::Unfit {
            assert_eq!((guest.used_index(0), guest.put(&packet(988))), (0, Put::Done));
            continue;
        }
        assert_eq!(guest.used_index(0), 3);
        assert_eq!([0, 1, 2].map(|index| guest.used(0, index)), [(0, 1000), (1, 1000), (2, 512)]);
        assert_eq!(guest.read::<12>(BUFFERS_AT), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
        let mut all = guest.read::<988>(BUFFERS_AT + 12).to_vec();
        all.extend(guest.read::<1000>(BUFFERS_AT + 0x1000));
        all.extend(guest.read::<512>(BUFFERS_AT + 0x2000));
        assert_eq!(all, packet(2500));
        // One buffer is too few, and stays available.
        guest.offer(0, 3);
        assert_eq!((guest.put(&packet(2500)), guest.used_index(0)), (Put::NoRoom, 3));
        assert_eq!((guest.put(&packet(60)), guest.used_index(0)), (Put::Done, 4));
    }
}

#[test]
fn a_guest_that_wants_its_bell_rung_hears_it_and_one_that_polls_does_not() {
    for (features, polls) in [(FEATURES, false), (FEATURES, true), (FEATURES | 1 << 29, false)] {
        let mut guest = Guest::with(features);
        let call = crate::guest::event();
        guest.say(13, 1u64.to_le_bytes().to_vec(), vec![call.try_clone().unwrap()]).unwrap();
        // Setting the bell rings it once for earlier packets.
        let mut counter = [0; 8];
        rustix::io::read(&call, &mut counter).unwrap();
        if polls {
            guest.write(0x3000, &1u16.to_le_bytes());
        }
        for index in 0..8 {
            guest.send(index, &packet(60));
        }
        // With an event index, the guest wants a bell for the fifth chain, which is among these.
        guest.write(0x3000 + 4 + 128, &4u16.to_le_bytes());
        assert_eq!(take(&guest).len(), 8);
        guest.send(9, &packet(60));
        assert_eq!(take(&guest).len(), 1);
        rustix::fs::fcntl_setfl(&call, rustix::fs::OFlags::NONBLOCK).unwrap();
        let rung = rustix::io::read(&call, &mut counter).map_or(0, |_| u64::from_ne_bytes(counter));
        let expected = if polls {
            0
        } else if features & 1 << 29 != 0 {
            1
        } else {
            2
        };
        assert_eq!(rung, expected, "{features:#x} {polls}");
    }
}

#[test]
fn a_sleeper_is_woken_by_what_comes_and_by_what_is_there() {
    use std::os::fd::AsFd;
    let has_rung = |guest: &Guest| {
        let descriptor = guest.device.lanes().bells().as_fd();
        let mut wanted =
            [rustix::event::PollFd::from_borrowed_fd(descriptor, rustix::event::PollFlags::IN)];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut wanted, Some(&at_once)).unwrap() == 1
    };
    for features in [FEATURES, FEATURES | 1 << 29] {
        let mut guest = Guest::with(features);
        let kick = crate::guest::event();
        guest.say(12, 1u64.to_le_bytes().to_vec(), vec![kick.try_clone().unwrap()]).unwrap();
        guest.device.lanes().bells().lower();
        let arm = |guest: &Guest| guest.device.lanes().lane(0).from.try_look(|ring| ring.arm());
        assert_eq!(arm(&guest), Some(false));
        assert!(!has_rung(&guest));
        match features == FEATURES {
            true => assert_eq!(guest.read::<2>(0x3800), [0, 0], "it is asked to ring"),
            false => assert_eq!(guest.read::<2>(0x3800 + 4 + 512), [0, 0], "at the next one"),
        }
        guest.send(0, &packet(60));
        assert_eq!(arm(&guest), Some(true), "what is there is seen");
        rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
        assert!(has_rung(&guest));
        guest.device.lanes().bells().lower();
        guest.device.lanes().lane(0).from.try_look(|ring| ring.disarm());
        assert_eq!(take(&guest).len(), 1);
    }
}

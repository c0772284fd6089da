//! Device and driver, a step at a time, in every mode.

use std::sync::{Arc, Mutex};

use burstline_log::{Meta, Scratch};

use crate::pcie::{Batch, Bus, Direction, Kind, Work};
use crate::{Arrived, Assembly, Mode, Room, Sending, Settings, Trace, Transmit, Wire, WireState};

/// A wire that delivers given frames, and stores the sent ones.
struct TestWire {
    frames: Vec<Vec<u8>>,
    next: usize,
    can_wait: bool,
    bytes: Vec<u8>,
    scratch: Scratch,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Wire for TestWire {
    fn arrive(&mut self, budget: u64) -> Arrived<'_> {
        self.bytes.clear();
        self.scratch.clear();
        let end = self.frames.len().min(self.next + budget as usize);
        for frame in &self.frames[self.next..end] {
            let meta = Meta::new(1000 + self.next as u64, frame.len() as u32, 0);
            self.scratch.push(self.bytes.len() as u32, frame.len() as u32, &meta);
            self.bytes.extend_from_slice(frame);
            self.next += 1;
        }
        let is_over = self.next == self.frames.len();
        let state = if is_over { WireState::Ended } else { WireState::Busy };
        Arrived { frames: self.scratch.burst(&self.bytes, 0), state }
    }

    fn can_wait(&self) -> bool {
        self.can_wait
    }

    fn depart(&mut self, frame: &[u8]) {
        self.sent.lock().unwrap().push(frame.to_vec());
    }
}

/// Frame `number` with this length: IPv4 and UDP of one of 64 flows, and a pattern.
fn frame(number: usize, length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    frame[34..36].copy_from_slice(&(1000 + number as u16 % 64).to_be_bytes());
    frame
}

fn frames(lengths: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    lengths.into_iter().enumerate().map(|(number, length)| frame(number, length)).collect()
}

fn settings(mode: Mode) -> Settings {
    Settings::new(mode, Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap())
}

type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

fn wire(frames: Vec<Vec<u8>>, can_wait: bool) -> (Box<dyn Wire>, Sent) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (bytes, scratch) = (Vec::new(), Scratch::new());
    let kept = Arc::clone(&sent);
    (Box::new(TestWire { frames, next: 0, can_wait, bytes, scratch, sent }), kept)
}

fn card(settings: &Settings, frames: Vec<Vec<u8>>, can_wait: bool) -> Assembly {
    let room = Room::create(settings, true, false).unwrap();
    Assembly::new(room, wire(frames, can_wait).0, Sending::Nothing, 7, None)
}

/// Checks the ledger of queue `at` against the taken packets, and returns it.
fn check(card: &Assembly, at: usize) -> crate::ReceiveCounts {
    let receiver = &card.receivers[at];
    let counts = receiver.counts();
    let lost = counts.overflowed + counts.reset + counts.link_down + counts.too_long;
    let in_flight = receiver.in_flight(&counts);
    assert_eq!(counts.arrived, receiver.taken() + lost + in_flight, "{counts:?}");
    counts
}

/// Steps and takes until no more packets come from any queue.
fn run(card: &mut Assembly, budget: u64) -> Vec<Vec<u8>> {
    let (mut got, mut idle) = (Vec::new(), 0);
    while idle < 3 {
        let mut is_busy = card.device.step();
        for at in 0..card.receivers.len() {
            let burst = card.receivers[at].lend(budget);
            assert!(burst.len() as u64 <= budget);
            is_busy |= !burst.is_empty();
            for packet in burst.packets() {
                assert_eq!(packet.port(), 7);
                got.push(packet.bytes().to_vec());
            }
            check(card, at);
        }
        idle = if is_busy { 0 } else { idle + 1 };
    }
    assert!(card.receivers.iter().all(|receiver| receiver.is_over()));
    got
}

#[test]
fn every_length_arrives_whole_and_in_order_in_every_mode() {
    let all = frames((60..=1514).chain([9000, 60, 16_000, 61, 4096, 4080, 4081]));
    for mode in Mode::ALL {
        for (ring, buffer, budget) in [(64, 2048, 1024), (512, 256, 7), (16, 16_384, 1)] {
            let settings = Settings { ring, buffer, longest: 16_128, ..settings(mode) };
            let mut card = card(&settings, all.clone(), true);
            let got = run(&mut card, budget);
            assert!(got == all, "{mode} {ring} {buffer}: {} of {}", got.len(), all.len());
            assert_eq!(check(&card, 0).delivered, all.len() as u64);
        }
    }
}

#[test]
fn a_ring_of_one_descriptor_works() {
    let all = frames((0..500).map(|number| 60 + number % 700));
    for mode in [Mode::Writeback, Mode::Inline] {
        let settings = Settings { ring: 1, ..settings(mode) };
        assert!(run(&mut card(&settings, all.clone(), true), 100) == all, "{mode}");
        // A packet that needs two buffers cannot be delivered, and is lost by name.
        let settings = Settings { buffer: 256, ..settings };
        let mut card = card(&settings, frames([100, 600, 101]), true);
        assert_eq!(run(&mut card, 9).len(), 2, "{mode}");
        assert_eq!(check(&card, 0).too_long, 1);
    }
}

#[test]
fn a_driver_that_stops_polling_loses_to_the_fifo_and_nothing_else() {
    for mode in Mode::ALL {
        let (fifo, log_bytes, segment) = (8 << 10, 4 << 12, 1 << 12);
        let settings = Settings { ring: 32, fifo, log_bytes, segment, ..settings(mode) };
        let all = frames((0..2000).map(|_| 200));
        let mut card = card(&settings, all.clone(), false);
        while card.device.step() {}
        let counts = check(&card, 0);
        assert_eq!(counts.arrived, 2000);
        assert!(counts.overflowed > 1500 && counts.in_fifo > 30, "{mode}: {counts:?}");
        let got = run(&mut card, 100);
        assert_eq!(got.len() as u64 + counts.overflowed, 2000, "{mode}");
        assert!(got[..] == all[..got.len()], "{mode}: the first ones came");
    }
}

#[test]
fn a_device_that_restarts_loses_what_was_on_it_by_name() {
    for mode in Mode::ALL {
        let (log_bytes, segment) = (4 << 12, 1 << 12);
        let settings =
            Settings { ring: 32, restart_after: Some(1000), log_bytes, segment, ..settings(mode) };
        let all = frames((0..3000).map(|_| 100));
        let mut card = card(&settings, all.clone(), true);
        let got = run(&mut card, 50);
        let counts = check(&card, 0);
        assert!(counts.reset > 0, "{mode}: {counts:?}");
        assert_eq!(got.len() as u64 + counts.reset, 3000, "{mode}");
        assert!(got.last() == all.last(), "{mode}: it goes on");
    }
}

/// All segments are held when the device restarts: one returned segment is enough to continue.
#[test]
fn a_device_that_restarts_without_a_free_segment_goes_on_with_one() {
    let (log_bytes, segment, longest) = (5 << 12, 1 << 12, 200);
    let settings =
        Settings { window: 3, log_bytes, segment, longest, ..settings(Mode::Contiguous) };
    let settings = Settings { restart_after: Some(2000), ..settings };
    let mut card = card(&settings, frames((0..20_000).map(|_| 100)), false);
    let (mut held, mut is_reset) = (Vec::new(), false);
    for turn in 0.. {
        card.device.step();
        held.extend(std::iter::from_fn(|| card.receivers[0].hold()));
        let before = std::mem::replace(&mut is_reset, check(&card, 0).reset > 256);
        if before && is_reset {
            break;
        }
        assert!(turn < 1000, "it restarts");
    }
    let delivered = check(&card, 0).delivered;
    let segment_of = |held: &burstline_log::HeldBurst| held.burst().start();
    let first = segment_of(&held[0]);
    held.retain(|held| segment_of(held) != first);
    assert!(held.len() > 1, "others are held");
    for _ in 0..4 {
        held.extend(std::iter::from_fn(|| card.receivers[0].hold()));
        card.device.step();
    }
    let counts = check(&card, 0);
    assert!(counts.delivered > delivered, "{counts:?}");
}

#[test]
fn frames_that_come_while_the_link_is_down_or_are_too_long_are_named() {
    for mode in Mode::ALL {
        let settings = Settings { link_down: 10..25, ..settings(mode) };
        let mut all = frames((0..100).map(|_| 90));
        all[50] = frame(50, 1515);
        let mut card = card(&settings, all.clone(), true);
        let got = run(&mut card, 1000);
        let counts = check(&card, 0);
        assert_eq!((counts.link_down, counts.too_long, got.len()), (15, 1, 84), "{mode}");
        assert!(got[..10] == all[..10] && got[10..35] == all[25..50], "{mode}");
    }
}

/// Keeps all packets: in write-back mode until the ring starves, inline until no buffer is free to
/// replace a kept one.
#[test]
fn kept_packets_stay_whole_until_the_buffers_are_used_up() {
    for mode in [Mode::Writeback, Mode::Inline] {
        let settings = Settings { ring: 16, fifo: 4096, spare: Some(8), ..settings(mode) };
        let all = frames((0..400).map(|_| 60));
        let mut card = card(&settings, all.clone(), false);
        let (mut kept, mut got) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            card.device.step();
            let burst = card.receivers[0].lend(1000);
            let lent: Vec<Vec<u8>> = burst.packets().map(|packet| packet.bytes().into()).collect();
            for (index, bytes) in lent.iter().enumerate() {
                if let Some(packet) = card.receivers[0].keep(index) {
                    assert!(card.receivers[0].keep(index).is_none(), "it is kept once");
                    kept.push((packet, bytes.clone()));
                }
            }
            got.extend(lent);
            assert!(card.receivers[0].keep(5000).is_none());
        }
        let counts = check(&card, 0);
        assert_eq!(kept.len(), if mode == Mode::Inline { 8 } else { 24 }, "{mode}");
        assert!(counts.overflowed > 0, "{mode}: {counts:?}");
        for (packet, bytes) in kept {
            assert!(card.receivers[0].scattered().unwrap().kept(&packet) == bytes, "{mode}");
            card.receivers[0].let_go(packet);
        }
        let rest = run(&mut card, 1000).len() as u64;
        let counts = check(&card, 0);
        assert_eq!(got.len() as u64 + rest + counts.overflowed, 400, "{mode}");
    }
}

/// A kept packet that is let go while lent is not overwritten before the rest is returned.
#[test]
fn what_is_lent_stays_as_it_is_whatever_is_let_go() {
    for mode in [Mode::Writeback, Mode::Inline] {
        let settings = Settings { ring: 8, spare: Some(8), ..settings(mode) };
        let mut card = card(&settings, frames((0..100).map(|_| 60)), true);
        card.device.step();
        let lent: Vec<Vec<u8>> =
            card.receivers[0].lend(4).packets().map(|packet| packet.bytes().into()).collect();
        assert!(lent.len() == 4, "{mode}");
        for index in [1, 3] {
            let kept = card.receivers[0].keep(index).unwrap();
            card.receivers[0].let_go(kept);
        }
        card.receivers[0].scattered().unwrap().post(1);
        while card.device.step() {}
        let again: Vec<_> =
            card.receivers[0].lent().packets().map(|packet| packet.bytes()).collect();
        assert!(again == lent, "{mode}");
        let chosen = card.receivers[0].choose(|packet| {
            let is_wanted = packet.bytes() == lent[2];
            is_wanted.then(|| (20, packet.meta()))
        });
        assert_eq!((chosen.len(), chosen.packet(0).bytes()), (1, &lent[2][..20]), "{mode}");
        assert_eq!(run(&mut card, 100).len(), 96, "{mode}");
    }
}

#[test]
fn parts_are_values_and_come_back_to_where_they_are_from() {
    for mode in [Mode::Writeback, Mode::Inline] {
        let all = frames((0..40).map(|_| 60));
        let settings = Settings { ring: 8, ..settings(mode) };
        let [mut card, mut other] = [(); 2].map(|()| card(&settings, all.clone(), true));
        card.device.step();
        other.device.step();
        let driver = card.receivers[0].scattered().unwrap();
        let parts: Vec<_> = std::iter::from_fn(|| driver.next_part()).collect();
        assert_eq!(parts.len(), 8, "{mode}");
        // Nothing is lent in inline mode while parts are out: they would be returned with it.
        let lent = card.receivers[0].lend(100).len();
        assert!(lent == 0 || mode == Mode::Writeback, "{mode}: {lent}");
        let driver = card.receivers[0].scattered().unwrap();
        for (number, mut part) in parts.into_iter().enumerate() {
            assert!(part.is_last() && part.length() == 60);
            let bytes = driver.bytes_mut(&mut part);
            assert!(bytes == all[number], "{mode}");
            bytes.fill(0);
            if number == 5 {
                let stranger = other.receivers[0].scattered().unwrap();
                let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    stranger.bytes_mut(&mut part).fill(1);
                }));
                assert!(refused.is_err(), "{mode}");
            }
            driver.return_part(part);
        }
        driver.post(1);
        card.receivers[0].count(8);
        let rest = run(&mut card, 100);
        assert!(rest[..] == all[8 + lent..], "{mode}: {}", rest.len());
    }
}

/// The exit's ring is shorter than the entry's, and its device slower. Passed parts are returned,
/// however the driver noticed.
#[test]
fn every_part_comes_back_from_a_ring_that_is_full() {
    for mode in [Mode::Writeback, Mode::Inline] {
        let all = frames((0..500).map(|number| 60 + number % 900));
        let settings = Settings { ring: 64, buffer: 512, ..settings(mode) };
        let mut near = card(&settings, all.clone(), true);
        let memory = Arc::clone(near.receivers[0].scattered().unwrap().memory());
        let room = Room::create(&Settings { ring: 4, ..settings }, false, false).unwrap();
        let (wire, sent) = wire(Vec::new(), true);
        let mut far = Assembly::new(room, wire, Sending::Lying(memory), 0, None);
        let Transmit::Ring(exit) = &mut far.transmit else { panic!("it sends") };
        let (mut parts, mut packets, mut came_back) = (Vec::new(), 0, 0);
        for turn in 0.. {
            near.device.step();
            let entry = near.receivers[0].scattered().unwrap();
            exit.reap();
            while let Some((part, was_sent)) = exit.take_back() {
                came_back += u64::from(was_sent && part.is_last());
                entry.return_part(part);
            }
            entry.post(1);
            while parts.last().is_none_or(|part: &crate::Part| !part.is_last()) {
                let Some(part) = entry.next_part() else { break };
                parts.push(part);
            }
            // `room` is called more often than parts are taken back.
            while exit.room(parts.len() as u32) < parts.len() as u32 && turn % 3 > 0 {
                far.device.step();
            }
            let is_whole = parts.last().is_some_and(|part| part.is_last());
            if is_whole && exit.room(parts.len() as u32) >= parts.len() as u32 {
                let total = parts.iter().map(|part| u32::from(part.length())).sum();
                let is_dropped = packets % 7 == 3;
                for part in parts.drain(..) {
                    match is_dropped {
                        true => exit.pass_over(part),
                        false => exit.put(part, total),
                    }
                }
                exit.ring();
                packets += 1;
                near.receivers[0].count(1);
            } else {
                far.device.step();
            }
            if packets == 500 && came_back == 500 - 71 {
                break;
            }
            assert!(turn < 100_000, "{mode}: {packets} handed on, {came_back} came back");
        }
        let kept = all.iter().enumerate().filter(|(number, _)| number % 7 != 3);
        let expected: Vec<_> = kept.map(|(_, frame)| frame.clone()).collect();
        assert!(*sent.lock().unwrap() == expected, "{mode}");
    }
}

/// A wire that panics after some frames.
struct Faulty(Box<dyn Wire>, u64);

impl Wire for Faulty {
    fn arrive(&mut self, budget: u64) -> Arrived<'_> {
        assert!(self.1 > 0, "a faulty wire, as the test wants it");
        self.1 -= 1;
        self.0.arrive(budget.min(10))
    }

    fn can_wait(&self) -> bool {
        self.0.can_wait()
    }

    fn depart(&mut self, frame: &[u8]) {
        self.0.depart(frame);
    }
}

#[test]
fn a_device_that_dies_says_so_and_its_ledger_closes() {
    for mode in Mode::ALL {
        let settings = Settings { ring: 32, ..settings(mode) };
        let room = Room::create(&settings, true, false).unwrap();
        let wire = Faulty(wire(frames((0..1000).map(|_| 60)), false).0, 20);
        let card = Assembly::new(room, Box::new(wire), Sending::Nothing, 7, None);
        let (card, mut receivers, _) = card.start().unwrap();
        let mut got = 0;
        while !card.is_dead() {
            std::thread::yield_now();
        }
        while !receivers[0].is_over() {
            got += receivers[0].lend(7).len() as u64;
        }
        let counts = receivers[0].counts();
        assert!(receivers[0].is_dead() && counts.in_fifo == 0, "{mode}: {counts:?}");
        assert_eq!((counts.arrived, got + counts.reset), (200, 200), "{mode}: {counts:?}");
    }
}

#[test]
fn flows_are_spread_over_queues_by_their_hash() {
    for mode in Mode::ALL {
        let settings = Settings { queues: 4, ..settings(mode) };
        let mut card = card(&settings, frames((0..640).map(|_| 100)), true);
        let mut spreader = crate::rss::Spreader::new(4);
        for _ in 0..20 {
            card.device.step();
            for at in 0..4 {
                for packet in card.receivers[at].lend(1000).packets() {
                    let link = burstline_wire::headers::LinkType::ETHERNET;
                    let headers = burstline_wire::headers::parse(link, packet.bytes());
                    let hash = spreader.hash(&headers, packet.bytes());
                    assert_eq!((packet.desc().hash(), spreader.queue(hash)), (hash, at), "{mode}");
                }
            }
        }
        let each: Vec<u64> = (0..4).map(|at| check(&card, at).delivered).collect();
        assert_eq!(each.iter().sum::<u64>(), 640);
        assert!(each.iter().all(|&packets| packets > 50), "{mode}: {each:?}");
    }
}

/// A running device's account equals the computed one, transaction by transaction.
#[test]
fn the_bus_carries_what_was_computed() {
    for mode in Mode::ALL {
        let (settings, packets) = (settings(mode), 256);
        let mut card = card(&settings, frames((0..packets).map(|_| 60)), true);
        // One step: one batch, which goes straight through.
        card.device.step();
        run(&mut card, 1024);
        let account = card.bus_account();
        let cost = |kind| {
            let mut entries = account.entries().filter(|entry| entry.kind == kind);
            entries.next().map_or(0, |entry| entry.cost.bytes())
        };
        let batch = Batch { descriptors: packets as u64, ..Batch::default() };
        let entries = batch.entries(&settings.bus, mode, Work::Receive, 60);
        for kind in [Kind::PacketWrite, Kind::WriteBack, Kind::PointerWrite] {
            let computed = entries.iter().find(|entry| entry.kind == kind);
            assert_eq!(
                cost(kind),
                computed.map_or(0, |entry| entry.cost.bytes()),
                "{mode} {kind:?}"
            );
        }
        // 8 fetches of 32 descriptors; or one of one descriptor, for a segment.
        let fetched = if mode == Mode::Contiguous { 16 + 20 } else { 8 * (512 + 2 * 20) };
        assert_eq!(cost(Kind::DescriptorCompletion), fetched, "{mode}");
        assert_eq!(cost(Kind::HeadRequest), 0, "no register is read to receive");
        let paper = account.paper_bytes as f64 / packets as f64;
        let expected = [192.0, 128.0, 100.0][Mode::ALL.iter().position(|&m| m == mode).unwrap()];
        assert_eq!(paper, expected, "{mode}");
        assert!(account.bytes(Direction::Up) > 0);
    }
}

#[test]
fn what_is_sent_leaves_as_it_was_and_only_write_back_writes_back() {
    let all = frames((60..=1514).chain([9000, 60, 5000]));
    for mode in Mode::ALL {
        let settings = Settings { ring: 16, buffer: 2048, longest: 16_128, ..settings(mode) };
        let room = Room::create(&settings, false, true).unwrap();
        let (wire, sent) = wire(Vec::new(), true);
        let mut card = Assembly::new(room, wire, Sending::Copies, 0, None);
        assert!(card.receivers.is_empty());
        let (mut scratch, mut bytes) = (Scratch::new(), Vec::new());
        for frame in &all {
            scratch.clear();
            bytes.clear();
            bytes.extend_from_slice(frame);
            scratch.push(0, frame.len() as u32, &Meta::new(0, frame.len() as u32, 0));
            match &mut card.transmit {
                Transmit::Nothing => panic!("it sends"),
                Transmit::Log(log) => {
                    while log.copy(&scratch.burst(&bytes, 0)).0 == 0 {
                        card.device.step();
                    }
                }
                Transmit::Ring(ring) => {
                    let wanted = ring.descriptors(frame.len()).unwrap();
                    while ring.room(wanted) < wanted {
                        card.device.step();
                    }
                    ring.copy(frame);
                    ring.ring();
                }
            }
        }
        while card.device.step() {}
        let in_flight = match &mut card.transmit {
            Transmit::Nothing => 1,
            Transmit::Log(log) => log.in_flight(),
            Transmit::Ring(ring) => {
                ring.reap();
                ring.packets_in_flight()
            }
        };
        assert_eq!(in_flight, 0, "{mode}");
        assert!(*sent.lock().unwrap() == all, "{mode}");
        let account = card.bus_account();
        let has = |kind| account.entries().any(|entry| entry.kind == kind);
        assert_eq!(has(Kind::WriteBack), mode == Mode::Writeback, "{mode}");
        assert_eq!(has(Kind::HeadRequest), mode == Mode::Inline, "{mode}");
        assert_eq!(account.sent, all.len() as u64);
    }
}

/// The paper's lists: six steps each, in order.
#[test]
fn one_packets_way_is_told_step_by_step() {
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for mode in Mode::ALL {
        let text = Shared::default();
        let trace = Trace::new(Box::new(text.clone()));
        let settings = settings(mode);
        let room = Room::create(&settings, true, true).unwrap();
        let (wire, _) = wire(frames([60, 70]), true);
        let mut card = Assembly::new(room, wire, Sending::Copies, 7, Some(&trace));
        assert_eq!(run(&mut card, 9).len(), 2);
        let (mut scratch, bytes) = (Scratch::new(), [1; 64]);
        scratch.push(0, 64, &Meta::new(0, 64, 0));
        match &mut card.transmit {
            Transmit::Nothing => panic!("it sends"),
            Transmit::Log(log) => assert_eq!(log.copy(&scratch.burst(&bytes, 0)), (1, 64)),
            Transmit::Ring(ring) => {
                ring.copy(&bytes);
                ring.ring();
            }
        }
        while card.device.step() {}
        let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
        let mut steps: Vec<&str> =
            text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
        steps.dedup();
        let expected = ["4.1.1", "4.1.2", "4.1.3", "4.1.4", "4.1.5", "4.1.6"];
        assert_eq!(steps[..6], expected, "{mode}\n{text}");
        let expected = ["4.2.1", "4.2.2", "4.2.3", "4.2.4", "4.2.5", "4.2.6"];
        assert_eq!(steps[6..], expected, "{mode}\n{text}");
        assert_eq!(text.contains("descriptor 0: DD"), mode == Mode::Writeback, "{text}");
    }
}

#[test]
fn absurd_settings_are_errors_with_their_numbers() {
    let right = settings(Mode::Inline);
    let wrong = [
        Settings { queues: 0, ..right.clone() },
        Settings { queues: 17, ..right.clone() },
        Settings { ring: 0, ..right.clone() },
        Settings { ring: 3, ..right.clone() },
        Settings { ring: 65_536, ..right.clone() },
        Settings { buffer: 128, ..right.clone() },
        Settings { spare: Some(u32::MAX), ..right.clone() },
        Settings { window: 0, ..right.clone() },
        Settings { window: 9, ..right.clone() },
        Settings { buffer: 32_768, ..right.clone() },
        Settings { longest: 59, ..right.clone() },
        Settings { longest: 16_129, ..right.clone() },
        Settings { fifo: 0, ..right.clone() },
        Settings { fifo: usize::MAX, ..right.clone() },
        Settings { line_bits_per_s: Some(0.0), ..right.clone() },
        Settings { line_bits_per_s: Some(f64::NAN), ..right.clone() },
        Settings { ring: 32_768, buffer: 16_384, queues: 16, ..right.clone() },
        Settings { mode: Mode::Contiguous, segment: 1000, ..right.clone() },
        Settings { mode: Mode::Contiguous, log_bytes: 0, ..right.clone() },
    ];
    for settings in wrong {
        let error = Room::create(&settings, true, true).err();
        assert!(error.is_some_and(|error| !error.to_string().is_empty()), "{settings:?}");
    }
}

#[test]
fn a_transmit_ring_of_one_descriptor_sends_one_packet_after_another() {
    let all = frames((0..300).map(|number| 60 + number));
    for mode in [Mode::Writeback, Mode::Inline] {
        let settings = Settings { ring: 1, longest: 16_128, ..settings(mode) };
        let room = Room::create(&settings, false, true).unwrap();
        let (wire, sent) = wire(Vec::new(), true);
        let mut card = Assembly::new(room, wire, Sending::Copies, 0, None);
        let Transmit::Ring(ring) = &mut card.transmit else { panic!("it sends by descriptors") };
        assert_eq!(ring.descriptors(2049), None, "{mode}: two buffers, and one descriptor");
        for frame in &all {
            while ring.room(1) < 1 {
                assert!(card.device.step(), "{mode}: it goes on");
            }
            ring.copy(frame);
            ring.ring();
        }
        while card.device.step() {}
        ring.reap();
        assert_eq!(ring.packets_in_flight(), 0, "{mode}");
        assert!(*sent.lock().unwrap() == all, "{mode}");
    }
}

#[test]
fn segments_that_are_all_held_lose_to_the_fifo_and_nothing_else() {
    let (fifo, log_bytes, segment, longest) = (8 << 10, 5 << 12, 1 << 12, 200);
    let settings =
        Settings { window: 3, fifo, log_bytes, segment, longest, ..settings(Mode::Contiguous) };
    let mut card = card(&settings, frames((0..2000).map(|_| 100)), false);
    let mut held = Vec::new();
    while card.device.step() {
        held.extend(std::iter::from_fn(|| card.receivers[0].hold()));
        check(&card, 0);
    }
    let counts = check(&card, 0);
    assert!(counts.overflowed > 1500 && counts.in_fifo > 30, "{counts:?}");
    let kept: u64 = held.iter().map(|held| held.burst().len() as u64).sum();
    drop(held);
    let rest = run(&mut card, 1000).len() as u64;
    assert_eq!(kept + rest + counts.overflowed, 2000);
}

#[test]
fn all_queues_of_a_card_restart_together() {
    for mode in Mode::ALL {
        let (log_bytes, segment, longest) = (5 << 12, 1 << 12, 200);
        let settings = Settings { queues: 4, ring: 32, log_bytes, segment, ..settings(mode) };
        let settings = Settings { restart_after: Some(1000), longest, ..settings };
        let mut card = card(&settings, frames((0..3000).map(|_| 100)), false);
        let got = run(&mut card, 50).len() as u64;
        let each: Vec<_> = (0..4).map(|at| check(&card, at)).collect();
        let sum = |of: fn(&crate::ReceiveCounts) -> u64| each.iter().map(of).sum::<u64>();
        assert_eq!((sum(|one| one.arrived), sum(|one| one.delivered)), (3000, got), "{mode}");
        assert_eq!(sum(|one| one.reset + one.overflowed) + got, 3000, "{mode}: {each:?}");
        assert!(sum(|one| one.reset) > 0, "{mode}: {each:?}");
        assert!(each.iter().all(|one| one.delivered > 300), "{mode}: they go on: {each:?}");
    }
}

//! Helpers for tests over real interfaces.

use std::time::{Duration, Instant};

use burstline_afpacket::Sender;
use burstline_log::Scratch;
use burstline_port::{OpenOptions, Port, PortError, PortState, Source};
use burstline_testbed::{Bed, FAR, Frames, Host, NEAR, sequence_of};

use super::{Got, check_ledger, log, source};

/// Long enough for an overloaded machine; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn open(host: &Host, address: &str) -> Box<dyn Source> {
    try_open(host, address, OpenOptions::default()).unwrap()
}

pub(crate) fn try_open(
    host: &Host,
    address: &str,
    options: OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let address = address.to_owned();
    host.run(move || source(&address, &options))
}

/// Sends from the near end, bypassing the queue; panics unless the far end got every frame.
pub(crate) fn send(bed: &Bed, frames: &Frames) -> u64 {
    send_by(bed, frames, true)
}

pub(crate) fn send_by(bed: &Bed, frames: &Frames, bypasses_queue: bool) -> u64 {
    let before = bed.near.counts(NEAR);
    let frames = frames.clone();
    let sent = bed.near.run(move || {
        let mut sender = Sender::open(NEAR, bypasses_queue).unwrap();
        frames.send(&mut sender).unwrap()
    });
    let after = bed.near.counts(NEAR);
    assert_eq!(after.sent_dropped, before.sent_dropped, "the cable lost some");
    sent
}

/// Waits until the port has seen `packets`: a softirq may run later, and on another core.
pub(crate) fn wait_for(port: &dyn Port, packets: u64) {
    let start = Instant::now();
    while port.account().offered < packets {
        assert!(start.elapsed() < PATIENCE, "{packets} packets: {:?}", port.account());
        std::thread::yield_now();
    }
    assert_eq!(port.account().offered, packets);
}

/// Lends until `is_enough` returns true, the port ends, or the timeout expires.
pub(crate) fn lend_until(
    port: &mut dyn Source,
    all: &mut Vec<Got>,
    is_enough: impl Fn(&[Got], &dyn Port) -> bool,
) -> Result<(), PortError> {
    let (mut scratch, start) = (Scratch::new(), Instant::now());
    while !is_enough(all, port) {
        assert!(start.elapsed() < PATIENCE, "{} packets, {:?}", all.len(), port.account());
        let lent = port.lend(&mut scratch, u64::MAX)?;
        assert!(lent.burst.is_empty() || lent.burst.first_packet() == all.len() as u64);
        all.extend(lent.burst.packets().map(|packet| Got::new(&packet)));
        match lent.state {
            PortState::Ended => break,
            PortState::Idle => std::thread::sleep(Duration::from_millis(1)),
            PortState::Busy | PortState::Blocked => {}
        }
    }
    Ok(())
}

/// Lends until another thread has sent the frames of `send`; the ledger is checked throughout.
/// Returns the result of that thread.
pub(crate) fn lend_while<T: Send>(
    port: &mut dyn Source,
    all: &mut Vec<Got>,
    send: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let sender = scope.spawn(send);
        let is_enough = |all: &[Got], port: &dyn Port| {
            check_ledger(port, all.len() as u64);
            sender.is_finished()
        };
        lend_until(port, all, is_enough).unwrap();
        sender.join().unwrap()
    })
}

/// Stops the port and lends the remaining packets.
pub(crate) fn drain(port: &mut dyn Source) -> Vec<Got> {
    let mut all = Vec::new();
    drain_into(port, &mut all);
    all
}

/// As `drain`, but appends to packets lent before.
pub(crate) fn drain_into(port: &mut dyn Source, all: &mut Vec<Got>) {
    port.finish().unwrap();
    lend_until(port, all, |_, _| false).unwrap();
}

/// Stops the port and receives the remaining packets, through a log of 1 MiB.
pub(crate) fn drain_by_receiving(port: &mut dyn Source) -> Vec<Got> {
    let (_log, mut writer, mut reader) = log(256 << 10, 4);
    let (mut all, start) = (Vec::new(), Instant::now());
    port.finish().unwrap();
    loop {
        assert!(start.elapsed() < PATIENCE, "{} packets, {:?}", all.len(), port.account());
        let received = port.receive(&mut writer, 500).unwrap();
        writer.publish();
        if received.state != PortState::Busy {
            while let Some(burst) = reader.next_burst() {
                all.extend(burst.packets().map(|packet| Got::new(&packet)));
            }
        }
        if received.state == PortState::Ended {
            return all;
        }
    }
}

/// Stops the port and receives the remaining packets, through a log of 16 KiB that is often full.
/// Packets that do not fit are in flight, and not lost.
pub(crate) fn drain_through_full_log(port: &mut dyn Source) -> Vec<Got> {
    let (_log, mut writer, mut reader) = log(4 << 10, 4);
    port.finish().unwrap();
    let (mut all, mut blocked) = (Vec::new(), 0);
    loop {
        let received = port.receive(&mut writer, 1_000).unwrap();
        writer.publish();
        blocked += u32::from(received.state == PortState::Blocked);
        let account = port.account();
        let before = all.len() as u64;
        assert_eq!(account.offered, before + received.packets + account.in_flight, "{account:?}");
        while let Some(burst) = reader.next_burst() {
            all.extend(burst.packets().map(|packet| Got::new(&packet)));
        }
        if received.state == PortState::Ended {
            break;
        }
    }
    assert!(blocked > 10, "the log was full {blocked} times");
    all
}

/// Takes the far interface down, renames it to `w9` and brings it up. The port notes each step.
pub(crate) fn rename_far(bed: &Bed, port: &mut dyn Source, all: &mut Vec<Got>) {
    let steps: [(&[&str], &str); 3] = [
        (&["link", "set", FAR, "down"], "v1 is down"),
        (&["link", "set", FAR, "name", "w9"], "v1 was renamed to w9"),
        (&["link", "set", "w9", "up"], "w9 is up again"),
    ];
    for (command, note) in steps {
        bed.far.command("ip", command).unwrap();
        lend_until(port, all, |_, port| notes(port).contains(note)).unwrap();
    }
}

pub(crate) fn notes(port: &dyn Port) -> String {
    port.account().notes.join("; ")
}

pub(crate) fn numbers(packets: &[Got]) -> Vec<u64> {
    packets.iter().map(|packet| sequence_of(&packet.bytes).expect("it is one of ours")).collect()
}

/// Checks that the ledger balances, with nothing in flight.
pub(crate) fn check_closed(port: &dyn Port, offered: u64, delivered: u64) {
    let account = port.account();
    let seen = (account.offered, account.lost.total() + delivered, account.in_flight);
    assert_eq!(seen, (offered, offered, 0), "{account:?}");
}

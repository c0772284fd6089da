//! Helpers for these tests.

use std::sync::atomic::{AtomicBool, Ordering};

use burstline_afpacket::Sender;
use burstline_log::Scratch;
use burstline_port::{Loss, OpenOptions, Port, PortState, Source, open_sources};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, FAR_MAC, Frames, NEAR, NEAR_MAC};

pub(crate) use crate::common::live::{
    PATIENCE, check_closed, drain, drain_by_receiving, drain_into, drain_through_full_log,
    lend_until, lend_while, notes, numbers, open, rename_far, send, try_open, wait_for,
};

/// The modes in which the program can run on a veth.
pub(crate) const MODES: [&str; 2] = ["native", "generic"];

/// Every cause of loss that the port reports.
const CAUSES: [Loss; 5] =
    [Loss::RxRingFull, Loss::FillRingEmpty, Loss::FrameTooSmall, Loss::QueueAdded, Loss::Passed];

/// Returns a bed that allows XDP programs, or prints why not and returns `None`.
pub(crate) fn bed_or_skip() -> Option<Bed> {
    let bed = Bed::or_skip()?;
    match try_open(&bed.far, &format!("xdp:{FAR}"), OpenOptions::default()) {
        Err(error) if error.to_string().contains("setcap") => {
            skip(error);
            None
        }
        other => {
            drop(other.unwrap());
            Some(bed)
        }
    }
}

pub(crate) fn open_far(bed: &Bed, mode: &str, query: &str) -> Box<dyn Source> {
    open(&bed.far, &format!("xdp:{FAR}?mode={mode}&{query}"))
}

/// Opens a port for each queue.
pub(crate) fn open_all(bed: &Bed, address: &str) -> Vec<Box<dyn Source>> {
    let address = address.parse().unwrap();
    bed.far.run(move || open_sources(&address, &OpenOptions::default()).unwrap())
}

/// Sends frames to the far end, which may have seen others before, and waits for all of them.
pub(crate) fn send_to(bed: &Bed, port: &dyn Port, frames: &Frames) -> u64 {
    let before = port.account().offered;
    let sent = send(bed, frames);
    wait_for(port, before + sent);
    sent
}

/// Runs `work` while the near end sends frames, a thousand at a time.
pub(crate) fn under_load(bed: &Bed, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                bed.near.run(|| {
                    let mut sender = Sender::open(NEAR, true).unwrap();
                    Frames::new(1_000, 60).send(&mut sender).unwrap()
                });
            }
        });
        work();
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Takes the available packets, returns their frames, and returns how many there were.
pub(crate) fn empty(port: &mut dyn Source) -> u64 {
    let (mut scratch, mut packets) = (Scratch::new(), 0);
    loop {
        let lent = port.lend(&mut scratch, u64::MAX).unwrap();
        packets += lent.burst.len() as u64;
        if lent.state != PortState::Busy {
            return packets;
        }
    }
}

/// Checks that `packets` were lost for this cause, and none for another.
pub(crate) fn check_lost(port: &dyn Port, cause: Loss, packets: u64) {
    let account = port.account();
    for known in CAUSES {
        let expected = if known == cause { packets } else { 0 };
        assert_eq!(account.lost.of(known), expected, "{known}: {account:?}");
    }
    assert_eq!(account.lost.total(), packets);
}

/// Returns UDP over IPv4 between two ports.
pub(crate) fn datagram(from: u16, to: u16) -> Vec<u8> {
    let mut frame = [FAR_MAC, NEAR_MAC].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([from.to_be_bytes(), to.to_be_bytes(), [0, 26], [0, 0]].concat());
    frame.resize(60, 0);
    frame
}

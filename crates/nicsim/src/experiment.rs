//! The paper's experiment and its drawback: measures the cost of a driver.
//!
//! ```text
//!   device.step()   a batch arrives: not timed, a card would do it
//!   driver part     timed: lend and read; or from ring to ring; or keep some of it
//! ```
//!
//! Device and driver take turns on one core, so everything is in its cache. This measures the cost
//! of instructions, without that of cache lines that come from a device. Wires are carousels: the
//! caller supplies the frames, the same in every mode.

mod keep;
mod pair;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{
    Assembly, BusAccount, CardError, Carousel, LogTransmitter, Receiver, Room, Sending, Settings,
    Transmit, Transmitter,
};

pub use keep::{Keeping, Retained, Retention};
pub use pair::{Lane, Pair, Passed};

/// Packets per call of a driver.
const BATCH: u64 = 1024;

/// The work of a driver, and its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Packets taken.
    pub packets: u64,
    /// Time in the driver's part alone.
    pub time: Duration,
}

impl Cost {
    /// Returns the nanoseconds per packet; NaN without packets.
    #[must_use]
    pub fn ns_a_packet(&self) -> f64 {
        self.time.as_secs_f64() * 1e9 / self.packets as f64
    }

    fn add(&mut self, packets: u64, since: Instant) {
        self.packets += packets;
        self.time += since.elapsed();
    }
}

fn carousel(frames: &[Vec<u8>]) -> Box<Carousel> {
    Box::new(Carousel::new(frames.iter().map(|frame| &frame[..])))
}

/// Returns what a card sends if it forwards the packets of `room` in place.
fn sending_of(room: &Room) -> Result<Sending, CardError> {
    Ok(match (room.memory(), room.reader()) {
        (Some(memory), _) => Sending::Lying(Arc::clone(memory)),
        (None, Some(reader)) => Sending::Log(Box::new(reader?)),
        (None, None) => Sending::Nothing,
    })
}

fn receiving(settings: &Settings, frames: &[Vec<u8>]) -> Result<Assembly, CardError> {
    let room = Room::create(settings, true, false)?;
    Ok(Assembly::new(room, carousel(frames), Sending::Nothing, 0, None))
}

/// Receives and counts packets.
pub struct Reception {
    card: Assembly,
    /// Cost so far.
    pub cost: Cost,
}

impl Reception {
    /// Creates one card.
    ///
    /// # Errors
    /// The card cannot be created.
    pub fn new(settings: &Settings, frames: &[Vec<u8>]) -> Result<Self, CardError> {
        Ok(Self { card: receiving(settings, frames)?, cost: Cost::default() })
    }

    /// Processes a batch.
    pub fn step(&mut self) {
        self.card.device.step();
        let start = Instant::now();
        let (packets, bytes) = receive_part(&mut self.card.receivers[0]);
        std::hint::black_box(bytes);
        self.cost.add(packets, start);
    }
}

/// The driver's part of receiving; returns packets and bytes. A separate function for profilers.
#[inline(never)]
pub fn receive_part(receiver: &mut Receiver) -> (u64, u64) {
    let burst = receiver.lend(BATCH);
    let bytes = burst.worklist().iter().map(|desc| u64::from(desc.length())).sum();
    (burst.len() as u64, bytes)
}

/// Forwards packets from one card to another without copies. It is one direction of a [`Pair`],
/// with device and driver in turns.
pub struct Forwarding {
    near: Assembly,
    far: Assembly,
    /// Cost so far.
    pub cost: Cost,
}

impl Forwarding {
    /// Creates two cards with the same settings.
    ///
    /// # Errors
    /// The cards cannot be created.
    pub fn new(settings: &Settings, frames: &[Vec<u8>]) -> Result<Self, CardError> {
        let room = Room::create(settings, true, false)?;
        let sending = sending_of(&room)?;
        let near = Assembly::new(room, carousel(frames), Sending::Nothing, 0, None);
        let room = Room::create(settings, false, false)?;
        let far = Assembly::new(room, carousel(&[]), sending, 0, None);
        Ok(Self { near, far, cost: Cost::default() })
    }

    /// Processes a batch.
    pub fn step(&mut self) {
        self.near.device.step();
        let start = Instant::now();
        let packets = forward_part(&mut self.near.receivers[0], &mut self.far.transmit);
        self.cost.add(packets, start);
        while self.far.device.step() {}
    }

    /// Returns the sum of both bus accounts.
    pub fn bus_account(&mut self) -> BusAccount {
        self.near.bus_account().and(&self.far.bus_account())
    }
}

/// The driver's part of forwarding; returns packets. A separate function for profilers.
#[inline(never)]
pub fn forward_part(entry: &mut Receiver, exit: &mut Transmit) -> u64 {
    match exit {
        Transmit::Nothing => 0,
        Transmit::Ring(exit) => forward_ring(entry, exit),
        Transmit::Log(exit) => forward_log(entry, exit),
    }
}

fn forward_log(entry: &mut Receiver, exit: &mut LogTransmitter) -> u64 {
    let packets = entry.lend(BATCH).len() as u64;
    exit.allow(packets);
    packets
}

fn forward_ring(receiver: &mut Receiver, exit: &mut Transmitter) -> u64 {
    let Some(entry) = receiver.scattered() else { return 0 };
    exit.reap();
    while let Some((part, _)) = exit.take_back() {
        entry.return_part(part);
    }
    entry.post(1);
    let mut packets = 0;
    while exit.room(1) > 0
        && let Some(part) = entry.next_part()
    {
        let length = part.length().into();
        exit.put(part, length);
        packets += 1;
    }
    exit.ring();
    receiver.count(packets);
    packets
}

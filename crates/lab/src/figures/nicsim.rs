//! A simulated card in its three modes: what the driver costs, on one core, and which line rate
//! device and driver keep up with, on two.
//!
//! The driver is what a host would run; the device is our own, so its cost is nobody's: only the
//! driver's part is timed, a batch of 256 packets of 64 bytes at a time. Ours is a mode of the
//! documents, the peer is descriptor write-back, which every card has.

use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_nicsim::pcie::Bus;
use burstline_nicsim::{
    Assembly, Carousel, Mode, Receiver, Room, Sending, Settings, Transmit, Transmitter,
};
use burstline_sys::affinity;

use super::Context;
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::report::{Better, Figure, Outcome};

/// A 64-byte frame without its FCS.
const PACKET_BYTES: usize = 60;
/// Packets of a step of the device.
const BATCH: u64 = 256;
/// Ten gigabits, and forty, on the line.
const LINES: [f64; 2] = [10e9, 40e9];

/// `nicsim-rx-64` and `nicsim-rx-contiguous-64`: received and counted.
pub(super) fn receive(context: &Context, name: &str) -> Result<Outcome, String> {
    let mode = if name.contains("contiguous") { Mode::Contiguous } else { Mode::Inline };
    compare(context, name, mode, |mode, steps| {
        let mut card = card(mode)?;
        let mut scratch = Scratch::new();
        let time = stepped(steps, || {
            card.device.step();
            let start = Instant::now();
            let packets = count(&mut card.receivers[0], &mut scratch).0;
            (packets, start.elapsed())
        });
        Ok(time)
    })
}

/// `nicsim-bounce-64`: in by one card, out by another, from ring to ring.
pub(super) fn bounce(context: &Context, name: &str) -> Result<Outcome, String> {
    compare(context, name, Mode::Inline, |mode, steps| {
        let mut near = card(mode)?;
        let settings = settings(mode, None)?;
        let room = Room::create(&settings, false, false).map_err(|error| error.to_string())?;
        let memory = near.receivers[0].scattered().map(|driver| driver.memory().clone());
        let sending = memory.map_or(Sending::Nothing, Sending::Lying);
        let wire = Box::new(Carousel::new([]));
        let mut far = Assembly::new(&settings, room, (wire, sending), 0, None);
        let Transmit::Ring(mut exit) = std::mem::replace(&mut far.transmit, Transmit::Nothing)
        else {
            return Err("no transmit ring".to_owned());
        };
        let mut parts = Vec::with_capacity(2 * BATCH as usize);
        let time = stepped(steps, || {
            near.device.step();
            let start = Instant::now();
            let packets = hand_on(&mut near.receivers[0], &mut exit, &mut parts);
            let time = start.elapsed();
            while far.device.step() {}
            (packets, time)
        });
        Ok(time)
    })
}

/// The driver's part of a bounce: what was sent goes back, what has come goes on.
fn hand_on(
    entry: &mut Receiver,
    exit: &mut Transmitter,
    parts: &mut Vec<burstline_nicsim::Part>,
) -> u64 {
    let Some(entry) = entry.scattered() else { return 0 };
    let done = exit.reap() as usize;
    parts.drain(..done).for_each(|part| entry.return_part(&part));
    entry.post(1);
    let mut packets = 0;
    while exit.room(1) > 0
        && let Some(part) = entry.next_part()
    {
        exit.put(part.at, part.length, (part.is_last, part.length.into()));
        parts.push(part);
        packets += 1;
    }
    exit.ring();
    packets
}

fn compare(
    context: &Context,
    name: &str,
    mode: Mode,
    mut ns_a_packet: impl FnMut(Mode, u64) -> Result<(u64, Duration), String>,
) -> Result<Outcome, String> {
    let steps = if context.smoke { 8 } else { 20_000 };
    // If a core cannot be had, all run where the kernel puts them.
    let _ = affinity::pin_to(context.cores.producer);
    let conditions = Conditions::watch(context.cores);
    let mut side = |mode| {
        let (packets, time) = ns_a_packet(mode, steps)?;
        if packets < steps * BATCH / 2 {
            return Err(format!("{packets} packets in {steps} batches of {BATCH}"));
        }
        Ok(time.as_secs_f64() * 1e9 / packets as f64)
    };
    let side = std::cell::RefCell::new(&mut side);
    let rounds = alternate(
        context.runs,
        &context.stop,
        || side.borrow_mut()(mode),
        || side.borrow_mut()(Mode::Writeback),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!("ours: {mode}; peer: descriptors written back; the driver's part alone, timed"),
        format!("{steps} batches of {BATCH} packets of {PACKET_BYTES} bytes, all in the cache"),
        "instructions: cargo test --release -p burstline-nicsim --test cost -- --ignored \
         --nocapture"
            .to_owned(),
    ];
    if !name.contains("bounce") {
        for (line, mode) in LINES.into_iter().flat_map(|line| Mode::ALL.map(|mode| (line, mode))) {
            details.push(sustained(context, mode, line)?);
        }
    }
    details.extend(conditions.report());
    let (name, better, unit) = (name.to_owned(), Better::Lower, "ns");
    Ok(Outcome::Measured(Figure { name, unit, better, rounds, details }))
}

fn settings(mode: Mode, line_bits_per_s: Option<f64>) -> Result<Settings, String> {
    let link = "3.0x8".parse()?;
    let bus = Bus::new(link, 256, 512).map_err(|error| error.to_string())?;
    let settings = Settings::new(mode, bus);
    Ok(Settings { ring: 1024, log_bytes: 8 << 20, line_bits_per_s, ..settings })
}

fn card(mode: Mode) -> Result<Assembly, String> {
    assemble(&settings(mode, None)?)
}

fn assemble(settings: &Settings) -> Result<Assembly, String> {
    let frames: Vec<[u8; PACKET_BYTES]> = (0..1024).map(|n| [n as u8; PACKET_BYTES]).collect();
    let wire = Box::new(Carousel::new(frames.iter().map(|frame| &frame[..])));
    let room = Room::create(settings, true, false).map_err(|error| error.to_string())?;
    Ok(Assembly::new(settings, room, (wire, Sending::Nothing), 0, None))
}

/// Packets and time of so many steps, the first few left out.
fn stepped(steps: u64, mut step: impl FnMut() -> (u64, Duration)) -> (u64, Duration) {
    for _ in 0..4 {
        step();
    }
    let mut sum = (0, Duration::ZERO);
    for _ in 0..steps {
        let (packets, time) = step();
        sum = (sum.0 + packets, sum.1 + time);
    }
    sum
}

/// Receives and counts: packets and bytes.
fn count(receiver: &mut Receiver, scratch: &mut Scratch) -> (u64, u64) {
    let burst = receiver.lend(scratch, 1024);
    let bytes = burst.worklist().iter().map(|desc| u64::from(desc.length())).sum();
    (burst.len() as u64, bytes)
}

/// Device and driver on a core each, at a line rate, for a second.
fn sustained(context: &Context, mode: Mode, line: f64) -> Result<String, String> {
    let assembly = assemble(&settings(mode, Some(line))?)?;
    // The device's thread inherits its core.
    let _ = affinity::pin_to(context.cores.producer);
    let (card, mut receivers, _) = assembly.start().map_err(|error| error.to_string())?;
    let _ = affinity::pin_to(context.cores.consumer);
    let (mut scratch, start) = (Scratch::new(), Instant::now());
    let mut packets = 0;
    while start.elapsed() < Duration::from_secs(1) {
        packets += count(&mut receivers[0], &mut scratch).0;
    }
    let seconds = start.elapsed().as_secs_f64();
    let counts = receivers[0].counts();
    drop(card);
    let _ = affinity::pin_to(context.cores.producer);
    let (rate, gigabits) = (packets as f64 / seconds / 1e6, line / 1e9);
    let lost = counts.overflowed;
    Ok(format!("two cores, line of {gigabits} Gbit/s, {mode}: {rate:.2} Mpps, {lost} lost"))
}

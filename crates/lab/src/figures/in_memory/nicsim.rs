//! Measures a simulated card in its three modes: the driver's cost on one core, and the line rate
//! that device and driver sustain on two.
//!
//! The driver is what a host would run. The device is our simulation, so its cost does not count:
//! only the driver's part is timed, 256 packets of 64 bytes at a time. Ours is a mode of the
//! documents, the peer is descriptor write-back, which every card has. Then each mode runs at line
//! rate. Frames lost in the FIFO are counted, and those for which the device had no time.

use std::time::{Duration, Instant};

use burstline_log::LogConfig;
use burstline_nicsim::experiment::{Cost, Forwarding, Pair, Reception, receive_part};
use burstline_nicsim::pcie::Bus;
use burstline_nicsim::{
    Assembly, Card, CardError, Carousel, Mode, ReceiveCounts, Receiver, Room, Sending, Settings,
};
use burstline_sys::affinity;
use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::figures::kept_up::{KeptUp, lost};

/// A 64-byte frame without its FCS.
const PACKET_BYTES: usize = 60;
/// Its size on the line, with FCS, preamble and gap.
const ON_LINE_BYTES: usize = PACKET_BYTES + (FCS_BYTES + GAP_BYTES) as usize;
/// Packets per step of the device.
const BATCH: u64 = 256;
/// Duration of a run at line rate, and number of runs.
const SUSTAINED: Duration = Duration::from_secs(1);
const TRIES: usize = 3;

/// `nicsim-rx-64` and `nicsim-rx-contiguous-64`: packets are received and counted.
pub(crate) fn receive(context: &Context, name: &str) -> Result<Outcome, String> {
    let is_contiguous = name.contains("contiguous");
    let mode = if is_contiguous { Mode::Contiguous } else { Mode::Inline };
    let lines: &[(Mode, f64)] = match is_contiguous {
        true => &[(Mode::Contiguous, 10e9), (Mode::Contiguous, 40e9)],
        false => &[(Mode::Writeback, 10e9), (Mode::Inline, 10e9)],
    };
    let details = |lines: &[(Mode, f64)]| {
        let each = lines.iter().map(|&(mode, line)| sustained(context, mode, line, false));
        each.collect::<Result<Vec<_>, _>>()
    };
    let step = |mode, steps| {
        let mut reception =
            Reception::new(&settings(mode, None)?, &frames()).map_err(|error| error.to_string())?;
        Ok(stepped(steps, || {
            reception.step();
            reception.cost
        }))
    };
    compare(context, mode, step, || details(lines))
}

/// `nicsim-bounce-64`: packets are received by one card and sent by another, from ring to ring.
pub(crate) fn bounce(context: &Context, _: &str) -> Result<Outcome, String> {
    let step = |mode, steps| {
        let mut forwarding = Forwarding::new(&settings(mode, None)?, &frames())
            .map_err(|error| error.to_string())?;
        Ok(stepped(steps, || {
            forwarding.step();
            forwarding.cost
        }))
    };
    compare(context, Mode::Inline, step, || {
        let contiguous = ns_a_packet(step, Mode::Contiguous, steps(context))?;
        let mut details = vec![format!("contiguous, by log: {contiguous:.2} ns a packet")];
        for mode in Mode::ALL {
            details.push(sustained(context, mode, 10e9, true)?);
        }
        Ok(details)
    })
}

fn steps(context: &Context) -> u64 {
    if context.smoke { 8 } else { 20_000 }
}

fn ns_a_packet(
    run: impl Fn(Mode, u64) -> Result<Cost, String>,
    mode: Mode,
    steps: u64,
) -> Result<f64, String> {
    let cost = run(mode, steps)?;
    match cost.packets >= steps * BATCH / 2 {
        true => Ok(cost.ns_a_packet()),
        false => Err(format!("{} packets in {steps} batches of {BATCH}", cost.packets)),
    }
}

fn compare(
    context: &Context,
    mode: Mode,
    run: impl Fn(Mode, u64) -> Result<Cost, String>,
    more: impl FnOnce() -> Result<Vec<String>, String>,
) -> Result<Outcome, String> {
    let steps = steps(context);
    // If pinning fails, the kernel chooses the core.
    let _ = affinity::pin_to(context.cores.producer);
    let comparison = context.begin();
    let rounds = context.alternate(
        context.runs,
        || ns_a_packet(&run, mode, steps),
        || ns_a_packet(&run, Mode::Writeback, steps),
    )?;
    let mut details = vec![
        format!("ours: {mode}; peer: descriptors written back; the driver's part alone, timed"),
        format!("{steps} batches of {BATCH} packets of {PACKET_BYTES} bytes, all in the cache"),
        "instructions: cargo test --release -p burstline-nicsim --test cost -- --ignored \
         --nocapture"
            .to_owned(),
    ];
    details.extend(more()?);
    Ok(comparison.outcome("ns", Better::Lower, rounds, details).here())
}

fn settings(mode: Mode, line_bits_per_s: Option<f64>) -> Result<Settings, String> {
    let link = "3.0x8".parse()?;
    let bus = Bus::new(link, 256, 512).map_err(|error| error.to_string())?;
    let settings = Settings::new(mode, bus);
    let segment = LogConfig::default().segment_bytes;
    Ok(Settings { ring: 2048, log_bytes: 32 * segment, segment, line_bits_per_s, ..settings })
}

fn frames() -> Vec<Vec<u8>> {
    (0..1024).map(|number| vec![number as u8; PACKET_BYTES]).collect()
}

/// Returns the cost of this many steps after a few for warm-up; `step` returns the total so far.
fn stepped(steps: u64, mut step: impl FnMut() -> Cost) -> Cost {
    for _ in 0..3 {
        step();
    }
    let before = step();
    let mut after = before;
    for _ in 0..steps {
        after = step();
    }
    Cost { packets: after.packets - before.packets, time: after.time - before.time }
}

/// Runs device and driver on a core each at line rate for a second, several times. With `forwards`,
/// packets also leave by another card, whose device shares the first one's core.
fn sustained(context: &Context, mode: Mode, line: f64, forwards: bool) -> Result<String, String> {
    let (tries, time) = match context.smoke {
        true => (1, Duration::from_millis(10)),
        false => (TRIES, SUSTAINED),
    };
    let due = line / (ON_LINE_BYTES * 8) as f64 / 1e6;
    let mut said = Vec::new();
    for number in 1..=tries {
        let settings = settings(mode, Some(line))?;
        let Second { counts, seconds, kept_up } = keep_up(context, &settings, time, forwards)?;
        let (rate, lost) = (counts.delivered as f64 / seconds / 1e6, lost(&counts));
        let one = format!("{rate:.2} Mpps, {lost} lost, {kept_up}");
        if !context.smoke {
            let gigabits = line / 1e9;
            eprintln!("nicsim: {mode}, {gigabits} Gbit/s, {number} of {tries}: {one}");
        }
        said.push(one);
    }
    let work = if forwards { "forwarded, three threads" } else { "received" };
    let gigabits = line / 1e9;
    let all = said.join("; ");
    Ok(format!("two cores, {work}, {mode}, {gigabits} Gbit/s, {due:.2} Mpps due: {all}"))
}

/// The result of a second or of the given time.
struct Second {
    counts: ReceiveCounts,
    seconds: f64,
    /// A description.
    kept_up: String,
}

fn keep_up(
    context: &Context,
    settings: &Settings,
    time: Duration,
    forwards: bool,
) -> Result<Second, String> {
    // The devices' threads inherit this core.
    let _ = affinity::pin_to(context.cores.producer);
    let mut cards = Cards::start(settings, forwards).map_err(|error| error.to_string())?;
    let _ = affinity::pin_to(context.cores.consumer);
    let start = Instant::now();
    let before = cards.counts();
    let line = settings.line_bits_per_s.unwrap_or(0.0);
    let mut kept_up = KeptUp::new(line / (ON_LINE_BYTES * 8) as f64, before);
    while start.elapsed() < time {
        (0..16).for_each(|_| cards.step());
        kept_up.look(start.elapsed(), || cards.counts());
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut counts = cards.counts();
    counts.overflowed -= before.overflowed;
    counts.delivered -= before.delivered;
    drop(cards);
    let _ = affinity::pin_to(context.cores.producer);
    Ok(Second { counts, seconds, kept_up: kept_up.said() })
}

/// Running cards with the driver.
enum Cards {
    /// The driver receives and counts packets.
    One { _card: Card, receiver: Box<Receiver> },
    /// The driver forwards packets to a second card.
    Two(Box<Pair>),
}

impl Cards {
    fn start(settings: &Settings, forwards: bool) -> Result<Self, CardError> {
        let frames = frames();
        if forwards {
            return Ok(Self::Two(Box::new(Pair::start(settings, &frames, false)?)));
        }
        let room = Room::create(settings, true, false)?;
        let wire = Box::new(Carousel::new(frames.iter().map(|frame| &frame[..])));
        let (card, mut receivers, _) =
            Assembly::new(room, wire, Sending::Nothing, 0, None).start()?;
        Ok(Self::One { _card: card, receiver: Box::new(receivers.remove(0)) })
    }

    #[inline]
    fn step(&mut self) {
        match self {
            Self::One { receiver, .. } => {
                std::hint::black_box(receive_part(receiver));
            }
            Self::Two(pair) => {
                pair.lanes[0].step();
            }
        }
    }

    fn counts(&self) -> ReceiveCounts {
        match self {
            Self::One { receiver, .. } => receiver.counts(),
            Self::Two(pair) => pair.lanes[0].counts(),
        }
    }
}

//! Measures drivers of simulated cards: packet forwarding and packet retention.
//!
//! ```text
//!   dma    driver alone: device, driver, device, ... in turns on one core     host_ns, bus bytes
//!   dma    driver alone: device, driver, device, ... in turns on one core     host_ns, bus bytes
//!          two running cards: 2 devices, 2 drivers, one thread each            run_mpps
//! ```
//!
//! For forwarding, `link_mpps`, `bus_mpps` and `host_mpps` are the capacities of two links, the
//! slot and two cores. The smallest of them is `mpps`.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_nicsim::experiment::{Forwarding, Keeping, Lane, Pair, Passed, Retention};
use burstline_nicsim::pcie::{Bus, Direction};
use burstline_nicsim::{Mode, Settings};
use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

use super::{Adapter, Job, Sample, timed};
use crate::contest::go_on;
use crate::scenario::Work;

/// The paper's slot with its max payload; the max read request is our choice.
/// Source: Bi and Wang, DPDK-based Improvement of Packet Forwarding, section 4.
const SLOT: (&str, u64, u64) = ("2.0x8", 256, 512);

/// Ports of the paper's card. Each is one direction with its own core.
const PORTS: f64 = 2.0;

/// Number of frames, sent over and over.
const FRAMES: u64 = 4096;

/// Batches between two readings of the clock.
const STEPS: usize = 64;

/// The longest frame that the cards accept, without FCS: the usual default of a card.
const LONGEST: usize = 1514;

/// A kept packet is released after this many further packets.
const SPAN: u64 = 16_384;

/// Packets in a retention turn, unless the job sets the number.
const PACKETS: u64 = 2_000_000;

fn settings(mode: Mode) -> Result<Settings, String> {
    let (slot, payload, request) = SLOT;
    let bus = Bus::new(slot.parse()?, payload, request).map_err(|error| error.to_string())?;
    Ok(Settings { ring: 1024, log_bytes: 8 << 20, longest: LONGEST, ..Settings::new(mode, bus) })
}

/// Returns frames of a size in the syntax of `gen:`, the same ones each time.
fn frames(size: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut port = super::open(&format!("gen:?size={size}&flows=64&packets={FRAMES}"))?;
    let (mut frames, mut scratch) = (Vec::new(), Scratch::new());
    loop {
        let lent = port.lend(&mut scratch, FRAMES).map_err(|error| error.to_string())?;
        if lent.burst.is_empty() {
            break;
        }
        frames.extend(lent.burst.packets().map(|packet| packet.bytes().to_vec()));
    }
    match frames.iter().map(Vec::len).max() {
        Some(longest) if longest > LONGEST => Err(format!(
            "size {size} has frames of {} bytes; the simulated cards take {} at most",
            longest + FCS_BYTES as usize,
            LONGEST + FCS_BYTES as usize
        )),
        _ => Ok(frames),
    }
}

/// Describes what [`forward`] does.
pub(super) fn command(mode: Mode) -> String {
    let (slot, payload, request) = SLOT;
    format!("two simulated cards, {mode}, slot {slot}, max payload {payload}, request {request}")
}

/// Forwards packets both ways between two cards. If the job sets packets, only the driver runs.
pub(super) fn forward(job: &Job<'_>, mode: Mode) -> Result<Sample, String> {
    let (settings, size) = (settings(mode)?, job.case.unwrap_or("64"));
    let frames = frames(size)?;
    let mut sample = Sample::default();
    // Run this before pinning this thread, because the devices' threads would inherit the core.
    if job.packets.is_none() {
        run(job, &settings, &frames, &mut sample)?;
    }
    timed::pin(job)?;
    let forwarding = Forwarding::new(&settings, &frames).map_err(|error| error.to_string());
    let (mut forwarding, began) = (forwarding?, Instant::now());
    while job.goes_on(forwarding.cost.packets as usize, began.elapsed().as_nanos() as u64) {
        go_on(job.stop)?;
        (0..STEPS).for_each(|_| forwarding.step());
    }
    let (account, host_ns) = (forwarding.bus_account(), forwarding.cost.ns_a_packet());
    let each = |bytes: u64| bytes as f64 / account.received as f64;
    let (up, down) = (each(account.bytes(Direction::Up)), each(account.bytes(Direction::Down)));
    let bytes: usize = frames.iter().map(Vec::len).sum();
    let line_bits = (bytes as f64 / frames.len() as f64 + f64::from(FCS_BYTES + GAP_BYTES)) * 8.0;
    let link_mpps = PORTS * job.link_gbps * 1e3 / line_bits;
    let bus_mpps = settings.bus.bytes_per_s() / up.max(down) / 1e6;
    let host_mpps = PORTS * 1e3 / host_ns;
    let least = link_mpps.min(bus_mpps).min(host_mpps);
    sample.set("packets", "packets", forwarding.cost.packets as f64);
    sample.set("host_ns", "ns per packet", host_ns);
    sample.set("bus_up_bytes", "bytes per packet", up);
    sample.set("bus_down_bytes", "bytes per packet", down);
    sample.set("bus_paper_bytes", "bytes per packet", each(account.paper_bytes));
    sample.set("link_mpps", "Mpps", link_mpps);
    sample.set("bus_mpps", "Mpps", bus_mpps);
    sample.set("host_mpps", "Mpps", host_mpps);
    sample.set("mpps", "Mpps", least);
    sample.set_on("line_gbps", "Gbit/s", "line", least * line_bits / 1e3);
    Ok(sample)
}

/// Runs both cards at full speed for the job's time.
fn run(
    job: &Job<'_>,
    settings: &Settings,
    frames: &[Vec<u8>],
    sample: &mut Sample,
) -> Result<(), String> {
    let pair = Pair::start(settings, frames, true).map_err(|error| error.to_string());
    let (mut pair, began) = (pair?, Instant::now());
    let drive = |lane: &mut Lane| -> (f64, Passed) {
        // Relaxed: no other data depends on the flag.
        lane.drive(|_| began.elapsed() < job.time && !job.stop.load(Relaxed));
        let seconds = began.elapsed().max(Duration::from_nanos(1)).as_secs_f64();
        (lane.sent() as f64 / seconds, lane.finish())
    };
    let lanes: Vec<(f64, Passed)> = thread::scope(|scope| {
        let lanes = pair.lanes.iter_mut().map(|lane| scope.spawn(move || drive(lane)));
        let lanes: Vec<_> = lanes.collect();
        lanes.into_iter().map(|lane| lane.join()).collect::<Result<_, _>>()
    })
    .map_err(|_| "a driver panicked".to_owned())?;
    go_on(job.stop)?;
    let packets_per_s: f64 = lanes.iter().map(|(rate, _)| rate).sum();
    sample.set("run_mpps", "Mpps", packets_per_s / 1e6);
    for (_, passed) in lanes {
        let missing = passed.unaccounted.unsigned_abs();
        for (name, packets) in [("run", passed.lost), ("run, unaccounted for", missing)] {
            if packets > 0 {
                *sample.losses.entry(name.to_owned()).or_default() += packets;
            }
        }
    }
    Ok(())
}

/// A method of keeping packets.
pub(super) struct Keeper(&'static str, Keeping);

impl Keeper {
    pub(super) const WRITEBACK: Self = Self("keep-writeback", Keeping::Writeback);
    pub(super) const INLINE: Self = Self("keep-inline", Keeping::Inline);
    pub(super) const SEGMENTS: Self = Self("keep-contiguous-segments", Keeping::Segments);
    pub(super) const COPIES: Self = Self("keep-contiguous-copied", Keeping::Copies);
}

impl Adapter for Keeper {
    fn name(&self) -> &'static str {
        self.0
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Keep]
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn command(&self, _: &Job<'_>) -> String {
        format!("a simulated card and an application, {}, until {SPAN} more come", self.1.name())
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        timed::pin(job)?;
        let every = job.case.map_or(Ok(1), str::parse);
        let every = every.map_err(|error| format!("1 packet in N: {error}"))?;
        let packets = job.packets.unwrap_or(PACKETS);
        let retention = Retention { every, span: SPAN, packets, stop: job.stop };
        let frames = frames(&job.size_bytes.to_string())?;
        let kept = retention.run(&settings(self.1.mode())?, self.1, &frames);
        let kept = kept.map_err(|error| error.to_string())?;
        go_on(job.stop)?;
        let mut sample = Sample::default();
        sample.set("ns", "ns per packet", kept.cost.ns_a_packet());
        sample.set("mpps", "Mpps", 1e3 / kept.cost.ns_a_packet());
        sample.set("packets", "packets", kept.cost.packets as f64);
        sample.set("kept", "packets", kept.kept as f64);
        sample.set("pinned_bytes", "bytes", kept.pinned_bytes as f64);
        sample.set("refused", "packets", kept.refused as f64);
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_no_card_takes_are_refused_with_the_number() {
        let lengths = |size: &str| frames(size).map(|frames| frames.len());
        assert_eq!((lengths("64"), lengths("random:64-1518")), (Ok(4096), Ok(4096)));
        let refused = lengths("9018").unwrap_err();
        assert_eq!(
            refused,
            "size 9018 has frames of 9018 bytes; the simulated cards take 1518 at most"
        );
    }

    #[test]
    fn every_case_of_both_works_is_one_that_cards_take() {
        assert!(Work::Dma.cases().iter().all(|case| frames(case).is_ok()));
        assert!(Work::Keep.cases().iter().all(|case| case.parse::<u64>().is_ok()));
    }
}

//! The pipeline end to end: live frames pass a driver, a hand-off and a reader on one core, while
//! the other core injects.
//!
//! ```text
//!   injector ─► veth, native XDP ─► `xdp:`      ─► the log       ─► read      ours
//!    core 0                     └► net_af_xdp ─► mbufs, ring ─► read, free  peer     core 1
//! ```
//!
//! Both ends of the hand-off take turns on one thread, a burst each, because the injector takes one
//! of the two cores. The hand-off carries the driver's packets. So the difference to the pipeline
//! in memory is the cost of the kernel and its rings, the same for both sides. net_af_xdp takes no
//! timestamps; ours stores the times of its polls.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

use burstline_log::{Reader, Writer};
use burstline_port::Source;
use burstline_sys::memory::PageChoice;
use burstline_testbed::Amount;

use super::{Job, Kind, LOG_BYTES, Sample, cores, timed};
use crate::contenders;
use crate::live::{Frames, Road, Turn, under_load, with_share};
use crate::ours::Ours;
use crate::pages::{PAGES_OF_A_START, Reservation};
use crate::rivals::BURST;
use crate::threads::Cores;
use crate::traffic;

/// Runs a turn.
///
/// # Errors
/// Errors of an interface, a driver or the injector.
pub(super) fn measure(kind: Kind, job: &Job<'_>) -> Result<Sample, String> {
    let amount = job.packets.map_or(Amount::Time(job.time), Amount::Frames);
    let frames = Frames { amount, bytes: job.frame_bytes(), stop: job.stop };
    let cores = cores(job)?;
    let turn = match kind {
        #[cfg(feature = "dpdk")]
        Kind::Mbufs => peer::run(cores, frames),
        _ => ours(cores, frames),
    }?;
    Ok(timed::taken(&turn, job.size_bytes))
}

fn ours(cores: Cores, frames: Frames<'_>) -> Result<Turn, String> {
    let road = Road::new(cores)?;
    // The port's frames use such pages, too, as the rival's mbufs do.
    let pages = Reservation::take(PAGES_OF_A_START);
    let mut log = Ours::create(LOG_BYTES, PageChoice::Auto)?;
    let mut port = road.bed().far.run(|| contenders::open("xdp:v1?timestamps=poll"))?;
    drop(pages);
    let turn = {
        let (writer, reader) = log.ends();
        under_load(&road, frames, |is_over| {
            let (taken, share) = with_share(|| take(&mut *port, writer, reader, is_over));
            Ok((taken?, share))
        })?
    };
    // Drop it in the network namespace where it was opened.
    road.bed().far.run(move || drop(port));
    Ok(Turn { page: Some(log.page()), ..turn })
}

/// Receives into the log and reads it, in turns, until `is_over` and no more frames arrive.
fn take(
    port: &mut dyn Source,
    writer: &mut Writer,
    reader: &mut Reader,
    is_over: &AtomicU32,
) -> Result<u64, String> {
    let (mut taken, mut sum) = (0, 0);
    loop {
        // Pairs with the store in `under_load`.
        let is_last = is_over.load(Acquire) != 0;
        let packets = burst(port, writer, reader, &mut sum)?;
        if packets == 0 && is_last {
            std::hint::black_box(sum);
            return Ok(taken);
        }
        taken += packets;
    }
}

/// Receives a burst into the log and reads it. Returns the number of packets.
pub(super) fn burst(
    port: &mut dyn Source,
    writer: &mut Writer,
    reader: &mut Reader,
    sum: &mut u64,
) -> Result<u64, String> {
    let received = port.receive(writer, BURST as u64).map_err(|error| error.to_string())?;
    if received.packets == 0 {
        return Ok(0);
    }
    writer.publish();
    while let Some(burst) = reader.next_burst() {
        *sum = sum.wrapping_add(traffic::digest_of(&burst));
    }
    Ok(received.packets)
}

#[cfg(feature = "dpdk")]
mod peer {
    use super::{Cores, Frames, Road, Turn, under_load, with_share};
    use crate::rivals::dpdk::{self, Pipeline, SLOTS, Shape};

    /// Large enough for the driver's fill ring and for the ring between the ends.
    const SHAPE: Shape = Shape { objects: 16_383, cache: 256, slots: SLOTS, is_single: 1 };

    pub(super) fn run(cores: Cores, frames: Frames<'_>) -> Result<Turn, String> {
        dpdk::start()?;
        let road = Road::new(cores)?;
        let mut rival = Pipeline::new(SHAPE)?;
        let mut rival = road.bed().far.run(move || {
            rival.open("net_af_xdp7,iface=v1,start_queue=0,queue_count=1,busy_budget=0")?;
            Ok::<Pipeline, String>(rival)
        })?;
        let page = Some(dpdk::page(rival.is_huge()));
        let turn =
            under_load(&road, frames, |is_over| Ok(with_share(|| rival.take_turns_live(is_over))))?;
        // The driver never frees the mbufs of its fill ring, so they are not counted.
        road.bed().far.run(move || drop(rival));
        Ok(Turn { page, ..turn })
    }
}

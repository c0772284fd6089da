//! Receives and sends at the same time: two processes of one contender share its core.
//!
//! ```text
//! generator's core: injector -> v1 -> counting process     } the contender's core
//!                         w0 <- w1 <- sending process      }
//! ```
//!
//! The case says which of the two run, to show how much each loses to the other. Frames arrive at
//! the scenario's rate; the sender sends at full speed.

use std::thread;
use std::time::Instant;

use burstline_wire::ethernet::GAP_BYTES;

use crate::contenders::core::{Seen, Watch};
use crate::contenders::live::{Live, Own, load, wait_until_sent};
use crate::contenders::{Job, Sample};
use crate::contest::go_on;
use crate::live::{OUT, Road};
use crate::scenario::Work;

/// Packets of one direction and the time they took.
#[derive(Default)]
struct Way {
    packets: u64,
    seconds: f64,
}

impl Way {
    fn mpps(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.packets as f64 / self.seconds / 1e6 }
    }
}

/// Runs a contender that counts, sends, or does both.
///
/// # Errors
/// If a process does not start or does nothing.
pub(crate) fn measure(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let (receives, sends) = (job.case != Some("send"), job.case != Some("receive"));
    let of = |work| Job { work, sends_by: OUT, ..job.clone() };
    let (count, generate) = (of(Work::Count), of(Work::Generate));
    let start = Instant::now();
    let counting = receives.then(|| live.start(&count, road)).transpose()?;
    let sending = sends.then(|| live.start(&generate, road)).transpose()?;
    let came_out = || road.bed().near.counts("w0").received;
    if let Some(sending) = &sending {
        wait_until_sent(job, &**sending, came_out)?;
    }
    let ready = start.elapsed();
    let (began, before) = (Instant::now(), came_out());
    let cores = job.places.contender.clone();
    let (offered, way_in, seen) = if receives {
        let (injected, seen) = road.inject_watched(
            live.receiver(Work::Count),
            load(job),
            job.frame_bytes(),
            job.stop,
            move || Watch::start(&cores),
            |watch| watch.seen(),
        )?;
        let seconds = injected.elapsed.as_secs_f64();
        (injected.offered, Way { packets: 0, seconds }, seen)
    } else {
        let watch = Watch::start(&cores)?;
        thread::sleep(job.time);
        go_on(job.stop)?;
        let seconds = began.elapsed().as_secs_f64();
        (0, Way { packets: 0, seconds }, watch.seen()?)
    };
    let way_out = Way { packets: came_out() - before, seconds: began.elapsed().as_secs_f64() };
    let own = counting.map(|running| running.end(offered)).transpose()?.unwrap_or_default();
    if let Some(sending) = sending {
        sending.end(0)?;
    }
    let way_in = Way { packets: own.delivered, ..way_in };
    if (receives && way_in.packets == 0) || (sends && way_out.packets == 0) {
        return Err(format!("{} packets came in, {} went out", way_in.packets, way_out.packets));
    }
    let mut sample = sample(job, offered, &own, [&way_in, &way_out], &seen);
    sample.set("ready_s", "s", ready.as_secs_f64());
    sample.set("packets", "packets", (way_in.packets + way_out.packets) as f64);
    Ok(sample)
}

fn sample(
    job: &Job<'_>,
    offered: u64,
    own: &Own,
    [way_in, way_out]: [&Way; 2],
    seen: &Seen,
) -> Sample {
    let mut sample = Sample { pages: own.pages, ..Sample::default() };
    let mpps = way_in.mpps() + way_out.mpps();
    let line = mpps * f64::from(job.size_bytes + GAP_BYTES) * 8.0 / 1e3;
    let cpu_percent = 100.0 * seen.time.busy() / way_in.seconds;
    sample.set("mpps", "Mpps", mpps);
    sample.set("received_mpps", "Mpps", way_in.mpps());
    sample.set("sent_mpps", "Mpps", way_out.mpps());
    sample.set_on("line_gbps", "Gbit/s", "line", line);
    sample.set("cpu_percent", "% of a core", cpu_percent);
    sample.set("cpu_ns", "ns per packet", 10.0 * cpu_percent / mpps);
    sample.set_on("rho", "% per Gbit/s", "line", cpu_percent / line);
    if offered > 0 {
        sample.losses.clone_from(&own.losses);
        own.enter_losses(offered, &mut sample);
    }
    sample.symbols.clone_from(&seen.symbols);
    sample.stages.extend(seen.stages(None));
    sample
}

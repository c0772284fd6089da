//! Contenders whose generator is on another machine: see [`remote`](crate::remote).
//!
//! ```text
//!   sent           by the generator's ledger          | the kernel's count of its port
//!     - generator_port   dropped there
//!     - cable            the rest that did not arrive
//!   arrived        by the contender's, or the kernel's, count at this end
//!     - losses           the contender's, by name; unnamed: the rest of the difference
//!   delivered      by the contender, or at the output: the kernel's count of `back`
//! ```
//!
//! Invariant: sent + foreign = all losses + delivered. Frames that arrived but were not sent are
//! foreign: other machines may send on the cable.

use std::time::Instant;

use super::core::Watch;
use super::live::{Live, Measured, Own, cores, counted, enter_file, load};
use super::{Job, Sample, latency};
use crate::live::Road;
use crate::remote::{Counts, Order, Remote, RemoteError, Sent};
use crate::scenario::{Work, machine};

/// Runs a job of a contender with frames of that generator.
///
/// # Errors
/// Errors of the contender and the generator. The error then includes the account of the frames.
pub(super) fn measure(live: &impl Live, job: &Job<'_>, remote: &Remote) -> Result<Sample, String> {
    let road = Road::here(job.case, cores(job)?, &job.comes_in[0])?;
    let mut sample = match job.work {
        Work::Latency => time(live, job, &road, remote),
        _ => receive(live, job, &road, remote),
    }?;
    let names = [&job.comes_in[..], std::slice::from_ref(&job.goes_out)].concat();
    sample.interfaces = machine::of_host(road.host(), "contender", &names);
    Ok(sample)
}

fn order(job: &Job<'_>) -> Order {
    let rate_pps = load(job).rate_pps.map(|packets| packets as f64);
    let time = if job.packets.is_some() { latency::NO_END } else { job.time };
    Order { size_bytes: job.size_bytes, rate_pps, packets: job.packets, time }
}

/// The account of a turn's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way {
    sent: u64,
    arrived: u64,
    /// Lost on the generator's port, and after it.
    port: u64,
    cable: u64,
    foreign: u64,
}

impl Way {
    /// Accounts for this many sent frames; `arrived` is the kernel's count at this end.
    fn of(sent: u64, dropped_there: u64, arrived: u64, own: &Own) -> Self {
        let named: u64 = own.losses.values().sum();
        // A socket may see frames that this machine sends; no counter shows those as received.
        let arrived = own.offered.unwrap_or(arrived).max(own.delivered + named);
        let missing = sent.saturating_sub(arrived);
        let port = dropped_there.min(missing);
        let foreign = arrived.saturating_sub(sent);
        Self { sent, arrived, port, cable: missing - port, foreign }
    }

    /// Adds its losses to the contender's.
    fn enter(&self, own: &mut Own) {
        for (name, packets) in [("generator_port", self.port), ("cable", self.cable)] {
            if packets > 0 {
                own.losses.insert(name.to_owned(), packets);
            }
        }
    }
}

/// Counters at both ends of the cables.
struct Ends<'a> {
    job: &'a Job<'a>,
    road: &'a Road,
    remote: &'a Remote,
    arrived: u64,
    there: Counts,
}

impl<'a> Ends<'a> {
    fn look(job: &'a Job<'a>, road: &'a Road, remote: &'a Remote) -> Result<Self, RemoteError> {
        let there = remote.counts()?;
        Ok(Self { job, road, remote, arrived: arrived(job, road), there })
    }

    /// Returns the counts since then. If the connection was lost, a new one reads them.
    fn since(&self) -> Result<(u64, Counts), RemoteError> {
        let there = self.remote.counts()?.since(self.there);
        Ok((arrived(self.job, self.road).saturating_sub(self.arrived), there))
    }

    /// Describes what happened to frames whose generator was lost, from the kernels' counts alone.
    fn after(&self, error: &RemoteError, own: Result<Own, String>) -> String {
        let (arrived, there) = match self.since() {
            Ok(counts) => counts,
            Err(again) => return format!("{error}; the number of frames sent is unknown: {again}"),
        };
        let mut own = match own {
            Ok(own) => own,
            Err(why) => return format!("{error}; sent {}, arrived {arrived}; {why}", there.sent),
        };
        if self.job.work.comes_out() {
            own.delivered = there.received;
        }
        let way = Way::of(there.sent, there.sent_dropped, arrived, &own);
        way.enter(&mut own);
        let mut sample = Sample::default();
        own.enter_losses(way.sent + way.foreign, &mut sample);
        sample.losses.extend(own.losses);
        let lost: Vec<String> =
            sample.losses.iter().map(|(name, packets)| format!(", {name} {packets}")).collect();
        let (sent, foreign, delivered) = (way.sent, way.foreign, own.delivered);
        format!(
            "{error}; by the kernels' counts: sent {sent} + foreign {foreign} = delivered \
             {delivered}{}",
            lost.join("")
        )
    }
}

fn arrived(job: &Job<'_>, road: &Road) -> u64 {
    // Includes packets dropped later. Source: the kernel's include/uapi/linux/if_link.h.
    road.host().counts(&job.comes_in[0]).received
}

fn receive(
    live: &impl Live,
    job: &Job<'_>,
    road: &Road,
    remote: &Remote,
) -> Result<Sample, String> {
    let began = Instant::now();
    let running = live.start(job, road)?;
    let ready = began.elapsed();
    let ends = Ends::look(job, road, remote).map_err(text)?;
    let (watch, start) = (Watch::start(&counted(job))?, Instant::now());
    let sent = remote.send(order(job));
    let (seen, watched) = (watch.seen()?, start.elapsed().as_secs_f64());
    // The generator returns only after the last frames had time to arrive.
    let own = running.end(0);
    let Sent { made, sent, lost, made_pps } = match sent {
        Ok(sent) => sent,
        Err(error) => return Err(ends.after(&error, own)),
    };
    let mut own = own?;
    let (arrived, there) = ends.since().map_err(text)?;
    if job.work.comes_out() {
        own.delivered = there.received;
    }
    let way = Way::of(sent, there.sent_dropped, arrived, &own);
    if own.delivered == 0 || made_pps <= 0.0 {
        let delivered = own.delivered;
        return Err(format!("{delivered} of {sent} frames came through, {} arrived", way.arrived));
    }
    way.enter(&mut own);
    let seconds = made as f64 / made_pps;
    let measured = Measured { ready, seconds, watched, seen, own };
    let mut sample = measured.sample(job);
    measured.offered(sent + way.foreign, &mut sample);
    sample.set("sent", "packets", sent as f64);
    sample.set("arrived", "packets", way.arrived as f64);
    sample.set("foreign", "packets", way.foreign as f64);
    sample.set("not_sent", "packets", lost.values().sum::<u64>() as f64);
    enter_file(job, road, &mut sample)?;
    Ok(sample)
}

/// Measures latency by the generator's clock, which takes both times of a packet.
fn time(live: &impl Live, job: &Job<'_>, road: &Road, remote: &Remote) -> Result<Sample, String> {
    let began = Instant::now();
    let running = live.start(job, road)?;
    let ready = began.elapsed();
    let ends = Ends::look(job, road, remote).map_err(text)?;
    let (watch, start) = (Watch::start(&counted(job))?, Instant::now());
    let timed = remote.time(order(job));
    let (seen, watched) = (watch.seen()?, start.elapsed());
    let own = running.end(0);
    let trial = match timed {
        Ok(timed) => timed.trial(),
        Err(error) => return Err(ends.after(&error, own)),
    };
    latency::of_trial(&trial, &own?, [ready, watched], seen)
}

fn text(error: RemoteError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(delivered: u64, lost: u64) -> Own {
        Own { delivered, losses: [("ring".to_owned(), lost)].into(), ..Own::default() }
    }

    #[test]
    fn each_frame_has_one_place() {
        let way = Way::of(100, 3, 90, &own(80, 4));
        assert_eq!((way.port, way.cable, way.foreign), (3, 7, 0));
        // The kernel dropped more there than are missing here: some belonged to others.
        assert_eq!(Way::of(100, 30, 90, &own(90, 0)).cable, 0);
        // More frames arrived than were sent.
        let way = Way::of(100, 0, 105, &own(105, 0));
        assert_eq!((way.arrived, way.foreign, way.cable), (105, 5, 0));
        // The contender's own count of received packets takes precedence over the kernel's.
        let counted = Own { offered: Some(99), ..own(99, 0) };
        assert_eq!(Way::of(100, 0, 105, &counted).cable, 1);
        // A count smaller than the delivered packets is ignored.
        assert_eq!(
            Way::of(100, 0, 0, &own(90, 10)),
            Way { sent: 100, arrived: 100, ..Way::default() }
        );
    }
}

//! The receive thread of a balancer: borrows packets, and copies each into the logs of its workers.
//!
//! ```text
//!  hash -> times a constant, the top 8 bits -> bucket 167 of 256 -> worker 167 * 3 / 256 = 1 of 3
//! ```
//!
//! Buckets are defined by the log; readers of a part of the log use the same ones.

use std::sync::{Mutex, PoisonError};

use burstline_log::{BUCKETS, Buckets, Ending, Packet, SCRATCH_PACKETS, Scratch, bucket_of};
use burstline_port::{PortError, Received, Source};

use super::elephants::Herd;
use super::policy::{Rules, Verdict};
use super::{BalanceOptions, Distribution, Mode};
use crate::runtime::logs::LogCounts;
use crate::runtime::logs::lanes::{Given, Lanes};
use crate::runtime::logs::receive::Intake;
use crate::runtime::{Job, Span, Tally, tally};

/// Returns the worker of a flow hash, in `[0, workers)`, for 1 to 256 workers. Each worker has an
/// equal part of the 256 buckets, to within one. Cost: two multiplications.
#[inline]
pub fn worker_of(hash: u32, workers: usize) -> usize {
    (usize::from(bucket_of(hash)) * workers) >> 8
}

/// Counts of one source's packets.
#[derive(Clone, Debug, Default)]
pub(super) struct FromSource {
    /// Borrowed from the source.
    pub(super) taken: Tally,
    pub(super) cut_off: Tally,
    pub(super) shed: Tally,
    /// Packets for which the rule could not decide whether to shed them.
    pub(super) unjudged: Tally,
    /// Packets refused by a full log, by group.
    pub(super) refused: Vec<Tally>,
    /// Packets that no segment could hold whole, and their bytes left out, by group.
    pub(super) cut: Vec<Tally>,
}

/// Counts of the packets of one receive thread.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// By the source's number in the job.
    pub(super) sources: Vec<FromSource>,
    /// Counts of each log: a worker's, or the shared one.
    pub(super) written: Vec<LogCounts>,
    /// Packets of each worker that are in a log, and their bytes.
    pub(super) given: Vec<(u64, u64)>,
    /// Packets of each worker refused by a full log.
    pub(super) refused: Vec<u64>,
    pub(super) span: Span,
    pub(super) herd: Herd,
}

/// A receive thread's state.
pub(super) struct Spreader<'a> {
    lanes: Lanes<'a>,
    groups: &'a [usize],
    mode: Mode,
    /// The next worker of each group; `None` if the hash selects the worker.
    turns: Option<Vec<usize>>,
    rules: Option<Rules>,
    scratch: Scratch,
    done: Spread,
    /// Bytes in the shared log, by bucket.
    bucket_bytes: Box<[u64; BUCKETS]>,
    jobs: Jobs<'a>,
    home: &'a Mutex<Spread>,
}

/// The job, and the jobs of its workers.
#[derive(Clone, Copy)]
pub(super) struct Jobs<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) workers: &'a [Job<'a>],
}

impl<'a> Spreader<'a> {
    /// `sources` is the number of sources in the job; `home` gets the counts at the end.
    pub(super) fn new(
        options: &'a BalanceOptions,
        jobs: Jobs<'a>,
        sources: usize,
        lanes: Lanes<'a>,
        home: &'a Mutex<Spread>,
    ) -> Self {
        let groups = &options.groups[..];
        let is_in_turn = options.distribution == Distribution::RoundRobin;
        let none = vec![Tally::default(); groups.len()];
        let fresh = FromSource { refused: none.clone(), cut: none, ..FromSource::default() };
        Self {
            lanes,
            groups,
            mode: options.mode,
            turns: is_in_turn.then(|| vec![0; groups.len()]),
            rules: Rules::of(options),
            scratch: Scratch::new(),
            done: Spread {
                sources: vec![fresh; sources],
                refused: vec![0; groups.iter().sum()],
                herd: Herd::new(options.job.table.clone(), options.distribution),
                ..Spread::default()
            },
            bucket_bytes: Box::new([0; BUCKETS]),
            jobs,
            home,
        }
    }
}

impl Intake for Spreader<'_> {
    fn receive(
        &mut self,
        source: usize,
        port: &mut dyn Source,
        budget: u64,
    ) -> Result<Received, PortError> {
        let budget = budget.min(SCRATCH_PACKETS as u64);
        let lent = port.lend(&mut self.scratch, budget)?;
        let from = &mut self.done.sources[source];
        from.taken.add(&tally(&lent.burst, &mut self.done.span));
        self.done.herd.see(&lent.burst);
        let mut failure = None;
        let mut to = To {
            lanes: &mut self.lanes,
            groups: self.groups,
            refused: &mut self.done.refused,
            bucket_bytes: &mut self.bucket_bytes,
        };
        match (&mut self.rules, &mut self.turns, self.mode) {
            (None, None, Mode::Copy) => {
                lent.burst.packets().for_each(|packet| to.copy(None, from, &packet));
            }
            (rules, turns, mode) => {
                for packet in lent.burst.packets() {
                    // If the rule cannot be applied, the source ends and the packet does not pass.
                    let verdict = match (rules.as_mut(), failure.is_some()) {
                        (None, _) => Verdict::Pass,
                        (_, true) => Verdict::Unjudged,
                        (Some(rules), false) => rules.judge(&packet).unwrap_or_else(|error| {
                            failure = Some(error);
                            Verdict::Unjudged
                        }),
                    };
                    match verdict {
                        Verdict::CutOff => from.cut_off.add(&tally_of(&packet)),
                        Verdict::Shed => from.shed.add(&tally_of(&packet)),
                        Verdict::Unjudged => from.unjudged.add(&tally_of(&packet)),
                        Verdict::Pass => match mode {
                            Mode::Copy => to.copy(turns.as_deref_mut(), from, &packet),
                            Mode::Share => to.share(from, &packet),
                        },
                    }
                }
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(Received { packets: lent.burst.len() as u64, state: lent.state })
    }

    fn publish(&mut self) {
        self.lanes.publish();
        let Jobs { job, workers } = self.jobs;
        let is_dead = |worker: &Job<'_>| worker.clock.is_broken();
        if !workers.is_empty() && workers.iter().all(is_dead) {
            job.clock.break_off();
        }
    }

    fn statistics(&self) -> LogCounts {
        let mut sum = LogCounts::default();
        for log in self.lanes.written() {
            sum.packets += log.packets;
            sum.bytes += log.bytes;
            sum.segments += log.segments;
            sum.segments_high_water = sum.segments_high_water.max(log.segments_high_water);
        }
        sum
    }

    fn end(mut self, ending: Ending) {
        self.lanes.publish(); // a log counts only published packets of a bucket
        self.done.written = self.lanes.written().collect();
        self.done.given = self.given();
        self.lanes.into_writers().into_iter().for_each(|writer| writer.finish(ending));
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.done;
    }
}

impl Spreader<'_> {
    /// Returns the packets of each worker that are in the logs, and their bytes.
    fn given(&self) -> Vec<(u64, u64)> {
        let Some(counts) = self.lanes.bucket_counts(0).filter(|_| self.mode == Mode::Share) else {
            return self.lanes.written().map(|log| (log.packets, log.bytes)).collect();
        };
        let of = |worker, workers| {
            let own = Buckets::of_worker(worker, workers).range();
            (counts[own.clone()].iter().sum(), self.bucket_bytes[own].iter().sum())
        };
        let groups = self.groups.iter();
        groups.flat_map(|&group| (0..group).map(move |worker| of(worker, group))).collect()
    }
}

/// The destination of packets.
struct To<'s, 'a> {
    lanes: &'s mut Lanes<'a>,
    groups: &'s [usize],
    /// By worker.
    refused: &'s mut [u64],
    bucket_bytes: &'s mut [u64; BUCKETS],
}

impl To<'_, '_> {
    /// Copies a packet to one worker of each group.
    #[inline]
    fn copy(
        &mut self,
        mut turns: Option<&mut [usize]>,
        from: &mut FromSource,
        packet: &Packet<'_>,
    ) {
        let mut first = 0;
        for (group, &workers) in self.groups.iter().enumerate() {
            let worker = match &mut turns {
                None => worker_of(packet.desc().hash(), workers),
                Some(turns) => {
                    let worker = turns[group];
                    turns[group] = (worker + 1) % workers;
                    worker
                }
            };
            match self.lanes.give(first + worker, packet) {
                Given::Whole => {}
                Given::Cut(cut) => from.cut[group].add(&cut),
                Given::Refused => {
                    from.refused[group].add(&tally_of(packet));
                    self.refused[first + worker] += 1;
                }
            }
            first += workers;
        }
    }

    /// Copies a packet into the shared log.
    #[inline]
    fn share(&mut self, from: &mut FromSource, packet: &Packet<'_>) {
        let hash = packet.desc().hash();
        match self.lanes.give(0, packet) {
            Given::Refused => {}
            given => {
                let mut bytes = packet.length() as u64;
                if let Given::Cut(cut) = given {
                    bytes -= cut.bytes;
                    from.cut.iter_mut().for_each(|group| group.add(&cut));
                }
                self.bucket_bytes[usize::from(bucket_of(hash))] += bytes;
                return;
            }
        }
        let mut first = 0;
        for (group, &workers) in self.groups.iter().enumerate() {
            from.refused[group].add(&tally_of(packet));
            self.refused[first + worker_of(hash, workers)] += 1;
            first += workers;
        }
    }
}

fn tally_of(packet: &Packet<'_>) -> Tally {
    let (bytes, wire_bytes) = (packet.length() as u64, packet.original_length() as u64);
    Tally { packets: 1, bytes, wire_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_equal_parts_whichever_bits_of_a_hash_say_something() {
        for workers in [1, 2, 3, 7, 64] {
            for shift in [0, 9, 20] {
                let mut parts = vec![0; workers];
                (0..4096_u32).for_each(|hash| parts[worker_of(hash << shift, workers)] += 1);
                let (least, most) = (*parts.iter().min().unwrap(), *parts.iter().max().unwrap());
                assert!(most < least * 2, "{workers} workers, bits from {shift}: {parts:?}");
            }
        }
        assert!((0..300_000).all(|hash: u32| worker_of(hash.wrapping_mul(14_321), 256) < 256));
    }
}

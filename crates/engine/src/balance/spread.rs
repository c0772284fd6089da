//! What a receive thread does: borrows packets, and copies each into the logs of its workers.
//!
//! ```text
//!  hash -> times a constant, the top 8 bits -> bucket 167 of 256 -> worker 167 * 3 / 256 = 1 of 3
//! ```
//!
//! The multiplication is for hashes whose top bits say little: a NIC's (Toeplitz) is linear, and
//! with few addresses some of its bits never change.

use std::sync::{Mutex, PoisonError};

use burstline_log::{Burst, Ending, Packet, SCRATCH_PACKETS, Scratch};
use burstline_port::{Port, PortError, Received};

use super::elephants::Herd;
use super::policy::{Rules, Verdict};
use super::{BalanceOptions, Distribution};
use crate::capture::receive::Intake;
use crate::capture::{Job, LogCounts};
use crate::pipeline::Lanes;
use crate::tally::{Span, Tally, tally};

/// 2^32 divided by the golden ratio, made odd. Source: Knuth, The Art of Computer Programming,
/// volume 3, 6.4, "multiplicative hashing".
const MIX: u32 = 0x9e37_79b1;

/// Buckets are the top eight bits.
const BUCKET_SHIFT: u32 = 24;

/// The worker of a flow hash, in `[0, workers)`; of workers there are from 1 to 256. Each has an
/// equal part of the 256 buckets, to one. Cost: two multiplications.
#[inline]
pub fn worker_of(hash: u32, workers: usize) -> usize {
    let bucket = (hash.wrapping_mul(MIX) >> BUCKET_SHIFT) as usize;
    (bucket * workers) >> 8
}

/// What became of one source's packets.
#[derive(Clone, Debug, Default)]
pub(super) struct FromSource {
    /// Borrowed of the source.
    pub(super) taken: Tally,
    pub(super) cut_off: Tally,
    pub(super) shed: Tally,
    /// Packets that a full log had no room for, by group.
    pub(super) refused: Vec<Tally>,
}

/// What became of the packets of one receive thread.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// By the source's number in the job.
    pub(super) sources: Vec<FromSource>,
    /// What was written into each worker's log.
    pub(super) written: Vec<LogCounts>,
    /// Packets that each worker's log had no room for.
    pub(super) refused: Vec<u64>,
    pub(super) span: Span,
    pub(super) herd: Herd,
}

/// A receive thread's own.
pub(super) struct Spreader<'a> {
    lanes: Lanes<'a>,
    groups: &'a [usize],
    /// For each group the worker that is next in turn; `None` where the hash says it.
    turns: Option<Vec<usize>>,
    rules: Option<Rules>,
    scratch: Scratch,
    done: Spread,
    /// The job, and those of its workers.
    jobs: (&'a Job<'a>, &'a [Job<'a>]),
    home: &'a Mutex<Spread>,
}

impl<'a> Spreader<'a> {
    /// `sources` is the number of sources in the job; `home` gets the counts at the end.
    pub(super) fn new(
        options: &'a BalanceOptions,
        jobs: (&'a Job<'a>, &'a [Job<'a>]),
        sources: usize,
        lanes: Lanes<'a>,
        home: &'a Mutex<Spread>,
    ) -> Self {
        let groups = &options.groups[..];
        let is_in_turn = options.distribution == Distribution::RoundRobin;
        let refused = vec![Tally::default(); groups.len()];
        let fresh = FromSource { refused, ..FromSource::default() };
        Self {
            lanes,
            groups,
            turns: is_in_turn.then(|| vec![0; groups.len()]),
            rules: Rules::of(options),
            scratch: Scratch::new(),
            done: Spread {
                sources: vec![fresh; sources],
                herd: Herd::new(options.job.table.clone(), options.distribution),
                ..Spread::default()
            },
            jobs,
            home,
        }
    }
}

impl Intake for Spreader<'_> {
    fn receive(
        &mut self,
        source: usize,
        port: &mut dyn Port,
        budget: u64,
    ) -> Result<Received, PortError> {
        let budget = budget.min(SCRATCH_PACKETS as u64);
        let lent = port.lend(&mut self.scratch, budget)?;
        let from = &mut self.done.sources[source];
        from.taken.add(&tally(&lent.burst, &mut self.done.span));
        self.done.herd.see(&lent.burst);
        let mut failure = None;
        match (&mut self.rules, &mut self.turns) {
            (None, None) => spread_by_hash(&mut self.lanes, self.groups, from, &lent.burst),
            (rules, turns) => {
                for packet in lent.burst.packets() {
                    let judged = rules.as_mut().map_or(Ok(Verdict::Pass), |own| own.judge(&packet));
                    // A rule that means nothing here ends the source, and passes nothing.
                    let verdict = judged.unwrap_or_else(|error| {
                        failure.get_or_insert(error);
                        Verdict::Shed
                    });
                    match verdict {
                        Verdict::CutOff => from.cut_off.add(&tally_of(&packet)),
                        Verdict::Shed => from.shed.add(&tally_of(&packet)),
                        Verdict::Pass => {
                            let turns = turns.as_deref_mut();
                            spread_one(&mut self.lanes, self.groups, turns, from, &packet);
                        }
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
        let (job, workers) = self.jobs;
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
        self.done.written = self.lanes.written().collect();
        self.done.refused = self.lanes.refused().to_vec();
        self.lanes.into_writers().into_iter().for_each(|writer| writer.finish(ending));
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.done;
    }
}

/// The usual case, with nothing in the way of it.
#[inline]
fn spread_by_hash(
    lanes: &mut Lanes<'_>,
    groups: &[usize],
    from: &mut FromSource,
    burst: &Burst<'_>,
) {
    for packet in burst.packets() {
        spread_one(lanes, groups, None, from, &packet);
    }
}

/// Copies a packet to one worker of each group.
#[inline]
fn spread_one(
    lanes: &mut Lanes<'_>,
    groups: &[usize],
    mut turns: Option<&mut [usize]>,
    from: &mut FromSource,
    packet: &Packet<'_>,
) {
    let mut first = 0;
    for (group, &workers) in groups.iter().enumerate() {
        let worker = match &mut turns {
            None => worker_of(packet.desc().hash(), workers),
            Some(turns) => {
                let worker = turns[group];
                turns[group] = (worker + 1) % workers;
                worker
            }
        };
        if !lanes.give(first + worker, packet) {
            from.refused[group].add(&tally_of(packet));
        }
        first += workers;
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

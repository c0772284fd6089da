//! What there is to say of an inline bounce besides its ledger.

use std::sync::PoisonError;

use burstline_log::Writer;
use hdrhistogram::Histogram;

use super::{InlineOptions, Told};
use crate::Latency;
use crate::verify::histogram;

/// What became of the packets of one worker, in one direction. Each packet is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InlineWorker {
    /// Its log's number: worker K has log K, and `workers + K` for the way back.
    pub log: usize,
    /// Packets that waited for a verdict.
    pub offered: u64,
    /// Of them, those that a verdict passed on, as they were.
    pub passed: u64,
    /// Those that went on because their flow was passed while they waited.
    pub passed_with_flow: u64,
    /// Those that a verdict dropped.
    pub dropped: u64,
    /// Those that other bytes were sent for.
    pub replaced: u64,
    /// Those that a verdict rejected.
    pub rejected: u64,
    /// Those without a verdict in time.
    pub late: u64,
    /// Those that no worker was there for, from the start or any more.
    pub no_verdict: u64,
    /// Those that had to make room.
    pub no_room: u64,
    /// Those whose verdict was none.
    pub invalid: u64,
}

impl InlineWorker {
    /// Packets that failed open or closed.
    pub fn failed(&self) -> u64 {
        self.late + self.no_verdict + self.no_room + self.invalid
    }

    /// Those that have left and that a worker was there for.
    pub(super) fn waited(&self) -> u64 {
        self.settled() - self.no_verdict
    }

    /// Packets that waited and have left, one way or another.
    pub(super) fn settled(&self) -> u64 {
        self.passed
            + self.passed_with_flow
            + self.dropped
            + self.replaced
            + self.rejected
            + self.failed()
    }
}

/// What became of all packets of an inline bounce.
#[derive(Clone, Debug, PartialEq)]
pub struct InlineReport {
    /// As it was asked for.
    pub options: InlineOptions,
    /// By direction, and then by worker.
    pub workers: Vec<InlineWorker>,
    /// Packets that skipped the log, since a verdict had passed their flow.
    pub skipped: u64,
    /// Flows that verdicts passed.
    pub flows: u64,
    /// Of them, those that others took the place of, and that were asked about again.
    pub flows_forgotten: u64,
    /// Senders of rejected packets that got an answer.
    pub answers: u64,
    /// How long packets waited, from when a worker could see them until they were decided. Those
    /// that no worker was there for are left out.
    pub waits: Latency,
}

/// What a crossing tells at its end.
#[derive(Default)]
pub(super) struct Said {
    /// Its logs' writers.
    pub(super) writers: Vec<Writer>,
    pub(super) workers: Vec<InlineWorker>,
    pub(super) skipped: u64,
    pub(super) flows: u64,
    pub(super) flows_forgotten: u64,
    pub(super) answers: u64,
    /// A lane's each.
    pub(super) waits: Vec<Histogram<u64>>,
}

impl InlineReport {
    pub(super) fn new(options: InlineOptions, told: &[Told]) -> Self {
        let mut report = Self {
            options,
            workers: Vec::new(),
            skipped: 0,
            flows: 0,
            flows_forgotten: 0,
            answers: 0,
            waits: Latency::default(),
        };
        let mut waits = histogram();
        for said in told {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner); // written once, whole
            report.workers.extend(&said.workers);
            report.skipped += said.skipped;
            report.flows += said.flows;
            report.flows_forgotten += said.flows_forgotten;
            report.answers += said.answers;
            for lane in &said.waits {
                // It grows as it must: see `record`.
                let is_added = waits.add(lane);
                debug_assert!(is_added.is_ok(), "{is_added:?}");
            }
        }
        report.waits = Latency::of(&waits);
        report
    }
}

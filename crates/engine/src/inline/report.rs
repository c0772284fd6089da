//! The report of an inline bounce, in addition to its ledger.

use std::sync::PoisonError;

use burstline_log::Writer;
use hdrhistogram::Histogram;

use super::{InlineOptions, Told};
use crate::Latency;
use crate::verify::histogram;

/// The account of one worker's packets, in one direction. Each packet is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InlineWorker {
    /// Its log's number: worker K has log K, and `workers + K` for the other direction.
    pub log: usize,
    /// Packets that waited for a verdict.
    pub offered: u64,
    /// Waiting packets that a verdict passed unchanged.
    pub passed: u64,
    /// Packets forwarded because their flow was passed while they waited.
    pub passed_with_flow: u64,
    /// Packets that a verdict dropped.
    pub dropped: u64,
    /// Packets that a verdict replaced with other bytes.
    pub replaced: u64,
    /// Packets that a verdict rejected.
    pub rejected: u64,
    /// Packets without a verdict in time.
    pub late: u64,
    /// Packets for which no worker was attached, from the start or any longer.
    pub no_verdict: u64,
    /// Packets decided early to make room for others.
    pub no_room: u64,
    /// Packets whose verdict was invalid.
    pub invalid: u64,
}

impl InlineWorker {
    /// Returns the number of packets that failed open or closed.
    pub fn failed(&self) -> u64 {
        self.late + self.no_verdict + self.no_room + self.invalid
    }

    /// Returns the number of packets that have left and for which a worker was attached.
    pub(super) fn waited(&self) -> u64 {
        self.settled() - self.no_verdict
    }

    /// Returns the number of packets that waited and have left, whatever their fate.
    pub(super) fn settled(&self) -> u64 {
        self.passed
            + self.passed_with_flow
            + self.dropped
            + self.replaced
            + self.rejected
            + self.failed()
    }
}

/// The account of all packets of an inline bounce.
#[derive(Clone, Debug, PartialEq)]
pub struct InlineReport {
    /// The settings it ran with.
    pub options: InlineOptions,
    /// The workers' accounts, by direction and then by worker.
    pub workers: Vec<InlineWorker>,
    /// Packets that skipped the log because a verdict had passed their flow.
    pub skipped: u64,
    /// Flows that verdicts passed.
    pub flows: u64,
    /// Passed flows that others replaced in the table, and that needed a verdict again.
    pub flows_forgotten: u64,
    /// Senders of rejected packets that got an answer.
    pub answers: u64,
    /// How long packets waited, from when a worker could see them until they were decided. It
    /// omits packets for which no worker was attached.
    pub waits: Latency,
}

/// The results of a crossing at its end.
#[derive(Default)]
pub(super) struct Said {
    /// Its logs' writers.
    pub(super) writers: Vec<Writer>,
    pub(super) workers: Vec<InlineWorker>,
    pub(super) skipped: u64,
    pub(super) flows: u64,
    pub(super) flows_forgotten: u64,
    pub(super) answers: u64,
    /// The waiting times in ns, one histogram per lane.
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
                // The histogram resizes itself: see `record`.
                let is_added = waits.add(lane);
                debug_assert!(is_added.is_ok(), "{is_added:?}");
            }
        }
        report.waits = Latency::of(&waits);
        report
    }
}

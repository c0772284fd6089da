//! Verdicts on the packets of a burst: `open(name, verdicts=True)`.
//!
//! ```text
//! burst.verdicts[mask] = DROP    a column of Python's, PASS at first ──release──► the log's column
//! burst.verdict(i, "drop")       ───────────────────────at once─────────────────►
//! ```
//!
//! Who owns what when: the column is numpy's to write for as long as an array of it lives. It is
//! read once, when the burst is released; what is written later changes nothing.
//!
//! Invariant V1: a packet gets one verdict: by name, by its entry at the release, or, where the
//! filter does not want it, PASS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use burstline_log::{Verdict, VerdictError, VerdictGiver};

use crate::fault::Fault;

/// What an entry is at first: [`Verdict::Pass`].
const PASS: u8 = 1;

/// Where verdicts on the packets of a burst go, and those that Python has written.
pub(crate) struct Verdicts {
    giver: Arc<VerdictGiver>,
    /// The number of each packet in its log.
    numbers: Vec<u64>,
    entries: Box<[AtomicU8]>,
    /// Which packets have theirs.
    is_given: Box<[AtomicBool]>,
}

impl Verdicts {
    /// None are given yet on the packets with these numbers.
    pub(crate) fn new(giver: Arc<VerdictGiver>, numbers: Vec<u64>) -> Self {
        let entries = numbers.iter().map(|_| AtomicU8::new(PASS)).collect();
        let is_given = numbers.iter().map(|_| AtomicBool::new(false)).collect();
        Self { giver, numbers, entries, is_given }
    }

    /// What Python writes.
    pub(crate) fn entries(&self) -> &[AtomicU8] {
        &self.entries
    }

    /// Gives packet `index`, in `[0, len)`, its verdict; false: it has one.
    pub(crate) fn give(&self, index: usize, verdict: Verdict<'_>) -> Result<bool, VerdictError> {
        if self.is_given[index].swap(true, Relaxed) {
            return Ok(false);
        }
        let outcome = self.giver.give(self.numbers[index], verdict);
        if outcome.is_err() {
            self.is_given[index].store(false, Relaxed);
        }
        outcome.map(|()| true)
    }

    /// Gives those that have none what their entries say. An entry that is not a verdict is an
    /// error; its packet gets none, and the others theirs.
    pub(crate) fn settle(&self) -> Result<(), Fault> {
        let mut wrong = None;
        for (index, entry) in self.entries.iter().enumerate() {
            let entry = entry.load(Relaxed);
            if self.is_given[index].load(Relaxed) {
                continue;
            }
            match Verdict::of_code(entry.into()) {
                // A verdict without bytes has no error.
                Some(verdict) => drop(self.give(index, verdict)),
                None => wrong = wrong.or(Some(Fault::Verdict { index, entry })),
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

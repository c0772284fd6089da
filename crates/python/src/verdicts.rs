//! Verdicts on the packets of a burst: `open(name, verdicts=True)`.
//!
//! ```text
//! burst.verdicts[mask] = DROP    a Python column, initially PASS ──release──► the log's column
//! burst.verdict(i, "drop")       ────────────────immediately────────────────►
//! ```
//!
//! Ownership: numpy may write the column for as long as an array of it lives. It is read once, when
//! the burst is released; later writes have no effect.
//!
//! Invariant V1: each packet gets one verdict: by a call, by its entry at the release, or PASS if
//! the filter rejects the packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use burstline_log::{Verdict, VerdictError, VerdictGiver};

use crate::fault::Fault;

/// The initial value of an entry: [`Verdict::Pass`].
const PASS: u8 = 1;

/// The verdicts on the packets of a burst: where they are sent, and the entries written by Python.
pub(crate) struct Verdicts {
    giver: Arc<VerdictGiver>,
    /// The packets' numbers in the log.
    numbers: Vec<u64>,
    entries: Box<[AtomicU8]>,
    /// Which packets have a verdict.
    is_given: Box<[AtomicBool]>,
}

impl Verdicts {
    /// Creates the entries for packets with these numbers.
    pub(crate) fn new(giver: Arc<VerdictGiver>, numbers: Vec<u64>) -> Self {
        let entries = numbers.iter().map(|_| AtomicU8::new(PASS)).collect();
        let is_given = numbers.iter().map(|_| AtomicBool::new(false)).collect();
        Self { giver, numbers, entries, is_given }
    }

    /// Returns the entries, which Python writes.
    pub(crate) fn entries(&self) -> &[AtomicU8] {
        &self.entries
    }

    /// Gives packet `index`, in `[0, len)`, its verdict. Returns false if it already has one.
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

    /// Gives the remaining packets the verdicts of their entries. An invalid entry is an error: its
    /// packet gets none, but the others get theirs.
    pub(crate) fn settle(&self) -> Result<(), Fault> {
        let mut wrong = None;
        for (index, entry) in self.entries.iter().enumerate() {
            let entry = entry.load(Relaxed);
            if self.is_given[index].load(Relaxed) {
                continue;
            }
            match Verdict::of_code(entry.into()) {
                // A verdict without bytes cannot fail.
                Some(verdict) => drop(self.give(index, verdict)),
                None => wrong = wrong.or(Some(Fault::Verdict { index, entry })),
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

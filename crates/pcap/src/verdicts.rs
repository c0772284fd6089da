//! Verdicts of a program in line: `burst:NAME?verdict=...`.
//!
//! ```text
//! packet --filter--> rest: its verdict immediately
//!           '------> given to the program --> it gives one:    burstline_pcap_verdict
//!                                        '--> it gives none:   the device's, once it goes on;
//!                                                              drop, if it wrote one (`drops`)
//! ```
//!
//! A program goes on when its callback returns, or when it asks for the next packet or closes the
//! handle. So even a program that does not know verdicts gives them. Decision 0054.
//!
//! Ownership: the call that reads sets the program's current packet. The program may decide about
//! it, from its callback or from another thread, until it goes on.
//!
//! Invariant V1: a packet gets one verdict, before the next packet is given to the program.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burstline_log::{Verdict, VerdictError, VerdictGiver};

use crate::drops::Drops;

/// A device's own verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// For a packet that the program was given.
    pub(crate) given: Verdict<'static>,
    /// For a packet that its filter rejected.
    pub(crate) rest: Verdict<'static>,
}

/// The reason why the program's own verdict was not given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The handle gives no verdicts.
    #[error("this handle gives no verdicts: open burst:NAME?verdict=pass")]
    LooksOn,
    #[error(
        "no packet waits for a verdict: each packet takes only one, until its callback returns or \
         the next packet is requested"
    )]
    NoPacket,
    #[error(transparent)]
    Log(#[from] VerdictError),
}

#[derive(Default)]
pub(crate) struct Verdicts {
    /// `None` if the handle gives no verdicts.
    rule: Option<Rule>,
    /// Set when the handle is activated, if the device has a file of drops.
    drops: OnceLock<Drops>,
    lent: Mutex<Lent>,
}

/// The packet that the program decides about.
#[derive(Default)]
struct Lent {
    /// The receiver of verdicts on the held burst.
    giver: Option<Arc<VerdictGiver>>,
    /// The number of the current packet, until it is decided.
    number: Option<u64>,
}

impl Verdicts {
    pub(crate) fn new(rule: Option<Rule>) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Makes packets that the program reports in `drops` end from now on.
    pub(crate) fn heed(&self, drops: Drops) {
        let _ = self.drops.set(drops); // set only once: a handle is activated once
    }

    /// Returns whether packets wait for this handle's verdicts.
    pub(crate) fn are_given(&self) -> bool {
        self.rule.is_some()
    }

    /// Sets the receiver of verdicts for a new burst.
    pub(crate) fn turn_to(&self, giver: Option<&Arc<VerdictGiver>>) {
        if self.are_given() {
            self.lock().giver = giver.cloned();
        }
    }

    /// Makes packet `number` the program's current one.
    pub(crate) fn lend(&self, number: u64) {
        if self.are_given() {
            self.lock().number = Some(number);
        }
    }

    /// Gives the verdict on packet `number`, which the program does not get.
    pub(crate) fn pass_over(&self, number: u64) {
        if let Some(rule) = &self.rule {
            give(&mut self.lock(), number, rule.rest);
        }
    }

    /// The program goes on: the device decides about a packet that the program did not decide.
    #[inline]
    pub(crate) fn go_on(&self) {
        if let Some(rule) = &self.rule {
            self.end(rule);
        }
    }

    fn end(&self, rule: &Rule) {
        let mut lent = self.lock();
        if let Some(number) = lent.number.take() {
            let is_dropped = self.drops.get().is_some_and(Drops::take);
            give(&mut lent, number, if is_dropped { Verdict::Drop } else { rule.given });
        }
    }

    /// Returns whether the program has an undecided packet.
    pub(crate) fn is_owed(&self) -> bool {
        self.are_given() && self.lock().number.is_some()
    }

    /// Gives the program's verdict on its current packet.
    pub(crate) fn decide(&self, verdict: Verdict<'_>) -> Result<(), Refusal> {
        if !self.are_given() {
            return Err(Refusal::LooksOn);
        }
        let mut lent = self.lock();
        let Lent { giver: Some(giver), number: Some(number) } = &*lent else {
            return Err(Refusal::NoPacket);
        };
        giver.give(*number, verdict)?;
        lent.number = None;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner) // every change leaves it whole
    }
}

/// Gives a verdict without bytes, which cannot fail.
fn give(lent: &mut Lent, number: u64, verdict: Verdict<'static>) {
    if let Some(giver) = &lent.giver {
        let _ = giver.give(number, verdict);
    }
}

//! Verdicts of a program that stands in line: `burst:NAME?verdict=...`.
//!
//! ```text
//! packet --filter--> rest: its verdict at once
//!           '------> given to the program --> it asks for one:   burstline_pcap_verdict
//!                                        '--> it asks for none:  the device's, once it goes on;
//!                                                                 drop, if it wrote one (`drops`)
//! ```
//!
//! A program goes on when its callback returns, or when it asks for the next packet or closes the
//! handle. So a program that knows nothing of verdicts gives them. Decision 0054.
//!
//! Who owns what when: the call that reads says which packet the program has. That packet is the
//! program's to decide, from its callback or from another thread, until it goes on.
//!
//! Invariant V1: a packet gets one verdict, before the next one is given to the program.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burstline_log::{Verdict, VerdictError, VerdictGiver};

use crate::drops::Drops;

/// What a device gives by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// To a packet that the program was given.
    pub(crate) given: Verdict<'static>,
    /// To one that it was not: its filter did not want it.
    pub(crate) rest: Verdict<'static>,
}

/// Why the program's own verdict was not given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The handle gives no verdicts.
    #[error("this handle gives no verdicts: open burst:NAME?verdict=pass")]
    LooksOn,
    /// No packet waits for a decision.
    #[error(
        "no packet waits for a verdict: a packet has one from when it is given to the program \
         until the callback returns, or the next packet is asked for, and only once"
    )]
    NoPacket,
    /// The log says no.
    #[error(transparent)]
    Log(#[from] VerdictError),
}

/// The verdicts of one handle.
#[derive(Default)]
pub(crate) struct Verdicts {
    /// `None`: it gives none.
    rule: Option<Rule>,
    /// Set when the handle is activated, if the device has one.
    drops: OnceLock<Drops>,
    lent: Mutex<Lent>,
}

/// What the program decides about.
#[derive(Default)]
struct Lent {
    /// Where verdicts on the held burst go.
    giver: Option<Arc<VerdictGiver>>,
    /// The packet that the program has, until it is decided.
    number: Option<u64>,
}

impl Verdicts {
    pub(crate) fn new(rule: Option<Rule>) -> Self {
        Self { rule, ..Self::default() }
    }

    /// From now on packets end about which the program writes there.
    pub(crate) fn heed(&self, drops: Drops) {
        let _ = self.drops.set(drops); // a handle is activated once
    }

    /// Whether packets wait for this handle.
    pub(crate) fn are_given(&self) -> bool {
        self.rule.is_some()
    }

    /// Verdicts on the packets of a new burst go to `giver`.
    pub(crate) fn turn_to(&self, giver: Option<&Arc<VerdictGiver>>) {
        if self.are_given() {
            self.lock().giver = giver.cloned();
        }
    }

    /// The program gets packet `number`.
    pub(crate) fn lend(&self, number: u64) {
        if self.are_given() {
            self.lock().number = Some(number);
        }
    }

    /// The program does not get packet `number`.
    pub(crate) fn pass_over(&self, number: u64) {
        if let Some(rule) = &self.rule {
            give(&mut self.lock(), number, rule.rest);
        }
    }

    /// The program goes on: if it has a packet that it did not decide, the device does.
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

    /// Whether the program has a packet that is not decided.
    pub(crate) fn is_owed(&self) -> bool {
        self.are_given() && self.lock().number.is_some()
    }

    /// The program decides about the packet that it has.
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

/// Gives one without bytes, so nothing can be wrong with it.
fn give(lent: &mut Lent, number: u64, verdict: Verdict<'static>) {
    if let Some(giver) = &lent.giver {
        let _ = giver.give(number, verdict);
    }
}

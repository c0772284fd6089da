//! What a thread does when there is nothing to do.
//!
//! ```text
//!            packets came     nothing, for SPIN_NS      nothing since then
//! busy       poll             poll                      poll
//! adaptive   poll             poll                      sleep until a source is readable
//! interrupt  poll             sleep until a source is readable
//! ```
//!
//! A source says by [`Port::readiness`] where to wait for it. One that does not (a generator, a
//! file) is looked at again after a nap, which grows. While a thread sleeps nobody looks at flags,
//! deadlines and interfaces, so no sleep is longer than [`SLEEP_MOST_NS`].
//!
//! Invariants:
//! - W1: except in `busy`, a thread whose sources stay idle sleeps, whatever their descriptors
//!   say: after a wake for which no packet was found it takes a nap before it waits again. An
//!   interface that went down, or a ring that the kernel calls readable, is no hot loop.
//! - W2: no wake is lost: descriptors are level-triggered, so what came between the last poll and
//!   the sleep ends the sleep at once.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use burstline_port::Port;
use burstline_sys::readiness::{self, Ready};

use crate::clock::JobClock;

/// How a job's threads wait for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollMode {
    /// Never sleep while the job runs: the least latency, and a core for each thread.
    Busy,
    /// Look on for a short while after the last packet, then sleep until one comes.
    #[default]
    Adaptive,
    /// Sleep as soon as there is none.
    Interrupt,
}

impl PollMode {
    /// The name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Adaptive => "adaptive",
            Self::Interrupt => "interrupt",
        }
    }
}

/// How long `adaptive` looks on after the last packet, in ns.
///
/// To sleep and be woken costs about 12 us of processor time and 30 us of latency here, so a
/// source whose next packet comes within that is better looked at. Whoever spins as long as a
/// sleep costs wastes at most as much again.
const SPIN_NS: u64 = 50_000;

/// The longest sleep, in ns: a tenth of the second within which a port that is looked at must
/// have noticed what happened to its interface.
const SLEEP_MOST_NS: u64 = 100_000_000;

/// The first nap and the longest, in ns. A source's own buffer has to last for the longest.
const NAP_FIRST_NS: u64 = 50_000;
const NAP_MOST_NS: u64 = 1_000_000;

/// How often a thread slept, and why it got up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sleeps {
    /// Sleeps and naps.
    pub(crate) sleeps: u64,
    /// Sleeps that ended because a source, or a log, had something.
    pub(crate) wakes: u64,
}

/// One thread's patience.
pub(crate) struct Waiter {
    mode: PollMode,
    /// When there last was work.
    worked_ns: u64,
    /// Naps since then.
    naps: u32,
    /// A source said that it had something, and nothing was found since.
    is_alarmed: bool,
    sleeps: Sleeps,
}

impl Waiter {
    pub(crate) fn new(mode: PollMode, now_ns: u64) -> Self {
        Self {
            mode,
            worked_ns: now_ns,
            naps: 0,
            is_alarmed: false,
            sleeps: Sleeps::default(),
        }
    }

    /// There was work at `now_ns`.
    #[inline]
    pub(crate) fn work(&mut self, now_ns: u64) {
        self.worked_ns = now_ns;
        self.naps = 0;
        self.is_alarmed = false;
    }

    /// There was none at `now_ns`, and these ports are what there is to wait for. Returns whether
    /// it slept.
    pub(crate) fn pause<'p>(
        &mut self,
        ports: impl Iterator<Item = &'p dyn Port>,
        now_ns: u64,
        clock: &JobClock<'_>,
    ) -> bool {
        if self.looks_on(now_ns) {
            std::hint::spin_loop();
            return false;
        }
        if std::mem::take(&mut self.is_alarmed) {
            // W1: the last wake was for nothing.
            return self.nap(clock);
        }
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        let mut sleep_ns = SLEEP_MOST_NS;
        for port in ports {
            match port.readiness() {
                Some(descriptor) => descriptors.push(descriptor),
                None => sleep_ns = self.nap_ns(),
            }
        }
        self.sleep(&descriptors, sleep_ns, clock);
        true
    }

    /// Somebody else will have news soon: looks on, or takes a nap. Returns whether it slept.
    pub(crate) fn pause_briefly(&mut self, now_ns: u64, clock: &JobClock<'_>) -> bool {
        if self.looks_on(now_ns) {
            std::hint::spin_loop();
            return false;
        }
        self.nap(clock)
    }

    /// The log is full: whoever drains it needs the core more than we do, in every mode.
    pub(crate) fn wait_for_room(&mut self, clock: &JobClock<'_>) {
        self.sleeps.sleeps += 1;
        thread::sleep(Duration::from_nanos(NAP_FIRST_NS.min(clock.most_ns())));
    }

    /// How often it slept so far.
    pub(crate) fn sleeps(&self) -> Sleeps {
        self.sleeps
    }

    fn looks_on(&self, now_ns: u64) -> bool {
        match self.mode {
            PollMode::Busy => true,
            PollMode::Adaptive => now_ns.saturating_sub(self.worked_ns) < SPIN_NS,
            PollMode::Interrupt => false,
        }
    }

    fn sleep(&mut self, descriptors: &[BorrowedFd<'_>], sleep_ns: u64, clock: &JobClock<'_>) {
        self.sleeps.sleeps += 1;
        match readiness::wait(descriptors, sleep_ns.min(clock.most_ns())) {
            Ok(Ready::Readable | Ready::Failed) => {
                self.sleeps.wakes += 1;
                self.is_alarmed = true;
            }
            Ok(Ready::TimedOut) => self.naps = self.naps.saturating_add(1),
            Ok(Ready::Interrupted) => {}
            // No such call here: what a nap misses is seen at its end.
            Err(_) => self.is_alarmed = true,
        }
    }

    fn nap(&mut self, clock: &JobClock<'_>) -> bool {
        self.sleeps.sleeps += 1;
        thread::sleep(Duration::from_nanos(self.nap_ns().min(clock.most_ns())));
        self.naps = self.naps.saturating_add(1);
        true
    }

    fn nap_ns(&self) -> u64 {
        (NAP_FIRST_NS << self.naps.min(8)).min(NAP_MOST_NS)
    }
}

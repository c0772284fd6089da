//! What a thread does when there is nothing to do.
//!
//! ```text
//!            packets came     nothing, for a while      nothing since then
//! busy       poll             poll                      poll
//! adaptive   poll             poll                      sleep until a source is readable
//! interrupt  poll             sleep until a source is readable
//! ```
//!
//! A source says by [`Port::readiness`] what to wait for, or waits by itself ([`Port::wait`]).
//! Several of the second kind are polled in turn, every 5 ms. One that does neither (a generator, a
//! file) is looked at again after a nap, which grows. A thread that sleeps looks at no flags,
//! deadlines and interfaces, so no sleep is longer than [`SLEEP_MOST_NS`].
//!
//! Invariants:
//! - W1: except in `busy`, a thread whose sources stay idle sleeps, even if their descriptors are
//!   readable. After a wake without a packet it naps before it waits again. An interface that went
//!   down, or a ring that the kernel calls readable, is no hot loop.
//! - W2: no wake is lost: descriptors are level-triggered, so what came between the last poll and
//!   the sleep ends the sleep at once.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use burstline_port::Port;
use burstline_sys::readiness::{self, Ready};

use super::clock::JobClock;

/// How a job's threads wait for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollMode {
    /// Never sleep, not even without packets: the least latency, and a core for each thread.
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

/// How long `adaptive` spins after the last packet, in ns.
///
/// As long as a sleeper takes to get up. On the machine of the README a thread in poll(2) ran 43 us
/// after it was woken (95 us in the worst hundredth). That cost it 20 us of processor time. A
/// thread that spins receives a packet within that time sooner. A spin of that length wastes no
/// more than a sleep. Under load no packet is that far from the next.
///
/// A ring that is handed over in blocks has news every few milliseconds, and nothing between. So a
/// spin that finds nothing halves the time, down to a fiftieth. News within that time, seen once
/// the sleeper is up, restores it.
const WAKE_NS: u64 = 50_000;
const SPIN_NS: u64 = 50_000;
const SPIN_LEAST_NS: u64 = SPIN_NS / 50;

/// The longest sleep, in ns: a tenth of the second within which a polled port must notice what
/// happened to its interface.
const SLEEP_MOST_NS: u64 = 100_000_000;

/// The first nap and the longest, in ns. A source's own buffer has to last for the longest.
const NAP_FIRST_NS: u64 = 50_000;
const NAP_MOST_NS: u64 = 1_000_000;

/// How long a thread with several sources sleeps in the first one's own way, in ns: the others are
/// looked at only then.
const TURN_NS: u64 = 5_000_000;

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
    /// How long `adaptive` spins now, in `[SPIN_LEAST_NS, SPIN_NS]`.
    spin_ns: u64,
    /// Whether it has looked on since then, and no longer does.
    has_looked_on: bool,
    /// Naps since then.
    naps: u32,
    /// Whether it has let news gather since then.
    has_gathered: bool,
    /// A source said that it had something, and nothing was found since.
    is_alarmed: bool,
    sleeps: Sleeps,
}

impl Waiter {
    pub(crate) fn new(mode: PollMode, now_ns: u64) -> Self {
        Self {
            mode,
            worked_ns: now_ns,
            spin_ns: SPIN_NS,
            has_looked_on: false,
            naps: 0,
            has_gathered: false,
            is_alarmed: false,
            sleeps: Sleeps::default(),
        }
    }

    /// There was work at `now_ns`.
    #[inline]
    pub(crate) fn work(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.has_looked_on) {
            let gap_ns = now_ns.saturating_sub(self.worked_ns);
            self.spin_ns = match gap_ns < SPIN_NS + WAKE_NS {
                true => SPIN_NS,
                false => (self.spin_ns / 2).max(SPIN_LEAST_NS),
            };
        }
        self.worked_ns = now_ns;
        self.naps = 0;
        self.has_gathered = false;
        self.is_alarmed = false;
    }

    /// There was none at this moment, and the source has room for what may come within `nap_ns`:
    /// sleeps so long, once after work, in `adaptive`. Being woken for each bit of news would cost
    /// more. Returns whether it slept.
    pub(crate) fn gather(&mut self, nap_ns: u64, clock: &JobClock<'_>) -> bool {
        if self.mode != PollMode::Adaptive || std::mem::replace(&mut self.has_gathered, true) {
            return false;
        }
        self.sleeps.sleeps += 1;
        thread::sleep(Duration::from_nanos(nap_ns.min(clock.most_ns())));
        true
    }

    /// Its logs have none: lets news gather for `nap`, once after work, then sleeps as `sleep`
    /// does, which says whether there is news. Returns whether it slept.
    pub(crate) fn wait_for_news(&mut self, nap: Duration, sleep: impl FnOnce() -> bool) -> bool {
        if self.mode == PollMode::Busy {
            std::hint::spin_loop();
            return false;
        }
        self.sleeps.sleeps += 1;
        match std::mem::replace(&mut self.has_gathered, true) {
            false => thread::sleep(nap),
            true => self.sleeps.wakes += u64::from(sleep()),
        }
        true
    }

    /// Sleeps for some time, in every mode.
    pub(crate) fn sleep_for(&mut self, span: Duration) {
        self.sleeps.sleeps += 1;
        thread::sleep(span);
    }

    /// There was none at `now_ns`, and these ports are what there is to wait for. Returns whether
    /// it slept.
    pub(crate) fn pause<'p>(
        &mut self,
        ports: impl Iterator<Item = &'p dyn Port>,
        now_ns: u64,
        clock: &JobClock<'_>,
    ) -> bool {
        if self.spins(now_ns) {
            return false;
        }
        if std::mem::take(&mut self.is_alarmed) {
            // W1: the last wake was for nothing.
            return self.nap(clock);
        }
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        let mut sleep_ns = SLEEP_MOST_NS;
        let (mut first, mut count) = (None, 0);
        for port in ports {
            first.get_or_insert(port);
            count += 1;
            match port.readiness() {
                Some(descriptor) => descriptors.push(descriptor),
                None => sleep_ns = self.nap_ns(),
            }
        }
        let itself_ns = if count == 1 { SLEEP_MOST_NS } else { TURN_NS };
        let first = first.filter(|_| descriptors.is_empty());
        if let Some(is_woken) = first.and_then(|port| port.wait(itself_ns.min(clock.most_ns()))) {
            self.wake(is_woken);
            return true;
        }
        self.sleep(&descriptors, sleep_ns, clock);
        true
    }

    /// Another thread will have news soon: spins, or takes a nap. Returns whether it slept.
    pub(crate) fn pause_briefly(&mut self, now_ns: u64, clock: &JobClock<'_>) -> bool {
        !self.spins(now_ns) && self.nap(clock)
    }

    /// What is waited for wakes nobody: spins, or sleeps for `span_ns`. Returns whether it slept.
    pub(crate) fn wait_for_a_look(
        &mut self,
        span_ns: u64,
        now_ns: u64,
        clock: &JobClock<'_>,
    ) -> bool {
        if self.spins(now_ns) {
            return false;
        }
        self.sleep_for(Duration::from_nanos(span_ns.min(clock.most_ns())));
        true
    }

    /// The log is full: the thread that drains it needs the core more, in every mode.
    pub(crate) fn wait_for_room(&mut self, clock: &JobClock<'_>) {
        self.sleeps.sleeps += 1;
        thread::sleep(Duration::from_nanos(NAP_FIRST_NS.min(clock.most_ns())));
    }

    /// How often it slept so far.
    pub(crate) fn sleeps(&self) -> Sleeps {
        self.sleeps
    }

    /// Spins once if its time to spin is not over. Returns whether it did.
    fn spins(&mut self, now_ns: u64) -> bool {
        let looks_on = self.looks_on(now_ns);
        if looks_on {
            std::hint::spin_loop();
        }
        looks_on
    }

    fn looks_on(&mut self, now_ns: u64) -> bool {
        match self.mode {
            PollMode::Busy => true,
            PollMode::Adaptive => {
                let looks_on = now_ns.saturating_sub(self.worked_ns) < self.spin_ns;
                self.has_looked_on |= !looks_on;
                looks_on
            }
            PollMode::Interrupt => false,
        }
    }

    /// A port has slept by itself.
    fn wake(&mut self, is_woken: bool) {
        self.sleeps.sleeps += 1;
        self.sleeps.wakes += u64::from(is_woken);
        self.is_alarmed = is_woken;
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::iter;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicBool;

    use burstline_port::{Capabilities, PortAccount, PortInfo, TimestampSource};

    use super::*;
    use crate::{Progress, Run};

    /// A port that finds nothing although its descriptor is readable; no real one does that for
    /// long.
    struct Liar {
        info: PortInfo,
        descriptor: Option<UnixStream>,
    }

    impl Liar {
        fn new(descriptor: Option<UnixStream>) -> Self {
            let (name, timestamps) = ("liar".to_owned(), TimestampSource::Kernel);
            let capabilities = Capabilities::default();
            Self { info: PortInfo { name, capabilities, timestamps }, descriptor }
        }
    }

    impl Port for Liar {
        fn info(&self) -> &PortInfo {
            &self.info
        }

        fn account(&self) -> PortAccount {
            PortAccount::default()
        }

        fn readiness(&self) -> Option<BorrowedFd<'_>> {
            self.descriptor.as_ref().map(|descriptor| descriptor.as_fd())
        }
    }

    /// Pauses of a thread that finds no work, long after the last.
    fn pauses(mode: PollMode, port: &Liar, count: usize) -> Sleeps {
        let stop = AtomicBool::new(false);
        let progress = Progress::new(0);
        let clock = JobClock::start(&Run::new(&stop, &progress));
        let mut waiter = Waiter::new(mode, 0);
        for _ in 0..count {
            let port: &dyn Port = port;
            let has_slept = waiter.pause(iter::once(port), u64::MAX, &clock);
            assert_eq!(has_slept, mode != PollMode::Busy);
        }
        waiter.sleeps()
    }

    #[test]
    fn a_descriptor_that_is_always_ready_is_believed_every_other_time() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"never read").unwrap();
        let readable = Liar::new(Some(far));
        let (_, hung_up) = UnixStream::pair().unwrap();
        for port in [readable, Liar::new(Some(hung_up))] {
            for mode in [PollMode::Adaptive, PollMode::Interrupt] {
                assert_eq!(pauses(mode, &port, 8), Sleeps { sleeps: 8, wakes: 4 });
            }
            assert_eq!(pauses(PollMode::Busy, &port, 8), Sleeps::default());
        }
    }

    #[test]
    fn a_port_without_a_descriptor_is_looked_at_after_a_nap_that_grows() {
        let port = Liar::new(None);
        assert_eq!(pauses(PollMode::Adaptive, &port, 8), Sleeps { sleeps: 8, wakes: 0 });
        let mut waiter = Waiter::new(PollMode::Adaptive, 0);
        let naps = [0, 1, 2, 5, u32::MAX].map(|naps| {
            waiter.naps = naps;
            waiter.nap_ns()
        });
        assert_eq!(naps, [50_000, 100_000, 200_000, 1_000_000, 1_000_000]);
    }

    #[test]
    fn adaptive_looks_on_for_a_while_after_work() {
        let mut waiter = Waiter::new(PollMode::Adaptive, 0);
        waiter.work(1_000_000);
        assert!(waiter.looks_on(1_000_000 + SPIN_NS - 1));
        assert!(!waiter.looks_on(1_000_000 + SPIN_NS));
        waiter.mode = PollMode::Interrupt;
        assert!(!waiter.looks_on(1_000_000));
    }
}

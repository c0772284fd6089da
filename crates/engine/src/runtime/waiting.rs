//! How a thread waits for work.
//!
//! ```text
//!            packet found     none, for a while         none since then
//! busy       poll             poll                      poll
//! adaptive   poll             poll                      sleep until a source is readable
//! interrupt  poll             sleep until a source is readable
//! ```
//!
//! A source offers a descriptor to wait for by [`Port::readiness`], or waits itself
//! ([`Port::wait`]). Several sources of the second kind are polled in turn, every 5 ms. A source
//! with neither (a generator, a file) is polled again after a nap, which grows. A sleeping thread
//! checks no flags, deadlines or interfaces, so no sleep is longer than [`SLEEP_MOST_NS`].
//!
//! Invariants:
//! - W1: except in `busy`, a thread with idle sources sleeps, even if their descriptors are
//!   readable. After a wake-up without a packet it naps before it waits again. So an interface that
//!   went down, or a ring that is always readable, causes no hot loop.
//! - W2: no wake-up is lost: descriptors are level-triggered, so a packet that arrives between the
//!   last poll and the sleep ends the sleep immediately.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use burstline_port::Port;
use burstline_sys::readiness::{self, Ready};

use super::clock::JobClock;

/// How a job's threads wait for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollMode {
    /// Never sleeps, even without packets: the least latency, and a core for each thread.
    Busy,
    /// Polls for a short while after the last packet, then sleeps until one arrives.
    #[default]
    Adaptive,
    /// Sleeps as soon as there are no packets.
    Interrupt,
}

impl PollMode {
    /// Returns the name in flags and reports.
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
/// This equals the wake-up time of a sleeper. On the machine of the README a thread in poll(2) ran
/// 43 us after it was woken (95 us in the worst hundredth). That cost it 20 us of processor time.
/// Within that time, a spinning thread receives a packet sooner. A spin of that length wastes no
/// more than a sleep. Under load, no gap between packets is that long.
///
/// A ring that is handed over in blocks has packets every few milliseconds, and nothing in between.
/// So a spin that finds nothing halves the time, down to a fiftieth. Packets within that time, seen
/// once the sleeper is up, restore it.
const WAKE_NS: u64 = 50_000;
const SPIN_NS: u64 = 50_000;
const SPIN_LEAST_NS: u64 = SPIN_NS / 50;

/// The longest sleep, in ns: a tenth of the second within which a polled port must notice a change
/// of its interface.
const SLEEP_MOST_NS: u64 = 100_000_000;

/// The first nap and the longest, in ns. A source's own buffer must last for the longest.
const NAP_FIRST_NS: u64 = 50_000;
const NAP_MOST_NS: u64 = 1_000_000;

/// How long a thread with several sources lets the first one wait, in ns; the others are not polled
/// during that time.
const TURN_NS: u64 = 5_000_000;

/// How often a thread slept, and why it woke up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sleeps {
    /// Sleeps and naps.
    pub(crate) sleeps: u64,
    /// Sleeps that ended because a source or a log had packets.
    pub(crate) wakes: u64,
}

/// One thread's waiting state.
pub(crate) struct Waiter {
    mode: PollMode,
    /// When there was work last.
    worked_ns: u64,
    /// How long `adaptive` spins now, in `[SPIN_LEAST_NS, SPIN_NS]`.
    spin_ns: u64,
    /// Whether it has spun since then, and no longer does.
    has_looked_on: bool,
    /// Naps since then.
    naps: u32,
    /// Whether it has let packets gather since then.
    has_gathered: bool,
    /// A source was ready, and nothing was found since.
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

    /// Notes that there was work at `now_ns`.
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

    /// Lets packets gather for `nap_ns`, for which the source has room: once after work, and only
    /// in `adaptive`. Being woken for every few packets would cost more. Returns whether it slept.
    pub(crate) fn gather(&mut self, nap_ns: u64, clock: &JobClock<'_>) -> bool {
        if self.mode != PollMode::Adaptive || std::mem::replace(&mut self.has_gathered, true) {
            return false;
        }
        self.sleeps.sleeps += 1;
        thread::sleep(Duration::from_nanos(nap_ns.min(clock.most_ns())));
        true
    }

    /// Waits for logs: lets packets gather for `nap`, once after work, then sleeps by `sleep`,
    /// which returns whether there are packets. Returns whether it slept.
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

    /// Sleeps for `span`, in every mode.
    pub(crate) fn sleep_for(&mut self, span: Duration) {
        self.sleeps.sleeps += 1;
        thread::sleep(span);
    }

    /// Waits for these ports, which had nothing at `now_ns`. Returns whether it slept.
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
            // W1: the last wake-up brought no packet.
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

    /// Waits for another thread that will have work soon: spins, or naps. Returns whether it slept.
    pub(crate) fn pause_briefly(&mut self, now_ns: u64, clock: &JobClock<'_>) -> bool {
        !self.spins(now_ns) && self.nap(clock)
    }

    /// Waits for an event that wakes no thread: spins, or sleeps. Returns whether it slept.
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

    /// Sleeps because the log is full, in every mode: the draining thread needs the core more.
    pub(crate) fn wait_for_room(&mut self, clock: &JobClock<'_>) {
        self.sleeps.sleeps += 1;
        thread::sleep(Duration::from_nanos(NAP_FIRST_NS.min(clock.most_ns())));
    }

    /// Returns how often it slept so far.
    pub(crate) fn sleeps(&self) -> Sleeps {
        self.sleeps
    }

    /// Spins once if its spinning time is not over. Returns whether it did.
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

    /// Counts a sleep in a port's own wait.
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
            // poll(2) is not available here: nap instead; the poll after it finds the packets.
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

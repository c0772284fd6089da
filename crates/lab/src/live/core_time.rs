//! Measures a core's CPU time by the kernel's accounting.
//!
//! The kernel attributes time by checking which program runs when its timer ticks. A program that
//! sleeps until the timer wakes it up is never seen, however much it works in between. But the
//! kernel measures idle time exactly, from each sleep to the next wake-up (CONFIG_NO_HZ_IDLE;
//! kernel/time/tick-sched.c). So busy time is computed as the time that was not idle, and the ticks
//! only divide it into shares.

use std::fs;

use burstline_sys::affinity::CoreId;
use burstline_sys::clock;

/// Ticks per second. Source: USER_HZ, which is 100 wherever this runs.
const TICKS_PER_S: f64 = 100.0;

/// CPU time of one core in s, used by any program. It includes the kernel's work in softirqs, for
/// whichever program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTime {
    /// Time in programs.
    pub user: f64,
    /// Time in system calls and kernel threads.
    pub system: f64,
    /// Time in interrupts and softirqs.
    pub interrupts: f64,
    /// Elapsed time that was neither idle nor stolen by the hypervisor. Its zero point is arbitrary
    /// until [`since`](Self::since) is applied.
    busy: f64,
}

impl CoreTime {
    /// Returns the time of a core since the start of the machine.
    ///
    /// # Errors
    /// If the core is not in `/proc/stat`.
    pub fn of(core: CoreId) -> Result<Self, String> {
        let text = fs::read_to_string("/proc/stat").map_err(|error| error.to_string())?;
        let now_s = clock::monotonic_ns() as f64 / 1e9;
        let core = format!("cpu{core}");
        Self::parse(&text, &core, now_s).ok_or_else(|| format!("/proc/stat has no {core}"))
    }

    /// Adds the time of another core.
    pub fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.system += other.system;
        self.interrupts += other.interrupts;
        self.busy += other.busy;
    }

    fn parse(text: &str, core: &str, now_s: f64) -> Option<Self> {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(&core))?;
        // Source: fs/proc/stat.c: user, nice, system, idle, iowait, irq, softirq, steal.
        let seconds = |index: usize| {
            let ticks = line.get(index)?.parse::<f64>().ok()?;
            Some(ticks / TICKS_PER_S)
        };
        Some(Self {
            user: seconds(1)? + seconds(2)?,
            system: seconds(3)?,
            interrupts: seconds(6)? + seconds(7)?,
            busy: now_s - seconds(4)? - seconds(5)? - seconds(8).unwrap_or(0.0),
        })
    }

    /// Returns the time used since `earlier`: [`busy`](Self::busy), divided by ticks. If no tick
    /// hit a running program, all is system time, because the kernel wakes the sleepers.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let busy = (self.busy - earlier.busy).max(0.0);
        let parts = [
            self.user - earlier.user,
            self.system - earlier.system,
            self.interrupts - earlier.interrupts,
        ];
        let seen: f64 = parts.iter().sum();
        let [user, system, interrupts] =
            if seen > 0.0 { parts.map(|part| part / seen * busy) } else { [0.0, busy, 0.0] };
        Self { user, system, interrupts, busy }
    }

    /// Returns the busy time since the earlier reading.
    pub fn busy(&self) -> f64 {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use burstline_sys::{affinity, clock};

    use super::*;

    #[test]
    fn a_core_is_found_by_its_whole_name() {
        let before = "cpu  9 9 9 9 9 9 9\ncpu1 100 50 200 800 5 10 40 0\ncpu10 1 1 1 1 1 1 1 1\n";
        // In 5 s it was idle for 1.9 s, waited for a disk for 0.1 s, and was stolen for 0.5 s. The
        // ticks cover one fifth of the other 2.5 s.
        let after = "cpu1 120 60 210 990 15 15 45 50\n";
        let before = CoreTime::parse(before, "cpu1", 30.0).unwrap();
        let after = CoreTime::parse(after, "cpu1", 35.0).unwrap();
        let used = after.since(&before);
        let expected = CoreTime { user: 1.5, system: 0.5, interrupts: 0.5, busy: 2.5 };
        for (ours, expected) in [
            (used.user, expected.user),
            (used.system, expected.system),
            (used.interrupts, expected.interrupts),
            (used.busy(), expected.busy),
        ] {
            assert!((ours - expected).abs() < 1e-9, "{used:?}");
        }
        assert_eq!(before.since(&before).busy(), 0.0);
        assert_eq!(CoreTime::parse("cpu1 1 1 1 1 1 1 1 1\n", "cpu2", 1.0), None);
    }

    #[test]
    fn who_works_between_the_ticks_is_seen() {
        let core = *affinity::allowed_cores().unwrap().last().unwrap();
        let worker = move || {
            affinity::pin_to(core).unwrap();
            let before = CoreTime::of(core).unwrap();
            let (started, own_ns) = (Instant::now(), clock::thread_cpu_ns());
            while started.elapsed() < Duration::from_secs(1) {
                thread::sleep(Duration::from_millis(1));
                let busy = Instant::now();
                while busy.elapsed() < Duration::from_micros(400) {}
            }
            // Without the time that a hypervisor took from it meanwhile.
            let worked = Duration::from_nanos(clock::thread_cpu_ns() - own_ns);
            (CoreTime::of(core).unwrap().since(&before), worked)
        };
        let (used, worked) = thread::spawn(worker).join().unwrap();
        // One tick of /proc/stat each for idle, waiting and stolen time. Others may run, too.
        assert!(used.busy() > worked.as_secs_f64() / 2.0 - 0.03, "{used:?}, worked {worked:?}");
        let parts = used.user + used.system + used.interrupts;
        assert!((parts - used.busy()).abs() < 1e-9, "{used:?}");
    }
}

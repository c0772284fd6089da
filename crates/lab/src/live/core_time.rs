//! What a core does, by the kernel's own account of it.

use std::fs;

use burstline_sys::affinity::CoreId;

use crate::threads::Cores;

/// Ticks of a second. Source: USER_HZ, which is 100 wherever this runs.
const TICKS_PER_S: f64 = 100.0;

/// Processor time of one core, in s: everybody's, so that work which the kernel does on the core in
/// softirqs counts, on whosever behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTime {
    /// In programs.
    pub user: f64,
    /// In system calls and kernel threads.
    pub system: f64,
    /// In interrupts and softirqs.
    pub interrupts: f64,
}

impl CoreTime {
    /// Since the start of the machine, of the core that contenders run on.
    ///
    /// # Errors
    /// It is not in `/proc/stat`.
    pub fn of_consumer(cores: Cores) -> Result<Self, String> {
        Self::of(cores.consumer)
    }

    /// Since the start of the machine, of any core.
    ///
    /// # Errors
    /// It is not in `/proc/stat`.
    pub fn of(core: CoreId) -> Result<Self, String> {
        let text = fs::read_to_string("/proc/stat").map_err(|error| error.to_string())?;
        let core = format!("cpu{core}");
        Self::parse(&text, &core).ok_or_else(|| format!("/proc/stat has no {core}"))
    }

    /// The same of both cores of a figure.
    ///
    /// # Errors
    /// As there.
    pub fn of_both(cores: Cores) -> Result<Self, String> {
        let swapped = Cores { producer: cores.consumer, consumer: cores.producer };
        let mut both = Self::of_consumer(cores)?;
        if cores.are_two() {
            let other = Self::of_consumer(swapped)?;
            both.user += other.user;
            both.system += other.system;
            both.interrupts += other.interrupts;
        }
        Ok(both)
    }

    fn parse(text: &str, core: &str) -> Option<Self> {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(&core))?;
        // Source: fs/proc/stat.c: user, nice, system, idle, iowait, irq, softirq.
        let seconds = |index: usize| {
            let ticks = line.get(index)?.parse::<f64>().ok()?;
            Some(ticks / TICKS_PER_S)
        };
        Some(Self {
            user: seconds(1)? + seconds(2)?,
            system: seconds(3)?,
            interrupts: seconds(6)? + seconds(7)?,
        })
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            interrupts: self.interrupts - earlier.interrupts,
        }
    }

    /// All of it.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.interrupts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_found_by_its_whole_name() {
        let text = "cpu  9 9 9 9 9 9 9\ncpu1 100 50 200 800 5 10 40 0\ncpu10 1 1 1 1 1 1 1 1\n";
        let core = CoreTime::parse(text, "cpu1").unwrap();
        assert_eq!(core, CoreTime { user: 1.5, system: 2.0, interrupts: 0.5 });
        assert_eq!((core.busy(), core.since(&core).busy()), (4.0, 0.0));
        assert_eq!(CoreTime::parse(text, "cpu2"), None);
    }
}

//! Records second by second what took cores away from a contender and its generator, to explain
//! lost packets.
//!
//! A thread on the generator's core reads the kernel's counts once a second. They are the time
//! stolen by the host, the time that threads waited, and their involuntary context switches.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_sys::affinity::{self, CoreId};

use super::{EachSecond, Sample};

/// Interval of the readings.
const SECOND: Duration = Duration::from_secs(1);

/// Interval of the checks for the end.
const LOOK: Duration = Duration::from_millis(20);

/// Ms of a tick of `/proc/stat`. Source: USER_HZ, which is 100 wherever this runs.
const TICK_MS: f64 = 10.0;

/// A shorter wait causes no loss, because the rings can hold the packets.
const HELD_MS: f64 = 1.0;

/// Losses by second since the first packet, and by place.
pub(super) type LostBySecond = BTreeMap<usize, BTreeMap<String, u64>>;

/// The observed threads.
#[derive(Clone, Debug)]
pub(super) struct Whom {
    /// The contender's processes.
    pub(super) processes: Vec<u32>,
    /// The injecting thread of this process.
    pub(super) generator: u32,
    /// The core of that thread.
    pub(super) generator_core: CoreId,
    /// The cores of both.
    pub(super) cores: Vec<CoreId>,
}

/// Times of one second, or sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Taken {
    /// Time stolen from all cores by the host in ms, in ticks of 10 ms.
    stolen_ms: f64,
    /// Time in ms that the contender's runnable threads waited for a core.
    waited_ms: f64,
    /// Number of their involuntary context switches.
    involuntary: f64,
    /// Time in ms that the generator's runnable thread waited for a core.
    generator_waited_ms: f64,
}

/// An observing thread.
pub(super) struct Seconds {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Taken>>,
}

impl Seconds {
    /// Starts it.
    pub(super) fn start(whom: Whom) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let look = move || {
            // If this fails, the thread runs on another core.
            let _ = affinity::pin_to(whom.generator_core);
            let (began, mut before, mut seconds) = (Instant::now(), whom.look(), Vec::new());
            loop {
                let due = began + SECOND * (seconds.len() as u32 + 1);
                // Relaxed: no other data depends on the flag.
                while Instant::now() < due && !over.load(Relaxed) {
                    thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
                }
                let now = whom.look();
                seconds.push(now.since(&before));
                before = now;
                if over.load(Relaxed) {
                    return seconds;
                }
            }
        };
        Self { is_over, thread: thread::spawn(look) }
    }

    /// Ends it. Returns the times of each second, of which the last is shorter.
    pub(super) fn end(self) -> Vec<Taken> {
        self.is_over.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

impl Whom {
    fn look(&self) -> Taken {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mut taken = Taken {
            stolen_ms: stolen_ms(&stat, &self.cores),
            generator_waited_ms: waited_ms(&format!("/proc/self/task/{}", self.generator)),
            ..Taken::default()
        };
        for process in &self.processes {
            let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
            for thread in threads.flatten() {
                let folder = thread.path().display().to_string();
                taken.waited_ms += waited_ms(&folder);
                let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
                taken.involuntary += involuntary(&status);
            }
        }
        taken
    }
}

impl Taken {
    /// Returns the difference, at least 0, since threads that ended no longer count.
    fn since(&self, before: &Self) -> Self {
        let since = |now: f64, before: f64| (now - before).max(0.0);
        Self {
            stolen_ms: since(self.stolen_ms, before.stolen_ms),
            waited_ms: since(self.waited_ms, before.waited_ms),
            involuntary: since(self.involuntary, before.involuntary),
            generator_waited_ms: since(self.generator_waited_ms, before.generator_waited_ms),
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            stolen_ms: self.stolen_ms + other.stolen_ms,
            waited_ms: self.waited_ms + other.waited_ms,
            involuntary: self.involuntary + other.involuntary,
            generator_waited_ms: self.generator_waited_ms + other.generator_waited_ms,
        }
    }

    /// Returns the probable cause of a loss: what took most of the time.
    fn cause(&self) -> &'static str {
        let causes = [
            (self.stolen_ms, "the host took a core away"),
            (self.waited_ms, "another thread ran on the contender's core"),
            (
                self.generator_waited_ms,
                "the generator had no core, and then sent its backlog at once",
            ),
        ];
        let most = causes.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        most.filter(|(ms, _)| *ms > HELD_MS).map_or("unexplained", |(_, cause)| cause)
    }
}

/// Sums the stolen time. Source: proc_stat(5): user nice system idle iowait irq softirq steal.
fn stolen_ms(stat: &str, cores: &[CoreId]) -> f64 {
    let is_one = |name: &str| cores.iter().any(|core| name == format!("cpu{core}"));
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let steal = lines
        .filter(|(name, _)| is_one(name))
        .filter_map(|(_, rest)| rest.split_whitespace().nth(7)?.parse::<f64>().ok());
    steal.sum::<f64>() * TICK_MS
}

/// Returns the waiting time of a thread's folder. Source: Documentation/scheduler/sched-stats.rst:
/// time on a core, time that it waited for one, both in ns, and how often it was given one.
fn waited_ms(folder: &str) -> f64 {
    let text = fs::read_to_string(format!("{folder}/schedstat")).unwrap_or_default();
    let waited = text.split_whitespace().nth(1).and_then(|ns| ns.parse::<f64>().ok());
    waited.unwrap_or(0.0) / 1e6
}

fn involuntary(status: &str) -> f64 {
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0.0)
}

/// Adds the times of each second, and a line for each second with lost packets.
pub(super) fn enter(seconds: &[Taken], lost: &LostBySecond, sample: &mut Sample) {
    let figure = |name, unit, of: fn(&Taken) -> f64| {
        let values = seconds.iter().map(of).collect();
        EachSecond { name, unit, values }
    };
    sample.each_second = [
        figure("stolen_ms_each_second", "ms", |taken| taken.stolen_ms),
        figure("waited_ms_each_second", "ms", |taken| taken.waited_ms),
        figure("involuntary_each_second", "context switches", |taken| taken.involuntary),
        figure("generator_waited_ms_each_second", "ms", |taken| taken.generator_waited_ms),
    ]
    .to_vec();
    sample.notes.extend(lost.iter().map(|(&second, places)| explained(second, places, seconds)));
}

/// The clocks of both sides agree to some tenths of a second, so the second before counts, too.
fn explained(second: usize, places: &BTreeMap<String, u64>, seconds: &[Taken]) -> String {
    let of = |second: Option<usize>| second.and_then(|at| seconds.get(at)).copied();
    let (own, before) = (of(Some(second)), of(second.checked_sub(1)));
    let taken = own.unwrap_or_default().and(&before.unwrap_or_default());
    let lost: u64 = places.values().sum();
    let places: Vec<String> =
        places.iter().map(|(name, packets)| format!("{name} {packets}")).collect();
    format!(
        "second {second}: {lost} lost ({}): {}; in it and the second before, the host took \
         {:.0} ms of the cores, the contender waited {:.1} ms for a core and was preempted \
         {:.0} times, the generator waited {:.1} ms",
        places.join(", "),
        taken.cause(),
        taken.stolen_ms,
        taken.waited_ms,
        taken.involuntary,
        taken.generator_waited_ms
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_cores_and_threads() {
        let stat = "cpu  1 1 1 1 1 1 1 99 0\ncpu0 1 1 1 1 1 1 1 4 0\ncpu1 1 1 1 1 1 1 1 2 0\n\
                    cpu10 1 1 1 1 1 1 1 50 0\n";
        assert_eq!(stolen_ms(stat, &[CoreId(0), CoreId(1)]), 60.0);
        let status = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!((involuntary(status), involuntary("")), (12.0, 0.0));
        let now = Taken { stolen_ms: 30.0, waited_ms: 1.0, ..Taken::default() };
        let before = Taken { stolen_ms: 10.0, waited_ms: 2.0, ..Taken::default() };
        assert_eq!(now.since(&before), Taken { stolen_ms: 20.0, ..Taken::default() });
    }

    #[test]
    fn each_loss_has_a_time_and_a_cause_or_none_is_known() {
        let quiet = Taken::default();
        let stolen = Taken { stolen_ms: 20.0, ..quiet };
        let crowded = Taken { waited_ms: 3.5, involuntary: 2.0, ..quiet };
        let late = Taken { generator_waited_ms: 4.0, waited_ms: 0.9, ..quiet };
        let lost = |at: usize| (at, [("rx_ring_full".to_owned(), 5)].into());
        let lost: LostBySecond = [0, 2, 5, 8, 20].map(lost).into();
        let seconds = [quiet, stolen, quiet, quiet, crowded, quiet, quiet, late];
        let mut sample = Sample::default();
        enter(&seconds, &lost, &mut sample);
        for (line, (start, cause)) in sample.notes.iter().zip([
            ("second 0: 5 lost (rx_ring_full 5): ", "unexplained; "),
            ("second 2: 5 lost (rx_ring_full 5): ", "the host took a core away; "),
            ("second 5: 5 lost (rx_ring_full 5): ", "another thread ran on the contender's core; "),
            ("second 8: 5 lost (rx_ring_full 5): ", "the generator had no core, and then "),
            ("second 20: 5 lost (rx_ring_full 5): ", "unexplained; "),
        ]) {
            let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("{line}"));
            assert!(rest.starts_with(cause), "{line}");
        }
        assert_eq!((sample.notes.len(), sample.each_second[0].values[1]), (5, 20.0));
    }

    #[test]
    fn a_thread_that_looks_has_a_second_at_least() {
        let core = affinity::allowed_cores().unwrap()[0];
        let whom = Whom {
            processes: vec![std::process::id()],
            generator: std::process::id(),
            generator_core: core,
            cores: vec![core],
        };
        let seconds = Seconds::start(whom).end();
        assert_eq!(seconds.len(), 1, "{seconds:?}");
    }
}

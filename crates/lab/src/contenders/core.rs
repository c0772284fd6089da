//! Measures what runs on a contender's cores: kernel and processor counts, and samples of the
//! running code.

use std::collections::BTreeMap;
use std::fs;

use burstline_sys::affinity::CoreId;

use crate::live::CoreTime;
use crate::perf::counters::{Counter, Event};
use crate::perf::sampling::Sampler;
use crate::symbols::{Symbols, stages};

/// Sampling period: some 330 samples a second, out of step with 1 ms timers. A sample takes up to
/// 20 us where a hypervisor emulates the clock; three times as many would use 2 % of the core.
const PERIOD_NS: u64 = 3_001_000;

/// Samples per core that fit: three minutes' worth.
const SAMPLES: usize = 1 << 16;

/// Counters of a set of cores.
pub(crate) struct Watch {
    cores: Vec<CoreId>,
    counters: Vec<(Event, Counter)>,
    samplers: Vec<Sampler>,
    start: Counts,
}

/// Counts since the start of the machine.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Times of the cores, in their order.
    times: Vec<CoreTime>,
    interrupts: u64,
    softirqs: u64,
}

/// Counts between two readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Processor time.
    pub(super) time: CoreTime,
    /// The processor time of each core.
    times: Vec<(CoreId, CoreTime)>,
    /// Interrupts, without those of the sampler.
    pub(super) interrupts: u64,
    /// Softirqs.
    pub(super) softirqs: u64,
    /// Counts of the available counters.
    pub(super) events: Vec<(Event, u64)>,
    /// What ran, by function and file, in per cent of a core; largest first. Empty without samples.
    pub(super) symbols: Vec<(String, f64)>,
}

impl Watch {
    /// Starts counting. Skips counters that are not available.
    pub(crate) fn start(cores: &[CoreId]) -> Result<Self, String> {
        let mut counters = Vec::new();
        for event in Event::SOFTWARE.into_iter().chain(Event::HARDWARE) {
            for &core in cores {
                counters.extend(Counter::on_core(event, core).ok().map(|counter| (event, counter)));
            }
        }
        let sampler = |&core| Sampler::on_core(core, PERIOD_NS, SAMPLES).ok();
        let samplers = cores.iter().filter_map(sampler).collect();
        let start = Counts::read(cores)?;
        Ok(Self { cores: cores.to_vec(), counters, samplers, start })
    }

    /// Returns the counts since the start. Sampled processes must still be alive, to resolve names.
    pub(crate) fn seen(&self) -> Result<Seen, String> {
        let now = Counts::read(&self.cores)?;
        let mut events: Vec<(Event, u64)> = Vec::new();
        for (event, counter) in &self.counters {
            let value = counter.value().map_err(|error| format!("{}: {error}", event.name()))?;
            match events.iter_mut().find(|(known, _)| known == event) {
                Some((_, sum)) => *sum += value,
                None => events.push((*event, value)),
            }
        }
        let Sampled { samples, percents: symbols } = self.symbols();
        let interrupts = now.interrupts.saturating_sub(self.start.interrupts);
        let since = now.times.iter().zip(&self.start.times).map(|(now, start)| now.since(start));
        let times: Vec<_> = self.cores.iter().copied().zip(since).collect();
        let mut time = CoreTime::default();
        times.iter().for_each(|(_, of_core)| time.add(of_core));
        Ok(Seen {
            time,
            times,
            interrupts: interrupts.saturating_sub(samples),
            softirqs: now.softirqs.saturating_sub(self.start.softirqs),
            events,
            symbols,
        })
    }

    /// Returns the number of samples so far.
    pub(crate) fn samples(&self) -> u64 {
        self.samplers.iter().map(|sampler| sampler.samples().len() as u64).sum()
    }

    /// Evaluates the samples.
    fn symbols(&self) -> Sampled {
        let (mut count, mut symbols) = (0, Symbols::default());
        let mut percents: BTreeMap<String, f64> = BTreeMap::new();
        for samples in self.samplers.iter().map(Sampler::samples) {
            count += samples.len() as u64;
            for (name, found) in symbols.count(&samples) {
                *percents.entry(name).or_default() += 100.0 * found as f64 / samples.len() as f64;
            }
        }
        let mut percents: Vec<_> = percents.into_iter().collect();
        percents.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Sampled { samples: count, percents }
    }
}

/// The evaluated samples.
struct Sampled {
    /// Number of samples.
    samples: u64,
    /// By function, in per cent of a core; largest first.
    percents: Vec<(String, f64)>,
}

impl Seen {
    /// Returns the busy seconds of these cores, if they were watched.
    pub(super) fn busy_of(&self, cores: &[CoreId]) -> f64 {
        let of = |(core, time): &(CoreId, CoreTime)| cores.contains(core).then(|| time.busy());
        self.times.iter().filter_map(of).sum()
    }

    /// Returns the stages of the work, in per cent of a core; empty without samples. `idle` is the
    /// share of empty polls, if the contender reports it. See [`stages::shares`].
    pub(super) fn stages(&self, idle: Option<f64>) -> Vec<(String, f64)> {
        if self.symbols.is_empty() {
            return Vec::new();
        }
        let shares = stages::shares(&self.symbols, idle);
        shares.into_iter().map(|(part, share)| (part.name().to_owned(), share)).collect()
    }
}

impl Counts {
    fn read(cores: &[CoreId]) -> Result<Self, String> {
        let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let softirqs = fs::read_to_string("/proc/softirqs").unwrap_or_default();
        let mut all = Self::default();
        for &core in cores {
            all.times.push(CoreTime::of(core)?);
            all.interrupts += column(&interrupts, core);
            all.softirqs += column(&softirqs, core);
        }
        Ok(all)
    }
}

/// Returns the sum of a core's column. Source: proc_interrupts(5): the first line names the cores,
/// each other one begins with a name and a colon.
fn column(text: &str, core: CoreId) -> u64 {
    let mut lines = text.lines();
    let name = format!("CPU{core}");
    let at = lines.next().and_then(|line| line.split_whitespace().position(|word| word == name));
    let Some(at) = at else { return 0 };
    let number = |line: &str| -> Option<u64> {
        line.split_once(':')?.1.split_whitespace().nth(at)?.parse().ok()
    };
    lines.filter_map(number).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_that_of_the_core() {
        let text =
            "          CPU0    CPU2\n 24:  1  10  IO-APIC 5-edge ACPI:Ged\nERR:  3\nLOC: 4 20\n";
        assert_eq!((column(text, CoreId(0)), column(text, CoreId(2))), (8, 30));
        assert_eq!((column(text, CoreId(1)), column("", CoreId(0))), (0, 0));
    }

    #[test]
    fn a_core_that_works_is_seen() {
        let core = burstline_sys::affinity::allowed_cores().unwrap()[0];
        let watch = Watch::start(&[core]).unwrap();
        std::thread::spawn(move || {
            burstline_sys::affinity::pin_to(core).unwrap();
            while burstline_sys::usage::thread().user_ns < 50_000_000 {
                std::hint::spin_loop();
            }
        })
        .join()
        .unwrap();
        let seen = watch.seen().unwrap();
        assert!(seen.time.busy() > 0.0, "{seen:?}");
        assert!(seen.interrupts > 0, "{seen:?}");
        let is_seen = seen.symbols.iter().any(|(name, _)| name.starts_with("lab: "));
        assert!(is_seen || watch.samplers.is_empty(), "{seen:?}");
        // The stages add up to all samples, no more.
        let of = |shares: &[(String, f64)]| shares.iter().map(|(_, share)| share).sum::<f64>();
        let (stages, symbols) = (seen.stages(None), of(&seen.symbols));
        assert!((of(&stages) - symbols).abs() < 1e-6, "{stages:?} of {symbols}");
    }
}

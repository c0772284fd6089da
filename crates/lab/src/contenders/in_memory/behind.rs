//! Measures a sensor behind a switch, in memory: rows by switch cores and sensor cores.
//!
//! ```text
//!   0+1   one core: the sensor scans packets that are in memory
//!   1+1   two cores: the switch passes packets to the sensor, which scans them
//! ```
//!
//! With `matches` after a case, one packet in four has a content to find, else none.

use crate::arena::Arena;
use crate::contenders::{Adapter, Job, Sample};
use crate::contest::go_on;
use crate::pages;
use crate::rivals::behind::{Passed, Pooled, contiguous};
use crate::rivals::contents::{self, Contiguous, RULES, Scanned, Scattered};
use crate::rivals::hyperscan::{self, Memory};
use crate::scenario::Work;
use crate::threads::Cores;
use burstline_sys::affinity;
use burstline_sys::memory::PageKind;

/// Packets per round, a multiple of the burst.
const PACKETS: usize = 16_384;
/// In traffic with matches, one packet in this many matches.
const MATCH_EVERY: u64 = 4;

/// A sensor with one of the two packet layouts.
pub(crate) struct Behind {
    name: &'static str,
    is_contiguous: bool,
}

impl Behind {
    pub(crate) const CONTIGUOUS: Self = Self { name: "sensor-contiguous", is_contiguous: true };
    pub(crate) const SCATTERED: Self = Self { name: "sensor-scattered", is_contiguous: false };
}

/// The sum over rounds.
struct Sum {
    rounds: u64,
    matches: u64,
    cpu_ns: u64,
    seconds: f64,
    /// Page kind of the packets.
    page: PageKind,
}

impl Sum {
    fn of(page: PageKind) -> Self {
        Self { rounds: 0, matches: 0, cpu_ns: 0, seconds: 0.0, page }
    }

    fn add(&mut self, passed: &Passed) {
        self.rounds += 1;
        self.matches += passed.found.matches;
        self.cpu_ns += passed.cpu_ns;
        self.seconds += passed.seconds;
    }

    fn sample(&self, cores: f64, bytes: usize) -> Sample {
        let (packets, bits) = (PACKETS as u64 * self.rounds, (bytes * 8) as u64 * self.rounds);
        let mut sample = Sample::default();
        let basis = "without FCS";
        let per_core = bits as f64 / self.cpu_ns.max(1) as f64;
        sample.set("packets", "packets", packets as f64);
        sample.set("matches", "matches", self.matches as f64);
        sample.set("cores", "cores", cores);
        sample.set_on("gbps", "Gbit/s", basis, bits as f64 / self.seconds.max(1e-9) / 1e9);
        sample.set_on("gbps_per_core", "Gbit/s a core", basis, per_core);
        sample.lies_in(self.page);
        sample
    }
}

impl Adapter for Behind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Match]
    }

    fn version(&self) -> String {
        hyperscan::version().map_or_else(|_| String::new(), |said| format!("Hyperscan {said}"))
    }

    fn can_run(&self) -> Result<(), String> {
        hyperscan::version().map(drop)
    }

    fn command(&self, _: &Job<'_>) -> String {
        match self.is_contiguous {
            true => format!("hs_scan of {RULES} contents over bursts of a log"),
            false => format!("hs_scan of {RULES} contents over each packet of a pool's buffers"),
        }
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let case = job.case.unwrap_or("1+1");
        let rules = contents::rules(RULES);
        let every = case.ends_with("matches").then_some(MATCH_EVERY);
        let packets = contents::packets(PACKETS, &rules, every);
        let bytes: usize = packets.iter().map(Vec::len).sum();
        let consumer = *job.places.contender.first().ok_or("no core is available")?;
        let cores = Cores { producer: job.places.generator, consumer };
        if case.starts_with("0+1") {
            let _ = affinity::pin_to(consumer); // if this fails, the kernel chooses
            let sum = self.alone(job, &rules, &packets, bytes)?;
            return Ok(sum.sample(1.0, bytes));
        }
        let sum = self.behind(job, cores, &rules, &packets, bytes)?;
        let mut sample = sum.sample(if cores.are_two() { 2.0 } else { 1.0 }, bytes);
        if !cores.are_two() {
            sample.notes.push("switch and sensor share one core".to_owned());
        }
        Ok(sample)
    }
}

impl Behind {
    /// Runs the sensor alone on one core.
    fn alone(
        &self,
        job: &Job<'_>,
        rules: &[Vec<u8>],
        packets: &[Vec<u8>],
        bytes: usize,
    ) -> Result<Sum, String> {
        if self.is_contiguous {
            let create = |choice| Contiguous::new(rules, bytes, choice);
            let mut log = pages::with_best(2 * bytes, create)?;
            return rounds(job, log.page(), || log.turn(packets).map(of_one_core));
        }
        let arena = Arena::in_best_pages(Scattered::bytes(packets.len()))?;
        let mut pool = Scattered::new(rules, Memory::One, &arena, packets.len())?;
        rounds(job, arena.page(), || pool.turn(packets).map(of_one_core))
    }

    /// Runs the sensor on one core and the switch on another.
    fn behind(
        &self,
        job: &Job<'_>,
        cores: Cores,
        rules: &[Vec<u8>],
        packets: &[Vec<u8>],
        bytes: usize,
    ) -> Result<Sum, String> {
        if self.is_contiguous {
            let create = |choice| Contiguous::new(rules, bytes, choice);
            let mut log = pages::with_best(2 * bytes, create)?;
            return rounds(job, log.page(), || contiguous(&mut log, cores, packets));
        }
        let arena = Arena::in_best_pages(Pooled::BYTES)?;
        let mut pool = Pooled::new(rules, &arena)?;
        rounds(job, arena.page(), || pool.pass(cores, packets))
    }
}

/// Repeats rounds until the job is done. `page` is the page kind of the packets.
fn rounds(
    job: &Job<'_>,
    page: PageKind,
    mut round: impl FnMut() -> Result<Passed, String>,
) -> Result<Sum, String> {
    let mut sum = Sum::of(page);
    while job.goes_on(PACKETS * sum.rounds as usize, (sum.seconds * 1e9) as u64) {
        go_on(job.stop)?;
        sum.add(&round()?);
    }
    Ok(sum)
}

/// Converts the result of the sensor alone.
fn of_one_core(scanned: Scanned) -> Passed {
    let Scanned { found, cpu_ns, seconds } = scanned;
    Passed { found, cpu_ns, seconds }
}

//! Four ports of 64-byte packets into one queue, in order of time, and a reader of that: by the
//! clock, and for each second of processor time.
//!
//! ```text
//! ours   ports' memory --lend--> order --copy--> log | read
//! peer   objects -> ring a port | bursts in order of their stamps --copy--> shared memory -> read
//! ```
//!
//! Each side's packets lie in its own receive memory when it begins, as a card has written them:
//! ours back to back, the rival's in the objects of its pool. Each has a reader that counts, by
//! port, what the worklist says. The bar is where the second core begins; on one core (`-one-core`)
//! the parts take turns. All threads of both are counted. Each side is looked at once for its
//! order, in a run of its own.

mod memory;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use burstline_engine::{
    CaptureOptions, Limits, MergeOptions, Progress, Report, Source, Threads, merge,
};
use burstline_log::LogConfig;
use burstline_port::{OpenOptions, Port, open_sink};
use burstline_sys::memory::PageChoice;

use super::Context;
use crate::arena::Arena;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contenders::Sample;
use crate::contest::{alternate, go_on};
use crate::lines::{Interleaving, LINES, Line};
use crate::ours::SEGMENT_BYTES;
use crate::pages::{self, Reservation};
use crate::rivals::staged::{self, Staged};
use crate::threads::Cores;
use memory::{MemoryPort, OrderSink};

pub(super) const LOG_BYTES: usize = 2 << 20;
/// The largest pool, the rings and the output.
const ARENA_BYTES: usize = 24 << 20;
/// Objects of the rival's pool, and of each core's cache.
const SHAPES: [(usize, usize); 4] = [(1023, 256), (2047, 256), (4095, 512), (8191, 512)];

/// A run of either side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) packets: u64,
    /// Processor time of all threads.
    pub(crate) cpu_s: f64,
    /// Wall time.
    pub(crate) elapsed_s: f64,
    pub(crate) violations: u64,
}

impl Run {
    /// Millions of packets a second, by the clock.
    pub(crate) fn mpps(&self) -> f64 {
        self.packets as f64 / self.elapsed_s / 1e6
    }

    /// What a record says of it, of 64-byte frames.
    pub(crate) fn sample(&self) -> Sample {
        let per_cpu_s = self.packets as f64 / self.cpu_s / 1e6;
        let mut sample = Sample::default();
        sample.set("mpps", "Mpps", self.mpps());
        sample.set("mpps_per_cpu_s", PER_CPU, per_cpu_s);
        sample.set("cores", "cores", self.cpu_s / self.elapsed_s);
        sample.set("cpu_ns", "ns per packet", 1e3 / per_cpu_s);
        sample.set_on("line_gbps", "Gbit/s", "line", gigabits(self.mpps()));
        sample.set_on("rho", "% per Gbit/s", "line", 100.0 / gigabits(per_cpu_s));
        sample
    }
}

/// Of a rate for each second of processor time.
pub(crate) const PER_CPU: &str = "Mpps per CPU";

/// The work.
pub(super) struct Work {
    pub(super) lines: [Option<Line>; LINES],
    /// Packets of each line that is not idle.
    pub(super) most: u64,
    pub(super) context: Cores,
    /// Whether what reads our log, and the rival's later stages, have a core of their own.
    pub(super) are_two: bool,
    pub(super) pages: PageChoice,
}

impl Work {
    pub(super) fn all(&self) -> u64 {
        self.lines.iter().flatten().count() as u64 * self.most
    }

    /// Our merge; with `is_checking` the sink looks at all times.
    pub(super) fn ours(&self, is_checking: bool) -> Result<Run, String> {
        self.merge(is_checking, &MergeOptions::default())
    }

    /// The same on one thread, which then also counts what it has merged.
    #[cfg(feature = "dpdk")]
    pub(super) fn ours_in_turns(&self) -> Result<Run, String> {
        self.merge(false, &MergeOptions { is_one_thread: true, ..MergeOptions::default() })
    }

    fn merge(&self, is_checking: bool, merging: &MergeOptions) -> Result<Run, String> {
        let ports = OpenOptions::default();
        let (now_ns, lent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut sources = Vec::new();
        for (number, line) in (0..).zip(&self.lines) {
            let shared = (Arc::clone(&now_ns), Arc::clone(&lent));
            let port = MemoryPort::new(number, line.clone(), (self.most, self.all()), shared);
            // For an interface of its own.
            let address = "gen:?packets=1".parse().map_err(|error| format!("{error}"))?;
            let source = Source::open(&address, &ports).map_err(|error| error.to_string())?;
            sources.push(source.wrap(|_| Box::new(port)));
        }
        let log = LogConfig {
            bytes: LOG_BYTES,
            segment_bytes: SEGMENT_BYTES,
            pages: self.pages,
            ..LogConfig::default()
        };
        let Cores { producer, consumer } = self.context;
        let cores = vec![producer, if self.are_two { consumer } else { producer }];
        let options = CaptureOptions {
            limits: Limits::default(),
            threads: Threads { cores, ..Threads::default() },
            log,
            policy: None,
            table: ports.table.clone(),
            publish: None,
        };
        let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
        let violations = Arc::new(AtomicU64::new(0));
        let sink = || match is_checking {
            true => Ok(Box::new(OrderSink::new(Arc::clone(&violations))) as Box<dyn Port>),
            false => open_sink(&"null:".parse()?, &ports),
        };
        let report = merge(sources, sink, &options, merging, (&stop, &progress))
            .map_err(|error| error.to_string())?;
        self.checked(&report, violations.load(Relaxed)) // all threads have ended
    }

    /// What a report says, if nothing is amiss.
    fn checked(&self, report: &Report, violations: u64) -> Result<Run, String> {
        let merged = report.merge.as_ref().ok_or("no merge")?;
        let (delivered, lost) = (report.total.delivered, report.total.lost.total());
        if (delivered, lost, report.total.unaccounted) != (self.all(), 0, 0) {
            return Err(format!("ours: {delivered} of {} packets, {lost} lost", self.all()));
        }
        if merged.late != violations && violations > 0 {
            return Err(format!("ours: {violations} out of order, {} by its report", merged.late));
        }
        let elapsed_s = report.elapsed_ns as f64 / 1e9;
        let cpu_s = merged.cores_used * elapsed_s;
        Ok(Run { packets: delivered, cpu_s, elapsed_s, violations: merged.late })
    }

    fn peer(
        &self,
        arena: &mut Arena,
        shape: (usize, usize),
        is_checking: bool,
    ) -> Result<Run, String> {
        arena.clear();
        let how = (self.context, self.are_two, is_checking);
        let Staged { packets, cpu_s, elapsed_s, violations } =
            staged::run(arena, &self.lines, shape, self.most, how);
        if packets != self.all() {
            return Err(format!("the rival: {packets} of {} packets", self.all()));
        }
        Ok(Run { packets, cpu_s, elapsed_s, violations })
    }
}

/// Gbit/s on the line, of 64-byte frames.
fn gigabits(rate: f64) -> f64 {
    rate * 84.0 * 8.0 / 1e3
}

/// A shape of the rival's, and the best rate of some runs.
type Tried = ((usize, usize), f64);

/// The rival's shapes.
fn tried(work: &Work, arena: &mut Arena, context: &Context) -> Result<Vec<Tried>, String> {
    let mut tried = Vec::new();
    for shape in SHAPES {
        let mut best = 0_f64;
        for _ in 0..context.tries() {
            go_on(&context.stop)?;
            best = best.max(work.peer(arena, shape, false)?.mpps());
        }
        tried.push((shape, best));
    }
    Ok(tried)
}

/// `merge-4x64`, and with other interleavings and with the rival on one core.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let interleaving = match name {
        _ if name.contains("bursts") => Interleaving::Bursts,
        _ if name.contains("idle") => Interleaving::Idle,
        _ => Interleaving::Uniform,
    };
    let are_two = !name.ends_with("one-core");
    let (mut arena, pages) = pages::with_best(ARENA_BYTES, |pages| {
        Ok::<_, String>((Arena::create(ARENA_BYTES, pages).map_err(|e| e.to_string())?, pages))
    })?;
    // Our log is made anew in each run.
    let _reservation =
        (pages == PageChoice::Size2M).then(|| Reservation::take((LOG_BYTES >> 21) as u64 + 1));
    let most = if context.smoke { 8192 } else { 2 << 20 };
    let lines = Line::all(interleaving);
    let work = Work { lines, most, context: context.cores, are_two, pages };
    let conditions = Conditions::watch(context.cores);
    go_on(&context.stop)?;
    let (ours, tried) = (work.ours(true)?, tried(&work, &mut arena, context)?);
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("some were tried").0;
    go_on(&context.stop)?;
    let peer = work.peer(&mut arena, best, true)?;
    let rounds = alternate(
        context.runs,
        &context.stop,
        || Ok(work.ours(false)?.sample()),
        || Ok(work.peer(&mut arena, best, false)?.sample()),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let each =
        |(objects, cache): (usize, usize), rate: f64| format!("{objects}/{cache}: {rate:.1}");
    let shapes: Vec<_> = tried.iter().map(|&(shape, rate)| each(shape, rate)).collect();
    let mut details = vec![
        format!("{interleaving:?}: {} packets a run", work.all()),
        format!(
            "order violations: ours {}, peer {} of {}",
            ours.violations, peer.violations, peer.packets
        ),
        format!("peer: best of pool/cache, Mpps by the clock: {}", shapes.join(", ")),
        format!("log {} KiB, pages {}", LOG_BYTES >> 10, arena.page()),
    ];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of_samples("mpps", Better::Higher, rounds, details)))
}

//! Merges the packets of any number of sources into one sequence, in strict order of their times.
//!
//! ```text
//!  source 0 --lend--> burst | times |--\
//!  source 1 --lend--> burst | times |---> order --copy--> log --> sink, readers
//!  source 2 --lend--> burst | times |--/      one thread does all of this
//! ```
//!
//! A source's burst stays borrowed until the last of its packets is in the log. The merge finds the
//! order from an array of times for each input; each packet is copied once. If packets come in runs
//! from one source, one comparison finds a whole run, which is copied in one piece (`order`).
//!
//! **An idle source never stalls the others.** A packet can be appended once no source can deliver
//! an older one. That is known of sources with packets in hand and of sources that have ended. The
//! merge polls an idle source for a promised time ([`low_time_ns`](burstline_port::Source)). It
//! waits at most [`MergeOptions::lateness_ns`] for a source that promises nothing or too little.
//! After that the source is *overdue*: the merge does not wait for it until it has caught up. A
//! packet older than one already appended is *late*: it is appended immediately and counted. No
//! packet is ever left out.
//!
//! **A shared merge copies nothing.** Receive threads fill a log for each source. The merging
//! thread only names the order, in chunks of a small log. A follower reads the packets in place:
//!
//! ```text
//!  source 0 --receive-0--> log 0 --\                 | chunk | chunk | ... --\
//!  source 1 --receive-1--> log 1 ----> order --name-->  small log             follower --> sink
//!                           \---\------------ packets, in place -----------------/
//! ```
//!
//! Invariants:
//! - M1: packets of a source keep the order in which it delivers them; packets with equal times
//!   are in the order of their sources.
//! - M2: a packet that is not late is not older than any packet appended before it.
//! - M3: lent = appended + in hand, for each source at every moment; packets in hand when a job
//!   ends are in flight.
//!   A shared merge has none then: it ends after its logs.
//! - M4: no packet waits longer than the lateness for an input without packets.

pub(crate) mod chunk;
pub(crate) mod order;

use burstline_port::TimestampSource;

use crate::Report;

/// The settings of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// The longest time that a packet waits for a source without packets, in ns.
    pub lateness_ns: u64,
    /// Offsets added to the times of each source, in ns, in the order of the sources. Sources
    /// beyond its end have none.
    pub offsets_ns: Vec<i64>,
    /// Whether the merging thread also feeds the sink, instead of a separate thread. This is for
    /// sinks that take no time and lose nothing, such as `null:`.
    pub is_one_thread: bool,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self { lateness_ns: 100_000_000, offsets_ns: Vec::new(), is_one_thread: false }
    }
}

/// The merge statistics of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedPort {
    /// Its address, as typed.
    pub port: String,
    /// The offset added to its times, in ns.
    pub offset_ns: i64,
    /// Packets that came after younger ones. They are not lost.
    pub late: u64,
    /// The largest lateness of those packets, in ns.
    pub late_most_ns: u64,
    /// How often the source became overdue.
    pub overdue: u64,
}

/// The statistics of a merge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergeReport {
    /// The longest time a packet may wait, in ns.
    pub lateness_ns: u64,
    /// A row for each source.
    pub ports: Vec<MergedPort>,
    /// Late packets of all sources.
    pub late: u64,
    /// Whether each packet was timestamped individually. If not, or if that is unknown, the order
    /// is that of the polls.
    pub is_per_packet: bool,
    /// CPU time of the job's threads divided by the elapsed time.
    pub cores_used: f64,
    /// Bits on the line of the merged packets, per second of that CPU time.
    pub line_bits_per_core_s: f64,
    /// The same for layer 2 bits, without FCS.
    pub l2_bits_per_core_s: f64,
}

/// Reuses the room of a vector for items of another lifetime: collecting from a drained vector
/// keeps its memory.
pub(crate) fn recycle<T, U>(mut room: Vec<T>, empty: impl Fn() -> U) -> Vec<U> {
    room.clear();
    room.into_iter().map(|_| empty()).collect()
}

impl MergeReport {
    /// Creates the report of a job whose threads used `cpu_ns` of CPU time. [`hear`](Self::hear)
    /// adds the kinds of clocks.
    pub(crate) fn new(
        ports: Vec<MergedPort>,
        lateness_ns: u64,
        cpu_ns: u64,
        report: &Report,
    ) -> Self {
        let seconds = report.elapsed_ns as f64 / 1e9;
        let cores_used = cpu_ns as f64 / report.elapsed_ns.max(1) as f64;
        let per_core_s = |bits_per_s: f64| match cpu_ns {
            0 => 0.0,
            _ => bits_per_s * seconds / (cpu_ns as f64 / 1e9),
        };
        Self {
            lateness_ns,
            late: ports.iter().map(|port| port.late).sum(),
            ports,
            is_per_packet: false,
            cores_used,
            line_bits_per_core_s: per_core_s(report.total.line_bits_per_s),
            l2_bits_per_core_s: per_core_s(report.total.l2_bits_per_s),
        }
    }

    /// Sets `is_per_packet` from the sources' clocks.
    pub(crate) fn hear(&mut self, mut clocks: impl Iterator<Item = TimestampSource>) {
        let is_rough = |clock| matches!(clock, TimestampSource::Poll | TimestampSource::Mixed);
        self.is_per_packet = !clocks.any(is_rough);
    }
}

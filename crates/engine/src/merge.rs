//! Merging: packets of any number of sources in one sequence, in strict order of their times.
//!
//! ```text
//!  source 0 --lend--> burst | times |--\
//!  source 1 --lend--> burst | times |---> order --copy--> log --> sink, readers
//!  source 2 --lend--> burst | times |--/      one thread does all of this
//! ```
//!
//! A source's burst stays where it is until the last of its packets is in the log. To find the
//! order we look at an array of times for each input; each packet is copied once. Where sources
//! take turns, one comparison finds what comes of one source before the next. It is copied as a
//! whole (`order`).
//!
//! **An idle source never stalls the others.** The next packet can go when it is known that no
//! source will bring an older one. A source that has packets in hand has said so; one that has
//! ended, too. One that is idle promises a time ([`low_time_ns`](burstline_port::Source)), and is
//! asked again and again. A source that promises nothing, or too little, is waited for at most
//! [`MergeOptions::lateness_ns`]. From then on it is *overdue*: the merge does not wait for it
//! until it has caught up. A packet that is older than one that has gone already is *late*: it goes
//! at once, and is counted. None is ever left out.
//!
//! Invariants:
//! - M1: packets of a source keep the order in which it delivers them; packets of equal times
//!   come in the order of their sources.
//! - M2: a packet that is not late is not older than any that went before it.
//! - M3: lent = appended + in hand, for each source at every moment; what is in hand when a job
//!   ends is in flight.
//! - M4: no packet waits for an input that has nothing longer than the lateness.

pub(crate) mod order;

use burstline_port::TimestampSource;

use crate::Report;

/// How a merge is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// How long a packet waits at most for a source that has no packet, in ns.
    pub lateness_ns: u64,
    /// What is added to the times of each source, in ns, in the order of the sources; none where
    /// it is shorter.
    pub offsets_ns: Vec<i64>,
    /// Whether the merging thread gives what it merged to the sink itself: for one that takes no
    /// time and loses nothing, as `null:`. If not, a thread beside it does.
    pub is_one_thread: bool,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self { lateness_ns: 100_000_000, offsets_ns: Vec::new(), is_one_thread: false }
    }
}

/// What a merge has to say of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedPort {
    /// Its address, as typed.
    pub port: String,
    /// What was added to its times, in ns.
    pub offset_ns: i64,
    /// Packets that came after younger ones: a statistic and no loss.
    pub late: u64,
    /// How much older the oldest of them was, in ns.
    pub late_most_ns: u64,
    /// How often it was no longer waited for.
    pub overdue: u64,
}

/// What a merge has to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergeReport {
    /// The longest time a packet may wait, in ns.
    pub lateness_ns: u64,
    /// A row for each source.
    pub ports: Vec<MergedPort>,
    /// The sum of their late packets.
    pub late: u64,
    /// Whether every packet has a time of its own; if not, or if it is not known, the order is one
    /// of polls.
    pub is_per_packet: bool,
    /// Processor time of the job's threads over the time that it took.
    pub cores_used: f64,
    /// Bits on the line, of the packets merged, for each second of that processor time.
    pub line_bits_per_core_s: f64,
    /// The same of bytes without FCS.
    pub l2_bits_per_core_s: f64,
}

impl MergeReport {
    /// Of a job whose threads took `cpu_ns`; whose clocks its times are from, [`hear`](Self::hear)
    /// learns.
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

    /// The sources' clocks.
    pub(crate) fn hear(&mut self, mut clocks: impl Iterator<Item = TimestampSource>) {
        let is_rough = |clock| matches!(clock, TimestampSource::Poll | TimestampSource::Mixed);
        self.is_per_packet = !clocks.any(is_rough);
    }
}

//! Contenders: programs, parts of the kernel and parts of this program that do the same work.
//!
//! ```text
//!   Adapter::measure --> on a Road: start, wait until ready, inject, own counters, end --> Sample
//!                    \-> in memory: work, read the clock ------------------------------/
//! ```
//!
//! An adapter is small. It knows the command, its output when ready, and where its counters are.
//! The measurements around it (core time, interrupts, output frames) are the same for all.
//!
//! Invariants:
//! - C1: an adapter that cannot run returns a reason that can follow "because".
//! - C2: a contender leaves nothing behind: it is removed with its [`Road`](crate::live::Road).
//! - C3: a sample's packets are counted where the work says: by the contender, or by the counter of
//!   the interface where they leave.

mod cards;
mod core;
mod dpdk;
mod in_memory;
mod model;
mod null;
mod on_the_wire;
mod ours;
mod remote;
mod seconds;
mod shapes;

use in_memory::{behind, dpdk_balance, layouts, memory, merge, pages, pipeline, spread, timed};
use on_the_wire::{duplex, latency, live, sensors, socket, switches, testpmd};

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use burstline_port::{Address, OpenOptions, Source, open_source};
use burstline_sys::memory::PageKind;

use crate::distribution::Distribution;
use crate::live::{OUT, interfaces, missing};
use crate::programs::{self, Datapath};
use crate::record::{BOUNCE, Interface, Pages};
use crate::remote::Remote;
use crate::rfc2544::{Asked, ExternalDevice, Found};
use crate::scenario::{Places, Rate, Work};

pub(crate) use core::Watch;
pub use dpdk_balance::{WORDS as DPDK_BALANCE, run_balance};
pub(crate) use latency::enter as enter_latency;
pub use live::{Live, OnRoad, Own, Running};
pub(crate) use null::about_programs;
pub use shapes::Searches;
pub(crate) use shapes::tried;
pub(crate) use spread::sides as spread_sides;

/// A program or mechanism to measure.
pub trait Adapter: Sync {
    /// The name in scenarios and records.
    fn name(&self) -> &'static str;

    /// The works it supports.
    fn works(&self) -> &'static [Work];

    /// Returns the version it reports; empty if unknown.
    fn version(&self) -> String {
        String::new()
    }

    /// Whether it learns addresses and looks them up, in works for switches.
    fn is_switch(&self) -> bool {
        false
    }

    /// Whether its generator can run on another machine: see `remote`.
    fn has_remote(&self) -> bool {
        false
    }

    /// Whether a turn at a work starts a program or uses interfaces. Such a start may fail, and its
    /// samples say how long it took.
    fn has_start(&self, work: Work) -> bool {
        work.is_live() && !work.is_within()
    }

    /// Checks whether it can run here.
    ///
    /// # Errors
    /// The reason and the fix, as text after "because".
    fn can_run(&self) -> Result<(), String> {
        Ok(())
    }

    /// Checks that what our own build makes for it is there: if not, the machine lacks nothing.
    ///
    /// # Errors
    /// What is missing, and the fix.
    fn has_parts(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns why it has no turns in a case, if it has none: text after "because".
    fn refuses(&self, _case: Option<&str>) -> Option<String> {
        None
    }

    /// Returns what runs for a job: a command line or a function.
    fn command(&self, job: &Job<'_>) -> String;

    /// Runs a job once.
    ///
    /// # Errors
    /// Why it failed.
    fn measure(&self, job: &Job<'_>) -> Result<Sample, String>;
}

/// A single turn of a contender.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The work.
    pub work: Work,
    /// Frame size in bytes, with FCS.
    pub size_bytes: u32,
    /// The rate.
    pub rate: Rate,
    /// The kind of traffic or of memory, if the work has several.
    pub case: Option<&'a str>,
    /// The cores.
    pub places: Places,
    /// The interface that sends packets.
    pub sends_by: &'static str,
    /// Interfaces that receive packets, at least one; several, if the work can receive from several
    /// at the same time.
    pub comes_in: Vec<String>,
    /// The interface where they leave.
    pub goes_out: String,
    /// The generator, if it is on another machine.
    pub remote: Option<&'a Remote>,
    /// Number of workers, if the work has some.
    pub workers: usize,
    /// Duration of the turn.
    pub time: Duration,
    /// Number of packets, instead of a duration.
    pub packets: Option<u64>,
    /// Link speed.
    pub link_gbps: f64,
    /// The program `burstline`.
    pub program: &'a Path,
    /// Further settings of [`Work::Rfc2544`].
    pub rfc2544: Option<Asked<'a>>,
    /// Set when the user stops the run.
    pub stop: &'a Arc<AtomicBool>,
    /// The time of searches for a contender's best settings.
    pub searches: &'a Searches,
}

impl<'a> Job<'a> {
    /// Creates a job of 64-byte frames at full speed by v1, for 50 ms.
    pub(crate) fn new(
        work: Work,
        places: Places,
        stop: &'a Arc<AtomicBool>,
        searches: &'a Searches,
    ) -> Self {
        Self {
            work,
            size_bytes: 64,
            rate: Rate::Max,
            case: None,
            places,
            sends_by: "v1",
            comes_in: interfaces(1),
            goes_out: OUT.to_owned(),
            remote: None,
            workers: 0,
            time: Duration::from_millis(50),
            packets: None,
            link_gbps: 10.0,
            program: Path::new("burstline"),
            rfc2544: None,
            stop,
            searches,
        }
    }
}

impl Job<'_> {
    /// Returns the frame size in bytes without FCS.
    pub fn frame_bytes(&self) -> usize {
        self.size_bytes.saturating_sub(4) as usize
    }

    /// Returns the contender's cores as a list for taskset(1).
    pub fn core_list(&self) -> String {
        let cores: Vec<String> =
            self.places.contender.iter().map(|core| core.0.to_string()).collect();
        cores.join(",")
    }

    /// Returns whether a turn in memory continues after this many packets and ns.
    pub fn goes_on(&self, packets: usize, spent_ns: u64) -> bool {
        match self.packets {
            Some(most) => (packets as u64) < most,
            None => u128::from(spent_ns) < self.time.as_nanos(),
        }
    }
}

/// A metric with a value for each second of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct EachSecond {
    /// The name in records.
    pub name: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// The values, one per second.
    pub values: Vec<f64>,
}

/// The result of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Metrics by name.
    pub figures: BTreeMap<&'static str, Value>,
    /// Distributions by name, for metrics with many values.
    pub distributions: BTreeMap<&'static str, Distribution>,
    /// Stages of the work: name, and per cent of a core.
    pub stages: Vec<(String, f64)>,
    /// What ran, by samples: function and file, and per cent of a core; most frequent first.
    pub symbols: Vec<(String, f64)>,
    /// Lost packets, by the place of the loss.
    pub losses: BTreeMap<String, u64>,
    /// Packets lost in each second since the first arrived, if known.
    pub lost_each_second: Vec<f64>,
    /// Other metrics for each second.
    pub each_second: Vec<EachSecond>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// Injected packets per second, if packets are injected; may differ from the requested rate.
    pub offered_pps: Option<f64>,
    /// Whether it was calculated and not run.
    pub is_model: bool,
    /// Page kind of its memory in this process; `lies_in` sets it.
    pub page: Option<PageKind>,
    /// The interfaces that packets used.
    pub interfaces: Vec<Interface>,
    /// Results of tests of a device.
    pub rfc2544: Option<Found>,
    /// Pages of the contender's processes.
    pub pages: Option<Pages>,
}

/// A metric's value in one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The unit.
    pub unit: &'static str,
    /// What a rate of bits counts of each packet.
    pub basis: Option<&'static str>,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// Returns why tests of a device ended early.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.rfc2544.as_ref()?.ended.as_deref()
    }

    /// Returns the interfaces of the first sample that has some.
    pub(crate) fn first_interfaces<'a>(
        mut samples: impl Iterator<Item = &'a Self>,
    ) -> Vec<Interface> {
        let found = samples.find(|sample| !sample.interfaces.is_empty());
        found.map(|sample| sample.interfaces.clone()).unwrap_or_default()
    }

    /// Sets the page kind of its memory in this process, also in bytes, which `simulate` reads.
    pub(crate) fn lies_in(&mut self, page: PageKind) {
        self.set("page_bytes", "bytes", page.bytes() as f64);
        self.page = Some(page);
    }

    /// Returns the page kinds of the samples' memory in this process, each once, as words. `None`
    /// if they had no memory there.
    pub(crate) fn page_kinds<'a>(samples: impl Iterator<Item = &'a Self>) -> Option<String> {
        let mut kinds = Vec::new();
        for kind in samples.filter_map(|sample| sample.page) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let words: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| words.join(" and "))
    }

    /// Adds a metric.
    pub fn set(&mut self, name: &'static str, unit: &'static str, value: f64) {
        self.figures.insert(name, Value { unit, basis: None, value });
    }

    /// Adds a metric with a basis.
    pub fn set_on(
        &mut self,
        name: &'static str,
        unit: &'static str,
        basis: &'static str,
        value: f64,
    ) {
        self.figures.insert(name, Value { unit, basis: Some(basis), value });
    }
}

/// Opens a source by its address.
pub(crate) fn open(address: &str) -> Result<Box<dyn Source>, String> {
    let address: Address = address.parse().map_err(|error| format!("{error}"))?;
    open_source(&address, &OpenOptions::default()).map_err(|error| error.to_string())
}

/// Returns the version of contenders that are part of this program.
fn own_version() -> String {
    format!("burstline {}", env!("CARGO_PKG_VERSION"))
}

/// All contenders.
static ALL: [&dyn Adapter; 65] = [
    &OnRoad(ours::Ours::XDP),
    &OnRoad(ours::Ours::XDP_BY_POLL),
    &OnRoad(ours::Ours::AFPACKET),
    &OnRoad(ours::Ours::SWITCH),
    &OnRoad(ours::Ours::XDP_SHARE),
    &OnRoad(ours::Ours::XDP_HEADERS),
    &OnRoad(ours::Ours::XDP_PAYLOAD),
    &OnRoad(testpmd::Testpmd),
    &OnRoad(dpdk_balance::DpdkBalance),
    &OnRoad(socket::PlainSocket),
    &OnRoad(programs::TCPDUMP),
    &OnRoad(programs::DUMPCAP),
    &OnRoad(programs::NETSNIFF),
    &OnRoad(programs::TRAFGEN),
    &OnRoad(programs::TCPREPLAY),
    &OnRoad(switches::Bridge),
    &OnRoad(switches::OpenVSwitch(Datapath::Sockets)),
    &OnRoad(switches::OpenVSwitch(Datapath::Dpdk)),
    &ExternalDevice,
    &memory::Copies::WARM,
    &memory::Copies::COLD,
    &pages::Pages::SMALL,
    &pages::Pages::TRANSPARENT,
    &pages::Pages::LARGE,
    &layouts::Layout::CONTIGUOUS,
    &layouts::Layout::SLOTS,
    &layouts::Layout::SHUFFLED,
    &layouts::Layout::SPREAD,
    &layouts::Layout::PREFETCHED,
    &merge::Merger::OURS,
    &merge::Merger::BY_POLL,
    &merge::Merger::SHARED,
    &merge::Merger::STAGED,
    &merge::Merger::DPDK,
    &merge::Merger::ORDERED,
    &merge::Merger::SEGMENTS,
    &merge::Merger::NO_HINT,
    &pipeline::Chain::OURS,
    &pipeline::Chain::POOL,
    &pipeline::Chain::LEAN,
    &pipeline::Chain::BARE,
    &pipeline::Chain::MOVEMENT,
    &pipeline::Chain::DPDK,
    &pipeline::Chain::OURS_BY_DRIVER,
    &pipeline::Chain::DPDK_BY_DRIVER,
    &spread::Spreader::COPY,
    &spread::Spreader::SHARE,
    &spread::Spreader::SCATTERED,
    &spread::Spreader::DPDK,
    &null::Null,
    &null::Generator,
    &null::Testpmd,
    &model::Model::WRITEBACK,
    &model::Model::INLINE,
    &model::Model::CONTIGUOUS,
    &cards::Keeper::WRITEBACK,
    &cards::Keeper::INLINE,
    &cards::Keeper::SEGMENTS,
    &cards::Keeper::COPIES,
    &behind::Behind::CONTIGUOUS,
    &behind::Behind::SCATTERED,
    &sensors::Sensor::AFPACKET,
    &sensors::Sensor::BURST,
    &sensors::Sensor::INLINE_AFPACKET,
    &sensors::Sensor::INLINE_BURST,
];

/// Packets per round of a piece whose instructions are counted.
pub(crate) const ROUND_PACKETS: u64 = 8192;

/// Repeats a piece of a contender's work on one core for this many rounds; `None`: unknown piece.
pub(crate) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    merge::do_rounds(piece, rounds)
        .or_else(|| pipeline::do_rounds(piece, rounds))
        .or_else(|| spread::do_rounds(piece, rounds))
}

/// Returns all contenders.
pub fn all() -> impl Iterator<Item = &'static dyn Adapter> {
    ALL.iter().copied()
}

/// Returns their names.
pub fn names() -> Vec<&'static str> {
    all().map(Adapter::name).collect()
}

/// Returns the contender of that name.
pub fn named(name: &str) -> Option<&'static dyn Adapter> {
    all().find(|adapter| adapter.name() == name)
}

/// Returns what a contender does instead of a work, if it does less than others: see [`BOUNCE`].
pub fn role(adapter: &dyn Adapter, work: Work) -> Option<&'static str> {
    let is_beside_switches = matches!(work, Work::Switch | Work::Latency | Work::Rfc2544);
    (is_beside_switches && !adapter.is_switch()).then_some(BOUNCE)
}

/// Checks whether a contender can do a work here.
///
/// # Errors
/// Why not, as text after "because".
pub fn can_do(adapter: &dyn Adapter, work: Work) -> Result<(), String> {
    if !adapter.works().contains(&work) {
        let works: Vec<&str> = adapter.works().iter().map(|work| work.name()).collect();
        return Err(format!("{} does not do {work}, only {}", adapter.name(), works.join(", ")));
    }
    if work.is_within()
        && let Some(why) = missing(&[])
    {
        return Err(why);
    }
    adapter.can_run()
}

/// Runs a contender's job on a separate thread, which it may pin and on which it may mount memory.
///
/// # Errors
/// Errors of the contender, or that it panicked.
pub(crate) fn measure(adapter: &dyn Adapter, job: &Job<'_>) -> Result<Sample, String> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| adapter.measure(job));
        thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))
    })
}

#[cfg(test)]
mod tests;

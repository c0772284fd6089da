//! What is given up on purpose: the rest of a long flow, and what a rule names.
//!
//! ```text
//!  table: bucket of the hash -> | hash | bytes so far | time of the last packet |
//! ```
//!
//! The table is small and forgets: a flow whose place another one takes starts anew, so more than
//! the cutoff may pass of it. A flow is a hash: flows that have the same one share what passes. One
//! that was silent for [`IDLE_NS`] is a new one.

use burstline_log::Packet;
use burstline_port::{FilterByLink, PortError};

use super::BalanceOptions;
use super::links::Links;

/// Places for flows: a power of two, 24 bytes each.
const FLOWS: usize = 1 << 16;

/// A flow that was silent so long, by its packets' times, is over, in ns.
const IDLE_NS: u64 = 60_000_000_000;

/// What the rule is called in errors.
const RULE: &str = "--shed";

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    CutOff,
    Shed,
    /// There is no saying: the rule means nothing on such packets.
    Unjudged,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    hash: u32,
    bytes: u64,
    last_ns: u64,
}

struct Cutoff {
    bytes: u64,
    flows: Box<[Flow]>,
}

/// The rules of one receive thread.
pub(super) struct Rules {
    cutoff: Option<Cutoff>,
    shed: Option<(FilterByLink, Links)>,
    /// Whether the filter meant nothing on a link type that was met.
    is_broken: bool,
}

impl Rules {
    /// The rules that were asked for, if any were.
    pub(super) fn of(options: &BalanceOptions) -> Option<Self> {
        let table = |bytes| Cutoff { bytes, flows: vec![Flow::default(); FLOWS].into() };
        let rule = |filter| (FilterByLink::new(filter), Links::new(&options.job.table));
        let (cutoff, shed) = (options.cutoff_bytes.map(table), options.shed.as_ref().map(rule));
        (cutoff.is_some() || shed.is_some()).then_some(Self { cutoff, shed, is_broken: false })
    }

    /// Fails where the filter means nothing on an interface that is known by now.
    pub(super) fn check(options: &BalanceOptions) -> Result<(), PortError> {
        let Some(filter) = &options.shed else { return Ok(()) };
        let mut filter = FilterByLink::new(filter);
        let known = options.job.table.entries_from(0);
        known.iter().try_for_each(|entry| filter.add(RULE, entry.link))
    }

    /// What becomes of a packet. Cost: a cache line, and the filter's program.
    ///
    /// # Errors
    /// The filter means nothing on the packet's link type: each time, for each source.
    pub(super) fn judge(&mut self, packet: &Packet<'_>) -> Result<Verdict, PortError> {
        if let Some((filter, links)) = &mut self.shed {
            let (link, is_new) = links.of(packet.port());
            if is_new || self.is_broken {
                filter.add(RULE, link).inspect_err(|_| self.is_broken = true)?;
            }
            if filter.wants(link, packet.bytes(), packet.original_length() as u32) {
                return Ok(Verdict::Shed);
            }
        }
        let passes = self.cutoff.as_mut().is_none_or(|cutoff| cutoff.passes(packet));
        Ok(if passes { Verdict::Pass } else { Verdict::CutOff })
    }
}

impl Cutoff {
    fn passes(&mut self, packet: &Packet<'_>) -> bool {
        let (hash, time_ns) = (packet.desc().hash(), packet.time_ns());
        let flow = &mut self.flows[hash as usize % FLOWS];
        if flow.hash != hash || time_ns.saturating_sub(flow.last_ns) > IDLE_NS {
            *flow = Flow { hash, bytes: 0, last_ns: time_ns };
        }
        let passes = flow.bytes < self.bytes;
        flow.bytes = flow.bytes.saturating_add(packet.original_length() as u64);
        flow.last_ns = time_ns;
        passes
    }
}

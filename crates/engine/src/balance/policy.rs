//! Packets dropped on purpose: the rest of a long flow, and packets that match a rule.
//!
//! ```text
//!  table: bucket of the hash -> | hash | bytes so far | time of the last packet |
//! ```
//!
//! The table is small and forgets: a flow evicted by another one starts over, so more than the
//! cutoff may pass of it. A flow is a hash: flows with the same hash share the cutoff. A flow that
//! was silent for [`IDLE_NS`] counts as new.

use burstline_log::Packet;
use burstline_port::{FilterByLink, PortError};

use super::BalanceOptions;
use super::links::Links;

/// Slots for flows: a power of two, 24 bytes each.
const FLOWS: usize = 1 << 16;

/// Idle time after which a flow is over, by its packets' times, in ns.
const IDLE_NS: u64 = 60_000_000_000;

/// The rule's name in errors.
const RULE: &str = "--shed";

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    CutOff,
    Shed,
    /// Undecided: the rule cannot be applied to this link type.
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
    /// Whether the filter could not be applied to some link type.
    is_broken: bool,
}

impl Rules {
    /// Returns the rules of the options, if any.
    pub(super) fn of(options: &BalanceOptions) -> Option<Self> {
        let table = |bytes| Cutoff { bytes, flows: vec![Flow::default(); FLOWS].into() };
        let rule = |filter| (FilterByLink::new(filter), Links::new(&options.job.table));
        let (cutoff, shed) = (options.cutoff_bytes.map(table), options.shed.as_ref().map(rule));
        (cutoff.is_some() || shed.is_some()).then_some(Self { cutoff, shed, is_broken: false })
    }

    /// Fails if the filter cannot be applied to an interface known by now.
    pub(super) fn check(options: &BalanceOptions) -> Result<(), PortError> {
        let Some(filter) = &options.shed else { return Ok(()) };
        let mut filter = FilterByLink::new(filter);
        let known = options.job.table.entries_from(0);
        known.iter().try_for_each(|entry| filter.add(RULE, entry.link))
    }

    /// Decides about a packet. Cost: a cache line, and the filter's program.
    ///
    /// # Errors
    /// Fails if the filter cannot be applied to the packet's link type: each time, for each source.
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

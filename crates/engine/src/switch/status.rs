//! The status that a switch reports.

use burstline_port::{Losses, PortAccount};
use burstline_switch::{Counters, LookUps, MacEntry, MacTotals, Mirror, PortConfig, RuleCounts};

/// The status of a port or a mirror target.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// Its name.
    pub name: String,
    /// Its configuration; `None` for a mirror target.
    pub config: Option<PortConfig>,
    /// Counters of its frames.
    pub counters: Counters,
    /// Frames that the switch has dropped, by name.
    pub dropped: Losses,
    /// The combined account of its sources.
    pub incoming: PortAccount,
    /// The account of its sink.
    pub outgoing: PortAccount,
}

/// The status of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStatus {
    /// Its name.
    pub name: String,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that exceeded it.
    pub exceeded: u64,
}

/// A MAC address in the table of a switch.
#[derive(Clone, Debug)]
pub struct KnownAddress {
    /// Its entry in the table.
    pub entry: MacEntry,
    /// The name of its port.
    pub port: String,
    /// Time since it last sent, in ns.
    pub idle_ns: u64,
}

/// The status of a switch.
#[derive(Clone, Debug, Default)]
pub struct SwitchStatus {
    /// Its ports and mirror targets.
    pub ports: Vec<PortStatus>,
    /// Totals of the MAC table.
    pub addresses: MacTotals,
    /// Rules as written, and the counters of each.
    pub rules: Vec<(String, RuleCounts)>,
    /// Its meters.
    pub meters: Vec<MeterStatus>,
    /// Mirrors: the target, and a description of the mirrored traffic.
    pub mirrors: Vec<(String, String)>,
    /// Counters of rule look-ups.
    pub look_ups: LookUps,
    /// Seconds in which enough addresses moved to look like a loop.
    pub loops: u64,
    /// Ports that failed and were removed.
    pub failed: Vec<String>,
}

/// Describes the traffic that a mirror takes.
pub(super) fn taken_by(mirror: &Mirror) -> String {
    let takes = &mirror.takes;
    let list = |word: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("{word} {} ", names.join(",")),
    };
    let mut of = list("in", &takes.incoming) + &list("out", &takes.outgoing);
    if let Some(vlans) = &takes.vlans {
        let vlans: Vec<_> = vlans.iter().map(|vlan| vlan.to_string()).collect();
        of += &list("vlan", &vlans);
    }
    of.trim_end().to_owned()
}

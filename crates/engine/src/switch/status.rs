//! What a switch tells of itself.

use burstline_port::{Losses, PortAccount};
use burstline_switch::{Counters, LookUps, MacEntry, MacTotals, Mirror, PortConfig, RuleCounts};

/// A port, or a target of mirrors.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// Its name.
    pub name: String,
    /// What it is to the switch; `None`: it only gets copies of mirrors.
    pub config: Option<PortConfig>,
    /// What became of its frames.
    pub counters: Counters,
    /// What the switch has dropped of them, by name.
    pub dropped: Losses,
    /// What its sources say, together.
    pub incoming: PortAccount,
    /// What its sink says.
    pub outgoing: PortAccount,
}

/// A meter at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStatus {
    /// Its name.
    pub name: String,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that exceeded it.
    pub exceeded: u64,
}

/// An address that a switch knows.
#[derive(Clone, Debug)]
pub struct KnownAddress {
    /// Its entry in the table.
    pub entry: MacEntry,
    /// The name of its port.
    pub port: String,
    /// How long ago it sent, in ns.
    pub idle_ns: u64,
}

/// A switch at some moment.
#[derive(Clone, Debug, Default)]
pub struct SwitchStatus {
    /// Its ports and targets of mirrors.
    pub ports: Vec<PortStatus>,
    /// What the table of addresses has done.
    pub addresses: MacTotals,
    /// Rules as they were written, and what each has done.
    pub rules: Vec<(String, RuleCounts)>,
    /// Its meters.
    pub meters: Vec<MeterStatus>,
    /// Mirrors: where to, and of what.
    pub mirrors: Vec<(String, String)>,
    /// How rules were looked up.
    pub look_ups: LookUps,
    /// Seconds in which enough addresses moved to look like a loop.
    pub loops: u64,
    /// Ports that failed and were removed.
    pub failed: Vec<String>,
}

/// What a mirror takes, in words.
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

//! The parameters of `gen:`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use burstline_wire::link_address;

use super::keys::{GENERATOR_KEYS, MAX_FLOWS};
use super::pool::Pool;
use super::sizes::Sizes;
use crate::{Address, AddressError, Values};

/// Default number of flows, without any list.
const DEFAULT_FLOWS: u32 = 16;

/// Addresses of one side that are used before the other side's change.
const SOURCES: u128 = 65_534;
const DESTINATIONS: u128 = 32;

/// Fields that may differ by flow: addresses, ports, VLAN.
const FIELDS: usize = 5;

/// UDP echo, as in RFC 2544 appendix C.2.6.4.1.
const ECHO: u128 = 7;

/// Keys that do not apply to the packets of a template.
const MADE_ONLY: [&str; 15] = [
    "size",
    "size-basis",
    "flows",
    "protocol",
    "ip",
    "src",
    "dst",
    "sport",
    "dport",
    "vlan",
    "src-mac",
    "dst-mac",
    "vxlan",
    "outer-src",
    "outer-dst",
];

/// Which of two kinds flows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    First,
    Second,
    Mixed,
}

impl Choice {
    /// In the order of the words in addresses.
    const ALL: [Self; 3] = [Self::First, Self::Second, Self::Mixed];
}

/// The packets to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// The number of packets; `None` for no limit.
    pub(super) packets: Option<u64>,
    pub(super) sizes: Sizes,
    pub(super) content: Content,
    /// Whether flows take turns, or are random.
    pub(super) is_cycled: bool,
    pub(super) has_marks: bool,
    pub(super) seed: u64,
    /// Time of the first packet, in ns since 1970; `None` to use the clock.
    pub(super) start_ns: Option<u64>,
}

/// The source of the packets' contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Made(Pattern),
    Template(PathBuf),
}

/// The differences between flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) flows: u32,
    /// UDP or TCP.
    protocol: Choice,
    /// IPv4 or IPv6.
    ip: Choice,
    /// Whether each field was set by the user.
    is_typed: [bool; FIELDS],
    /// By version of IP.
    sources: [Pool; 2],
    destinations: [Pool; 2],
    source_ports: Pool,
    destination_ports: Pool,
    has_vlans: bool,
    vlans: Pool,
    /// Destination, then source.
    pub(super) macs: [u8; 12],
    pub(super) vxlan: Option<Vxlan>,
}

/// The encapsulation of each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vxlan {
    pub(super) network: u32,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
}

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) is_tcp: bool,
    pub(super) is_ipv6: bool,
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) vlan: Option<u16>,
}

impl Recipe {
    /// Parses the parameters of an address, except those of [`Pace`](super::rate::Pace).
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        let values = &address.values(GENERATOR_KEYS)?;
        let content = match values.text("template") {
            None => Content::Made(Pattern::parse(values)?),
            Some(path) => {
                let is_made = |key: &&&str| values.is_typed(key);
                if let Some(key) = MADE_ONLY.iter().find(is_made) {
                    let reason = format!("a template sends packets unchanged: leave out {key}");
                    return Err(values.wrong("template", reason));
                }
                Content::Template(path.into())
            }
        };
        let is_template = matches!(content, Content::Template(_));
        Ok(Self {
            packets: values.typed_integer("packets")?,
            sizes: Sizes::parse(values)?,
            content,
            is_cycled: values.typed_word("order", [false, true])?.unwrap_or(is_template),
            has_marks: values.switch("mark")?,
            seed: values.integer("seed")?,
            start_ns: values.typed_integer("start")?,
        })
    }
}

impl Pattern {
    fn parse(values: &Values<'_>) -> Result<Self, AddressError> {
        let (source, destination) = (addresses(values, "src")?, addresses(values, "dst")?);
        let ip = parse_ip(values, [&source, &destination])?;
        let ports = |key| numbers(values, key, u16::MAX.into());
        let (source_ports, destination_ports) = (ports("sport")?, ports("dport")?);
        let vlans = numbers(values, "vlan", 4094)?;
        let is_typed = [
            source.is_some(),
            destination.is_some(),
            source_ports.is_some(),
            destination_ports.is_some(),
            vlans.is_some(),
        ];
        let mut pattern = Self {
            flows: 0,
            protocol: values.word("protocol", Choice::ALL)?,
            ip,
            is_typed,
            sources: pools(source, 1, SOURCES),
            destinations: pools(destination, 2, DESTINATIONS),
            source_ports: source_ports.unwrap_or(Pool::range(1024, 60_000)),
            destination_ports: destination_ports.unwrap_or(Pool::range(ECHO, 1)),
            has_vlans: vlans.is_some(),
            vlans: vlans.unwrap_or(Pool::range(0, 1)),
            macs: parse_macs(values)?,
            vxlan: parse_vxlan(values)?,
        };
        pattern.flows = pattern.parse_flows(values)?;
        Ok(pattern)
    }

    /// Parses `flows`, at most the number of combinations of all lists.
    fn parse_flows(&self, values: &Values<'_>) -> Result<u32, AddressError> {
        let pools = self.pools(usize::from(self.ip == Choice::Second));
        let product = |only_typed: bool| {
            let pools = pools.iter().zip(self.is_typed).filter(|(_, typed)| *typed || !only_typed);
            pools.fold(1, |all: u128, (pool, _)| all.saturating_mul(pool.len()))
        };
        let default = match self.is_typed.contains(&true) {
            true => product(true).min(MAX_FLOWS.into()) as u32,
            false => DEFAULT_FLOWS,
        };
        let flows = values.typed_integer("flows")?.unwrap_or(default);
        let combinations = product(false);
        match u128::from(flows) <= combinations {
            true => Ok(flows),
            false => {
                let reason = format!(
                    "addresses, ports and VLANs combine to only {combinations} flows: use longer \
                     lists or fewer flows"
                );
                Err(values.wrong("flows", reason))
            }
        }
    }

    /// Returns flow number `flow`. Fields set by the user vary first: sources, then destinations,
    /// ports, VLANs; then the others, in the same order.
    pub(super) fn spec(&self, flow: u32) -> Spec {
        let is = |choice, bit: u32| match choice {
            Choice::First => false,
            Choice::Second => true,
            Choice::Mixed => flow >> bit & 1 == 1,
        };
        let is_ipv6 = is(self.ip, 1);
        let pools = self.pools(usize::from(is_ipv6));
        let (mut rest, mut values) = (u128::from(flow), [0; FIELDS]);
        for is_typed in [true, false] {
            for at in (0..FIELDS).filter(|at| self.is_typed[*at] == is_typed) {
                values[at] = pools[at].value(rest % pools[at].len());
                rest /= pools[at].len();
            }
        }
        let [source, destination, source_port, destination_port, vlan] = values;
        Spec {
            is_tcp: is(self.protocol, 0),
            is_ipv6,
            source,
            destination,
            source_port: source_port as u16,
            destination_port: destination_port as u16,
            vlan: self.has_vlans.then_some(vlan as u16),
        }
    }

    /// Returns the values of each field, in the order in which they vary.
    fn pools(&self, version: usize) -> [&Pool; FIELDS] {
        let Self { sources, destinations, source_ports, destination_ports, vlans, .. } = self;
        [&sources[version], &destinations[version], source_ports, destination_ports, vlans]
    }
}

/// A list of addresses, and whether they are IPv6.
type Addresses = Option<(Pool, bool)>;

/// Returns the addresses as typed, or this many from the ranges for benchmarks. Source: RFC 2544
/// appendix C.2.2, RFC 5180 section 8.
fn pools(typed: Addresses, side: u128, count: u128) -> [Pool; 2] {
    let ipv4 = u128::from(u32::from(Ipv4Addr::new(198, 17 + side as u8, 0, 1)));
    let ipv6 = 0x2001_0002 << 96 | side << 64 | 1;
    let defaults = [Pool::range(ipv4, count), Pool::range(ipv6, count)];
    let Some((pool, is_ipv6)) = typed else { return defaults };
    let [default4, default6] = defaults;
    if is_ipv6 { [default4, pool] } else { [pool, default6] }
}

fn addresses(values: &Values<'_>, key: &str) -> Result<Addresses, AddressError> {
    let Some(value) = values.text(key) else { return Ok(None) };
    let reason = "expected addresses of one IP version, e.g. 10.0.0.1, 10.0.0.1-10.0.0.9, \
                  10.0.0.0/24, or a list";
    Pool::addresses(value).map(Some).ok_or_else(|| values.wrong(key, reason))
}

fn numbers(values: &Values<'_>, key: &str, most: u64) -> Result<Option<Pool>, AddressError> {
    let Some(text) = values.text(key) else { return Ok(None) };
    let wrong = || values.wrong(key, format!("must be 0-{most}, a list 1,2 or a range 1-9"));
    Pool::numbers(text, most).map(Some).ok_or_else(wrong)
}

/// Parses `ip`, which must match the version of all addresses.
fn parse_ip(values: &Values<'_>, typed: [&Addresses; 2]) -> Result<Choice, AddressError> {
    let mut versions = typed.into_iter().flatten().map(|(_, is_ipv6)| *is_ipv6);
    let asked = values.typed_word("ip", Choice::ALL)?;
    let Some(is_ipv6) = versions.next() else { return Ok(asked.unwrap_or(Choice::First)) };
    let ip = if is_ipv6 { Choice::Second } else { Choice::First };
    let version = if is_ipv6 { "6" } else { "4" };
    if versions.any(|other| other != is_ipv6) {
        return Err(values.wrong("dst", format!("src has IPv{version}")));
    }
    match asked {
        Some(asked) if asked != ip => {
            Err(values.wrong("ip", format!("the addresses are IPv{version}")))
        }
        _ => Ok(ip),
    }
}

/// Parses `dst-mac` and `src-mac`.
fn parse_macs(values: &Values<'_>) -> Result<[u8; 12], AddressError> {
    let mut macs = [0; 12];
    for (key, at) in [("dst-mac", 0), ("src-mac", 6)] {
        let wrong = || values.wrong(key, "expected a MAC, e.g. 02:00:00:00:00:01");
        let mac = values.text(key).and_then(link_address::parse).ok_or_else(wrong)?;
        macs[at..at + 6].copy_from_slice(&mac);
    }
    Ok(macs)
}

fn parse_vxlan(values: &Values<'_>) -> Result<Option<Vxlan>, AddressError> {
    let source: Option<Ipv4Addr> = values.parsed("outer-src")?;
    let destination: Option<Ipv4Addr> = values.parsed("outer-dst")?;
    let Some(network) = values.typed_integer("vxlan")? else {
        let is_typed = |key: &&str| values.is_typed(key);
        return match ["outer-src", "outer-dst"].into_iter().find(is_typed) {
            Some(key) => Err(values.wrong(key, "needs vxlan=VNI")),
            None => Ok(None),
        };
    };
    Ok(Some(Vxlan {
        network,
        source: source.unwrap_or(Ipv4Addr::new(198, 18, 255, 255)),
        destination: destination.unwrap_or(Ipv4Addr::new(198, 19, 255, 255)),
    }))
}

#[cfg(test)]
mod tests;

//! What to make: the parameters of `gen:`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use burstline_wire::link_address;

use super::keys;
use super::pool::Pool;
use super::sizes::Sizes;
use crate::{Address, AddressError};

/// The most flows: so many can be told apart by a mark.
const MAX_FLOWS: u32 = 1 << 20;

/// Flows, where no list says otherwise.
const DEFAULT_FLOWS: u32 = 16;

/// Addresses of one side before the other side's begin to change.
const SOURCES: u128 = 65_534;
const DESTINATIONS: u128 = 32;

/// Fields that may differ by flow: addresses, ports, VLAN.
const FIELDS: usize = 5;

/// UDP echo, as RFC 2544 appendix C.2.6.4.1 has it.
const ECHO: u128 = 7;

/// What the packets of a template do not leave open.
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

/// Which of two kinds a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    First,
    Second,
    Mixed,
}

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// How many packets; `None` for no end.
    pub(super) packets: Option<u64>,
    pub(super) sizes: Sizes,
    pub(super) content: Content,
    /// Whether flows take turns, or are drawn.
    pub(super) is_cycled: bool,
    pub(super) has_marks: bool,
    pub(super) seed: u64,
    /// Time of the first packet, in ns since 1970; `None` for the clock's.
    pub(super) start_ns: Option<u64>,
}

/// Where packets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Made(Pattern),
    Template(PathBuf),
}

/// How flows differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) flows: u32,
    /// UDP or TCP.
    protocol: Choice,
    /// IPv4 or IPv6.
    ip: Choice,
    /// Whether each field's values were typed.
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

/// What is put around each frame.
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
    /// Reads the parameters of an address, but for those of [`Pace`](super::rate::Pace).
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        address.check_keys(&keys::names())?;
        let optional = |key| address.parameter(key).map(|_| address.parsed(key, 0_u64)).transpose();
        let content = match address.parameter("template") {
            None => Content::Made(Pattern::parse(address)?),
            Some(path) => {
                let is_made = |key: &&&str| address.parameter(key).is_some();
                if let Some(key) = MADE_ONLY.iter().find(is_made) {
                    let reason = format!("its packets are sent as they are: leave out {key}");
                    return Err(address.bad_value("template", path, reason));
                }
                Content::Template(path.into())
            }
        };
        let is_template = matches!(content, Content::Template(_));
        Ok(Self {
            packets: optional("packets")?,
            sizes: Sizes::parse(address)?,
            content,
            is_cycled: address.choice(
                "order",
                &[("random", false), ("cycle", true)],
                is_template,
            )?,
            has_marks: address.choice("mark", &[("yes", true), ("no", false)], true)?,
            seed: address.parsed("seed", 1)?,
            start_ns: optional("start")?,
        })
    }
}

impl Pattern {
    fn parse(address: &Address) -> Result<Self, AddressError> {
        let (source, destination) = (addresses(address, "src")?, addresses(address, "dst")?);
        let ip = parse_ip(address, [&source, &destination])?;
        let ports = |key| numbers(address, key, u16::MAX.into(), "a port is 0 to 65535");
        let vlan = "a VLAN is from 0 to 4094, a list 1,2 or a range 1-9";
        let (source_ports, destination_ports) = (ports("sport")?, ports("dport")?);
        let vlans = numbers(address, "vlan", 4094, vlan)?;
        let is_typed = [
            source.is_some(),
            destination.is_some(),
            source_ports.is_some(),
            destination_ports.is_some(),
            vlans.is_some(),
        ];
        let mut pattern = Self {
            flows: 0,
            protocol: parse_choice(address, "protocol", ["udp", "tcp"])?,
            ip,
            is_typed,
            sources: pools(source, 1, SOURCES),
            destinations: pools(destination, 2, DESTINATIONS),
            source_ports: source_ports.unwrap_or(Pool::range(1024, 60_000)),
            destination_ports: destination_ports.unwrap_or(Pool::range(ECHO, 1)),
            has_vlans: vlans.is_some(),
            vlans: vlans.unwrap_or(Pool::range(0, 1)),
            macs: parse_macs(address)?,
            vxlan: parse_vxlan(address)?,
        };
        pattern.flows = pattern.parse_flows(address)?;
        Ok(pattern)
    }

    /// Reads `flows`, which cannot be more than all lists combined.
    fn parse_flows(&self, address: &Address) -> Result<u32, AddressError> {
        let pools = self.pools(usize::from(self.ip == Choice::Second));
        let product = |only_typed: bool| {
            let pools = pools.iter().zip(self.is_typed).filter(|(_, typed)| *typed || !only_typed);
            pools.fold(1, |all: u128, (pool, _)| all.saturating_mul(pool.len()))
        };
        let default = match self.is_typed.contains(&true) {
            true => product(true).min(MAX_FLOWS.into()) as u32,
            false => DEFAULT_FLOWS,
        };
        let flows = address.parsed("flows", default)?;
        let wrong = |reason| Err(address.bad_value("flows", &flows.to_string(), reason));
        if !(1..=MAX_FLOWS).contains(&flows) {
            return wrong(format!("flows are from 1 to {MAX_FLOWS}"));
        }
        let combinations = product(false);
        match u128::from(flows) <= combinations {
            true => Ok(flows),
            false => wrong(format!(
                "addresses, ports and VLANs combine to {combinations} flows only: longer lists, \
                 or fewer flows"
            )),
        }
    }

    /// Flow number `flow`. What was typed changes first: sources, then destinations, ports, VLANs;
    /// then the others, in the same order.
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

    /// The values of each field, in the order in which they change.
    fn pools(&self, version: usize) -> [&Pool; FIELDS] {
        let Self { sources, destinations, source_ports, destination_ports, vlans, .. } = self;
        [&sources[version], &destinations[version], source_ports, destination_ports, vlans]
    }
}

/// A list of addresses, and whether they are IPv6.
type Addresses = Option<(Pool, bool)>;

/// The addresses that were typed, or so many from the ranges for benchmarks.
/// Source: RFC 2544 appendix C.2.2, RFC 5180 section 8.
fn pools(typed: Addresses, side: u128, count: u128) -> [Pool; 2] {
    let ipv4 = u128::from(u32::from(Ipv4Addr::new(198, 17 + side as u8, 0, 1)));
    let ipv6 = 0x2001_0002 << 96 | side << 64 | 1;
    let defaults = [Pool::range(ipv4, count), Pool::range(ipv6, count)];
    let Some((pool, is_ipv6)) = typed else { return defaults };
    let [default4, default6] = defaults;
    if is_ipv6 { [default4, pool] } else { [pool, default6] }
}

fn addresses(address: &Address, key: &str) -> Result<Addresses, AddressError> {
    let Some(value) = address.parameter(key) else { return Ok(None) };
    let reason = "addresses of one IP version, as 10.0.0.1, 10.0.0.1-10.0.0.9, 10.0.0.0/24, or a \
                  list of these";
    Pool::addresses(value).map(Some).ok_or_else(|| address.bad_value(key, value, reason))
}

fn numbers(
    address: &Address,
    key: &str,
    most: u128,
    reason: &str,
) -> Result<Option<Pool>, AddressError> {
    let Some(value) = address.parameter(key) else { return Ok(None) };
    Pool::numbers(value, most).map(Some).ok_or_else(|| address.bad_value(key, value, reason))
}

fn parse_choice(address: &Address, key: &str, of: [&str; 2]) -> Result<Choice, AddressError> {
    let choices = [(of[0], Choice::First), (of[1], Choice::Second), ("mix", Choice::Mixed)];
    address.choice(key, &choices, Choice::First)
}

/// Reads `ip`, which has to be that of all addresses.
fn parse_ip(address: &Address, typed: [&Addresses; 2]) -> Result<Choice, AddressError> {
    let mut versions = typed.into_iter().flatten().map(|(_, is_ipv6)| *is_ipv6);
    let asked = parse_choice(address, "ip", ["4", "6"])?;
    let Some(is_ipv6) = versions.next() else { return Ok(asked) };
    let ip = if is_ipv6 { Choice::Second } else { Choice::First };
    let version = if is_ipv6 { "6" } else { "4" };
    if versions.any(|other| other != is_ipv6) {
        let value = address.parameter("dst").unwrap_or("");
        return Err(address.bad_value("dst", value, format!("src has IPv{version}")));
    }
    match address.parameter("ip") {
        Some(value) if asked != ip => {
            Err(address.bad_value("ip", value, format!("the addresses are IPv{version}")))
        }
        _ => Ok(ip),
    }
}

/// Reads `dst-mac` and `src-mac`; locally administered ones where they are not there.
fn parse_macs(address: &Address) -> Result<[u8; 12], AddressError> {
    let mut macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (key, at) in [("dst-mac", 0), ("src-mac", 6)] {
        let Some(value) = address.parameter(key) else { continue };
        let wrong = || address.bad_value(key, value, "a MAC is as 02:00:00:00:00:01");
        macs[at..at + 6].copy_from_slice(&link_address::parse(value).ok_or_else(wrong)?);
    }
    Ok(macs)
}

fn parse_vxlan(address: &Address) -> Result<Option<Vxlan>, AddressError> {
    let ends = ["outer-src", "outer-dst"];
    let Some(value) = address.parameter("vxlan") else {
        return match ends.iter().find_map(|key| Some((*key, address.parameter(key)?))) {
            Some((key, value)) => Err(address.bad_value(key, value, "there is no vxlan=VNI")),
            None => Ok(None),
        };
    };
    let network = value.parse().ok().filter(|network| *network < 1 << 24);
    let network =
        network.ok_or_else(|| address.bad_value("vxlan", value, "a VNI is 0 to 16777215"))?;
    let [source, destination] = ends;
    Ok(Some(Vxlan {
        network,
        source: address.parsed(source, Ipv4Addr::new(198, 18, 255, 255))?,
        destination: address.parsed(destination, Ipv4Addr::new(198, 19, 255, 255))?,
    }))
}

#[cfg(test)]
mod tests;

//! Parses the configuration file, which is TOML, with error positions.
//!
//! ```toml
//! [switch]
//! addresses = "8192"       # the most that are known at a time
//! age = "300s"             # how long one is known that does not send
//!
//! [[port]]
//! address = "tap:host0?trunk=10,20"
//!
//! [[address]]              # one that stays
//! mac = "02:00:00:00:00:01"
//! vlan = 10
//! port = "tap:host0"
//!
//! [[meter]]
//! name = "web"
//! rate = "10k"             # packets a second; 10Mbit: bits
//!
//! [[mirror]]
//! to = "log:sensor"        # a sink, or a port
//! both = ["tap:host0"]     # in, out, both: ports; vlans = "10,20"
//!
//! [[rule]]
//! flow = "tcp,tp_dst=80,actions=meter:web,normal"
//! ```

use std::ops::Range;

use burstline_wire::grammar::{Bounds, Quantity, Rate, place_of};
use burstline_wire::link_address;
use serde::Deserialize;
use toml::Spanned;

use crate::mirror::{Mirror, Selection};
use crate::port::VlanSet;
use crate::rules::RuleSet;
use crate::text;
use crate::{Quota, UnknownName};

/// Maximum number of entries of the MAC table, which then takes some 80 MiB.
pub const ADDRESSES_MOST: u64 = 1 << 20;
/// Maximum number of rules, so that building their table stays fast.
const RULES_MOST: usize = 1 << 16;

/// A static address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// The address.
    pub address: [u8; 6],
    /// Its VLAN.
    pub vlan: u16,
    /// The name of its port.
    pub port: String,
}

/// The contents of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of addresses, if given.
    pub addresses_max: Option<usize>,
    /// The maximum age of addresses in ns, if given.
    pub age_ns: Option<u64>,
    /// Ports, as typed for `--port`.
    pub ports: Vec<String>,
    /// Static addresses.
    pub statics: Vec<Static>,
    /// Rules, meters and mirrors.
    pub rules: RuleSet,
    /// The byte offsets of each rule and of each mirror.
    rule_places: Vec<usize>,
    mirror_places: Vec<usize>,
}

/// An error in a file, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The message.
    pub what: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    switch: Head,
    port: Vec<PortTable>,
    address: Vec<AddressTable>,
    meter: Vec<MeterTable>,
    mirror: Vec<Spanned<MirrorTable>>,
    rule: Vec<FlowTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Head {
    addresses: Option<Spanned<String>>,
    age: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortTable {
    address: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressTable {
    mac: Spanned<String>,
    vlan: Spanned<i64>,
    port: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeterTable {
    name: Spanned<String>,
    rate: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MirrorTable {
    to: String,
    #[serde(default, rename = "in")]
    incoming: Vec<String>,
    #[serde(default, rename = "out")]
    outgoing: Vec<String>,
    #[serde(default)]
    both: Vec<String>,
    vlans: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowTable {
    flow: Spanned<String>,
}

/// The byte offset of an error, and the message.
type Fault = (usize, String);

impl Config {
    /// Parses a file's text.
    ///
    /// # Errors
    /// [`ConfigError`] with the first error in the text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file = toml::from_str::<File>(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            place(text, (at, error.message().to_owned()))
        })?;
        read(file, text).map_err(|fault| place(text, fault))
    }

    /// Returns the error for a rule or a mirror of this file that names an unknown end.
    pub fn unknown(&self, text: &str, unknown: &UnknownName, present: &str) -> ConfigError {
        let at = match unknown.rule {
            Some(rule) => self.rule_places.get(rule),
            None => self.mirror_places.iter().find(|&&at| text[at..].contains(&unknown.name)),
        };
        let (start, name) = (at.copied().unwrap_or(0), &unknown.name);
        let at = text[start..].find(name.as_str()).map_or(start, |behind| start + behind);
        place(text, (at, format!("there is no port {name}; there are {present}")))
    }
}

/// Converts a byte offset to a line and a column.
fn place(text: &str, (at, what): Fault) -> ConfigError {
    let (line, column) = place_of(text, at);
    // The parser's message may have several lines.
    let what = what.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
    ConfigError { line, column, what }
}

fn read(file: File, text: &str) -> Result<Config, Fault> {
    let mut config = Config::default();
    if let Some(addresses) = &file.switch.addresses {
        let bounds = Bounds::new(Quantity::Number, 1..=ADDRESSES_MOST);
        config.addresses_max = Some(quantity(addresses, bounds)?);
    }
    if let Some(age) = &file.switch.age {
        let bounds = Bounds::new(Quantity::Time, 1_000_000..=u64::MAX);
        config.age_ns = Some(quantity(age, bounds)?);
    }
    config.ports = file.port.into_iter().map(|port| port.address).collect();
    for entry in file.address {
        config.statics.push(entry.read(text)?);
    }
    for MeterTable { name, rate } in file.meter {
        let meters = &mut config.rules.meters;
        if meters.iter().any(|(known, _)| known == name.get_ref()) {
            let what = format!("a meter {} already exists", name.get_ref());
            return Err((inside(text, &name.span()), what));
        }
        let quota = parse_quota(rate.get_ref());
        let quota = quota.map_err(|what| (inside(text, &rate.span()), what))?;
        meters.push((name.into_inner(), quota));
    }
    for mirror in file.mirror {
        let at = mirror.span().start;
        config.mirror_places.push(at);
        config.rules.mirrors.push(mirror.into_inner().read(text, at)?);
    }
    if file.rule.len() > RULES_MOST {
        let at = file.rule[RULES_MOST].flow.span().start;
        return Err((at, format!("{} rules: must be at most {RULES_MOST}", file.rule.len())));
    }
    for FlowTable { flow } in file.rule {
        read_rule(&mut config, &flow, text)?;
    }
    Ok(config)
}

fn read_rule(config: &mut Config, flow: &Spanned<String>, text: &str) -> Result<(), Fault> {
    let at = inside(text, &flow.span());
    let rule = text::parse(flow.get_ref()).map_err(|error| (at + error.at, error.what))?;
    let meters = &config.rules.meters;
    for action in &rule.actions {
        if let crate::Action::Meter(name) = action
            && meters.iter().all(|(known, _)| known != name)
        {
            let word = flow.get_ref().find("meter:").unwrap_or(0);
            return Err((at + word, format!("there is no meter {name}")));
        }
    }
    config.rule_places.push(at);
    config.rules.rules.push(rule);
    Ok(())
}

impl AddressTable {
    fn read(self, text: &str) -> Result<Static, Fault> {
        let mac = self.mac.get_ref();
        let address = link_address::parse(mac).ok_or_else(|| {
            let what = format!("'{mac}' is not a link address, e.g. 02:00:00:00:00:01");
            (inside(text, &self.mac.span()), what)
        })?;
        let number = *self.vlan.get_ref();
        let vlan = u16::try_from(number).ok().filter(|vlan| VlanSet::RANGE.contains(vlan));
        let vlan = vlan.ok_or_else(|| {
            (self.vlan.span().start, format!("vlan = {number}: expected 1 to 4094"))
        })?;
        Ok(Static { address, vlan, port: self.port })
    }
}

impl MirrorTable {
    fn read(self, text: &str, at: usize) -> Result<Mirror, Fault> {
        let vlans = self.vlans.as_ref().map(|vlans| {
            VlanSet::parse(vlans.get_ref()).ok_or_else(|| {
                let what = format!("vlans = '{}': expected all, or 10,20-29", vlans.get_ref());
                (inside(text, &vlans.span()), what)
            })
        });
        let vlans = vlans.transpose()?;
        let Self { to, incoming, outgoing, both, .. } = self;
        let takes = Selection { incoming, outgoing, vlans }.with_both(both);
        if takes == Selection::default() {
            return Err((at, "a mirror needs in, out, both or vlans".to_owned()));
        }
        Ok(Mirror { to, takes })
    }
}

/// Returns where the text of a string begins, after its opening quote.
fn inside(text: &str, span: &Range<usize>) -> usize {
    let string = &text[span.start..span.end];
    let is_long = ["\"\"\"", "'''"].iter().any(|quotes| string.starts_with(quotes));
    span.start + if is_long { 3 } else { 1 }
}

fn quantity<T: TryFrom<u64>>(value: &Spanned<String>, bounds: Bounds) -> Result<T, Fault> {
    let read = bounds.read(value.get_ref());
    read.map_err(|error| (value.span().start, format!("'{}': {error}", value.get_ref())))
}

/// Parses a quota in packets or bits per second.
///
/// # Errors
/// A message with the expected formats.
pub fn parse_quota(text: &str) -> Result<Quota, String> {
    let quota = match text.parse::<Rate>() {
        Ok(Rate::Packets(per_s)) => Quota { per_s, is_bits: false },
        Ok(Rate::LineBits(per_s)) => Quota { per_s, is_bits: true },
        Ok(Rate::Percent(_)) | Err(_) => {
            return Err(format!("'{text}': expected packets/s (500, 10k) or bits/s (10Mbit)"));
        }
    };
    match quota.per_s > 0.0 {
        true => Ok(quota),
        false => Err(format!("'{text}': expected more than 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[switch]
addresses = "1k"
age = "5s"

[[port]]
address = "tap:a?vlan=10"

[[address]]
mac = "02:00:00:00:00:01"
vlan = 10
port = "tap:a"

[[meter]]
name = "web"
rate = "10Mbit"

[[mirror]]
to = "log:x"
both = ["tap:a"]
vlans = "7"

[[rule]]
flow = "tcp,tp_dst=80,actions=meter:web,normal"
[[rule]]
flow = 'in_port=tap:b,actions=drop'
"#;

    #[test]
    fn a_file_is_read() {
        let config = Config::parse(GOOD).unwrap();
        assert_eq!((config.addresses_max, config.age_ns), (Some(1000), Some(5_000_000_000)));
        assert_eq!(config.ports, ["tap:a?vlan=10"]);
        assert_eq!(config.statics.len(), 1);
        assert_eq!(config.rules.targets(), ["log:x"]);
        let mirror = &config.rules.mirrors[0].takes;
        assert_eq!(
            (&mirror.incoming, &mirror.outgoing),
            (&vec!["tap:a".into()], &vec!["tap:a".into()])
        );
        assert_eq!(config.rules.rules.len(), 2);
        let unknown = UnknownName { rule: Some(1), name: "tap:b".into() };
        let error = config.unknown(GOOD, &unknown, "tap:a");
        assert_eq!(
            error.to_string(),
            "line 26, column 17: there is no port tap:b; there are tap:a"
        );
    }

    #[test]
    fn what_is_wrong_has_its_line_and_column() {
        for (text, line, column, what) in [
            ("[[rule]]\nflow = \"tcp,tp_dst=x,actions=drop\"", 2, 13, "expected N or N/MASK"),
            ("\n[[rule]]\nflow = 'ip,actions=meter:x,normal'", 3, 20, "there is no meter x"),
            ("[[rule]]\nflaw = ''", 2, 1, "unknown field"),
            ("[[rule]]\nflow = 7", 2, 8, "invalid type"),
            ("[switch]\nage = \"5\"", 2, 7, "expected an integer with ns"),
            ("[[address]]\nmac = 'x'\nvlan = 1\nport = 'a'", 2, 8, "is not a link address"),
            ("[[address]]\nmac = '2:0:0:0:0:1'\nvlan = 0\nport = 'a'", 3, 8, "1 to 4094"),
            ("[[mirror]]\nto = 'log:x'", 1, 1, "a mirror needs in, out"),
            ("[[meter]]\nname = 'a'\nrate = '0'", 3, 9, "more than 0"),
            ("[[meter]]\nname = 'a'\nrate = '50%'", 3, 9, "expected packets/s"),
            ("[[port]", 1, 8, ""),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
            assert!(error.what.contains(what), "{text}: {error}");
        }
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }
}

//! Parses rules as text, in the syntax of `ovs-ofctl add-flow` if the meaning is the same.
//!
//! ```text
//! priority=100,in_port=tap:a,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=meter:web,output:tap:b
//! ```
//!
//! | match | | actions | |
//! |---|---|---|---|
//! | `in_port=PORT` | receiving port | `drop` | drops the frame |
//! | `dl_vlan=N` | VLAN | `normal` | forwards it by its destination address |
//! | `dl_src=`, `dl_dst=MAC[/MASK]` | MAC addresses | `output:PORT` | sends it there |
//! | `dl_type=0xN` | EtherType | `mirror:TARGET` | sends a copy there |
//! | `ip arp icmp tcp udp sctp` | that over IPv4 | `meter:NAME` | drops it if it exceeds that |
//! | `ipv6 icmp6 tcp6 udp6 sctp6` | that over IPv6 | `mod_vlan_vid:N` | forwards it in that VLAN |
//! | `nw_src=`, `nw_dst=IP[/N]` | IPv4 addresses | `mod_dl_src:`, `mod_dl_dst:MAC` | sets it |
//! | `ipv6_src=`, `ipv6_dst=IP[/N]` | IPv6 addresses | `mod_nw_src:`, `mod_nw_dst:IP` | sets it |
//! | `nw_proto=N` | IP protocol | `mod_tp_src:`, `mod_tp_dst:N` | sets it |
//! | `tp_src=`, `tp_dst=N[/MASK]` | ports | | |
//!
//! Source of the syntax: ovs-ofctl(8), "Flow Syntax". The default priority is 32768, as there.

use std::net::{Ipv4Addr, Ipv6Addr};

use burstline_wire::headers::{ether_type, protocol};
use burstline_wire::link_address;

use crate::port::parse_vlan;
use crate::{Action, Match, Rule, SetFields};

/// An error in a rule, and its byte offset in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextError {
    pub(crate) at: usize,
    pub(crate) what: String,
}

/// Source: RFC 826.
const ARP: u16 = 0x0806;

/// The default priority, as in ovs-ofctl(8).
const PRIORITY: u16 = 32_768;

/// The EtherType and protocol that a keyword requires.
#[derive(Clone, Copy, Default)]
struct Kind {
    ether_type: Option<u16>,
    protocol: Option<u8>,
}

/// Keywords without a value, with their EtherType and protocol.
const KINDS: [Named; 13] = [
    named("ip", ether_type::IPV4, None),
    named("ipv6", ether_type::IPV6, None),
    named("ip6", ether_type::IPV6, None),
    named("arp", ARP, None),
    named("icmp", ether_type::IPV4, Some(protocol::ICMP)),
    named("tcp", ether_type::IPV4, Some(protocol::TCP)),
    named("udp", ether_type::IPV4, Some(protocol::UDP)),
    named("sctp", ether_type::IPV4, Some(protocol::SCTP)),
    named("icmp6", ether_type::IPV6, Some(protocol::ICMPV6)),
    named("tcp6", ether_type::IPV6, Some(protocol::TCP)),
    named("udp6", ether_type::IPV6, Some(protocol::UDP)),
    named("sctp6", ether_type::IPV6, Some(protocol::SCTP)),
    named("icmpv6", ether_type::IPV6, Some(protocol::ICMPV6)),
];

struct Named {
    name: &'static str,
    ether_type: u16,
    protocol: Option<u8>,
}

const fn named(name: &'static str, ether_type: u16, protocol: Option<u8>) -> Named {
    Named { name, ether_type, protocol }
}

const MATCHES: &str = "in_port, dl_vlan, dl_src, dl_dst, dl_type, nw_src, nw_dst, ipv6_src, \
                       ipv6_dst, nw_proto, tp_src, tp_dst, priority";
const ACTIONS: &str = "drop, normal, output:PORT, mirror:TARGET, meter:NAME, mod_vlan_vid:N, \
                       mod_dl_src:MAC, mod_dl_dst:MAC, mod_nw_src:IP, mod_nw_dst:IP, \
                       mod_tp_src:N, mod_tp_dst:N";

/// A rule that is being parsed.
struct Reader {
    rule: Rule,
    kind: Kind,
}

pub(crate) fn parse(text: &str) -> Result<Rule, TextError> {
    const MARK: &str = "actions=";
    let Some(at) = text.find(MARK) else {
        return Err(TextError { at: text.len(), what: format!("no '{MARK}'") });
    };
    let rule = Rule {
        text: text.to_owned(),
        priority: PRIORITY,
        in_port: None,
        matches: Match::default(),
        actions: Vec::new(),
    };
    let mut reader = Reader { rule, kind: Kind::default() };
    for (at, word) in words(&text[..at], 0, |c| c == ',' || c.is_whitespace()) {
        reader.read_match(word).map_err(|what| TextError { at, what })?;
    }
    let at = at + MARK.len();
    for (at, word) in words(&text[at..], at, |c| c == ',') {
        let action = action(word.trim()).map_err(|what| TextError { at, what })?;
        reader.rule.actions.push(action);
    }
    let ends =
        |action: &Action| matches!(action, Action::Drop | Action::Normal | Action::Output(_));
    if !reader.rule.actions.iter().any(ends) {
        let what = "no action says where the packet goes: drop, normal or output:PORT".to_owned();
        return Err(TextError { at, what });
    }
    Ok(reader.rule)
}

/// Returns the words of a text and the offset of each, plus `start`.
fn words(
    text: &str,
    start: usize,
    is_between: impl Fn(char) -> bool,
) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(is_between).filter(|word| !word.trim().is_empty());
    // Each piece of `split` is a subslice of `text`.
    words.map(move |word| (start + (word.as_ptr().addr() - text.as_ptr().addr()), word))
}

impl Reader {
    fn read_match(&mut self, word: &str) -> Result<(), String> {
        if let Some(kind) = KINDS.iter().find(|kind| kind.name == word) {
            self.rule.matches.ether_type(kind.ether_type);
            self.kind.ether_type = Some(kind.ether_type);
            if let Some(protocol) = kind.protocol {
                self.rule.matches.protocol(protocol);
                self.kind.protocol = Some(protocol);
            }
            return Ok(());
        }
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("'{word}' is neither a protocol nor KEY=VALUE"));
        };
        self.read_value(key, value)
    }

    fn read_value(&mut self, key: &str, value: &str) -> Result<(), String> {
        let wrong = |expected: &str| format!("{key}={value}: expected {expected}");
        let matches = &mut self.rule.matches;
        match key {
            "priority" => {
                self.rule.priority = value.parse().map_err(|_| wrong("0 to 65535"))?;
            }
            "in_port" if !value.is_empty() => self.rule.in_port = Some(value.to_owned()),
            "in_port" => return Err(wrong("a port, e.g. tap:a")),
            "dl_vlan" => matches.vlan(parse_vlan(value).ok_or_else(|| wrong("1 to 4094"))?),
            "dl_type" => {
                let number = number(value).and_then(|number| u16::try_from(number).ok());
                let number = number.ok_or_else(|| wrong("a number, e.g. 0x88b5"))?;
                matches.ether_type(number);
                self.kind.ether_type = Some(number);
            }
            "dl_src" | "dl_dst" => {
                let (address, mask) =
                    link(value).ok_or_else(|| wrong("MAC or MAC/MASK, e.g. 02:00:00:00:00:01"))?;
                matches.link(key == "dl_src", address, mask);
            }
            "nw_proto" => {
                self.needs(key, &[ether_type::IPV4, ether_type::IPV6], "ip or ipv6")?;
                let protocol = value.parse().map_err(|_| wrong("0 to 255"))?;
                self.rule.matches.protocol(protocol);
                self.kind.protocol = Some(protocol);
            }
            "nw_src" | "nw_dst" => {
                self.needs(key, &[ether_type::IPV4], "ip, icmp, tcp, udp or sctp")?;
                let (address, mask) =
                    ipv4(value).ok_or_else(|| wrong("IP or IP/N, e.g. 10.0.0.0/8"))?;
                self.rule.matches.ip(key == "nw_src", &address, &mask);
            }
            "ipv6_src" | "ipv6_dst" => {
                self.needs(key, &[ether_type::IPV6], "ipv6, icmp6, tcp6, udp6 or sctp6")?;
                let (address, mask) =
                    ipv6(value).ok_or_else(|| wrong("IP or IP/N, e.g. fe80::/10"))?;
                self.rule.matches.ip(key == "ipv6_src", &address, &mask);
            }
            "tp_src" | "tp_dst" => {
                let has_ports = [protocol::TCP, protocol::UDP, protocol::SCTP];
                if self.kind.protocol.is_none_or(|protocol| !has_ports.contains(&protocol)) {
                    return Err(format!("{key} needs tcp, udp or sctp (or tcp6 ...) before it"));
                }
                let (port, mask) = port(value).ok_or_else(|| wrong("N or N/MASK, e.g. 80"))?;
                self.rule.matches.port(key == "tp_src", port, mask);
            }
            _ => return Err(format!("there is no '{key}'; there are {MATCHES}")),
        }
        Ok(())
    }

    fn needs(&self, key: &str, types: &[u16], words: &str) -> Result<(), String> {
        match self.kind.ether_type.is_some_and(|known| types.contains(&known)) {
            true => Ok(()),
            false => Err(format!("{key} needs {words} before it")),
        }
    }
}

fn action(word: &str) -> Result<Action, String> {
    let (name, value) = word.split_once(':').unwrap_or((word, ""));
    let wrong = |expected: &str| format!("{word}: expected {expected}");
    let named = || match value {
        "" => Err(wrong("a name after the colon")),
        _ => Ok(value.to_owned()),
    };
    let mut set = SetFields::default();
    let mac = || link_address::parse(value).ok_or_else(|| wrong("a MAC"));
    let ip = || value.parse::<Ipv4Addr>().map_err(|_| wrong("an IPv4 address"));
    let port = || value.parse::<u16>().map_err(|_| wrong("0 to 65535"));
    match name {
        "drop" | "normal" if word.contains(':') => {
            return Err(format!("{word}: {name} takes no value"));
        }
        "drop" => return Ok(Action::Drop),
        "normal" => return Ok(Action::Normal),
        "output" => return named().map(Action::Output),
        "mirror" => return named().map(Action::Mirror),
        "meter" => return named().map(Action::Meter),
        "mod_vlan_vid" => {
            set.vlan = Some(parse_vlan(value).ok_or_else(|| wrong("1 to 4094"))?);
        }
        "mod_dl_src" => set.source = Some(mac()?),
        "mod_dl_dst" => set.destination = Some(mac()?),
        "mod_nw_src" => set.ip_source = Some(ip()?.octets()),
        "mod_nw_dst" => set.ip_destination = Some(ip()?.octets()),
        "mod_tp_src" => set.source_port = Some(port()?),
        "mod_tp_dst" => set.destination_port = Some(port()?),
        _ => return Err(format!("'{word}' is not an action; there are {ACTIONS}")),
    }
    Ok(Action::Set(set))
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn link(text: &str) -> Option<([u8; 6], [u8; 6])> {
    match text.split_once('/') {
        None => Some((link_address::parse(text)?, [0xff; 6])),
        Some((address, mask)) => Some((link_address::parse(address)?, link_address::parse(mask)?)),
    }
}

fn ipv4(text: &str) -> Option<([u8; 4], [u8; 4])> {
    let (address, mask) = text.split_once('/').unwrap_or((text, "32"));
    let mask = match mask.parse::<u32>() {
        Ok(bits @ 0..=32) => u32::MAX.checked_shl(32 - bits).unwrap_or(0).to_be_bytes(),
        Ok(_) => return None,
        Err(_) => mask.parse::<Ipv4Addr>().ok()?.octets(),
    };
    Some((address.parse::<Ipv4Addr>().ok()?.octets(), mask))
}

fn ipv6(text: &str) -> Option<([u8; 16], [u8; 16])> {
    let (address, mask) = text.split_once('/').unwrap_or((text, "128"));
    let mask = match mask.parse::<u32>() {
        Ok(bits @ 0..=128) => u128::MAX.checked_shl(128 - bits).unwrap_or(0).to_be_bytes(),
        Ok(_) => return None,
        Err(_) => mask.parse::<Ipv6Addr>().ok()?.octets(),
    };
    Some((address.parse::<Ipv6Addr>().ok()?.octets(), mask))
}

fn port(text: &str) -> Option<(u16, u16)> {
    let sixteen = |text: &str| number(text).and_then(|number| u16::try_from(number).ok());
    match text.split_once('/') {
        None => Some((sixteen(text)?, u16::MAX)),
        Some((port, mask)) => Some((sixteen(port)?, sixteen(mask)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_openflow_are_understood() {
        let text = "priority=100, in_port=tap:a tcp,nw_dst=10.0.0.0/8,tp_dst=80,\
                    dl_src=02:00:00:00:00:01,dl_vlan=7,actions=mod_dl_dst:02:00:00:00:00:09,\
                    meter:web,mirror:log:x,output:tap:b";
        let rule = parse(text).unwrap();
        assert_eq!((rule.priority, rule.in_port.as_deref()), (100, Some("tap:a")));
        let names: Vec<_> = rule.names().collect();
        assert_eq!(names, ["tap:a", "log:x", "tap:b"]);
        assert_eq!(rule.actions.len(), 4);
        assert_eq!(rule.actions[1], Action::Meter("web".into()));
        let mut expected = Match::default();
        expected.ether_type(0x800);
        expected.protocol(6);
        expected.ip(false, &[10, 0, 0, 0], &[255, 0, 0, 0]);
        expected.port(false, 80, 0xffff);
        expected.link(true, [2, 0, 0, 0, 0, 1], [255; 6]);
        expected.vlan(7);
        assert_eq!(rule.matches, expected);
        assert_eq!(parse("actions=drop").unwrap().priority, 32_768);
        for good in [
            "tcp6,ipv6_src=fe80::/10,tp_src=0x50/0xfff0,actions=normal",
            "dl_type=0x88b5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=drop",
            "ip,nw_src=10.0.0.0/255.0.0.0,nw_proto=6,tp_dst=1,actions=mod_vlan_vid:5,normal",
            "udp,nw_src=0.0.0.0/0,actions=mod_nw_src:1.2.3.4,mod_tp_dst:9,normal",
        ] {
            parse(good).unwrap_or_else(|error| panic!("{good}: {error:?}"));
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, at, what) in [
            ("tcp", 3, "no 'actions='"),
            ("tcp,tp_dst=x,actions=drop", 4, "tp_dst=x: expected N or N/MASK"),
            ("tp_dst=80,actions=drop", 0, "tp_dst needs tcp, udp or sctp"),
            ("nw_src=1.2.3.4,actions=drop", 0, "nw_src needs ip"),
            ("ip, nw_src=1.2.3.4/33,actions=drop", 4, "expected IP or IP/N"),
            ("ipx,actions=drop", 0, "'ipx' is neither a protocol nor KEY=VALUE"),
            ("dl_vlan=0,actions=drop", 0, "expected 1 to 4094"),
            ("reg0=1,actions=drop", 0, "there is no 'reg0'; there are in_port"),
            ("ip,actions=drop,flood", 16, "'flood' is not an action; there are drop"),
            ("ip,actions=meter:x", 11, "no action says where the packet goes"),
            ("ip,actions=output:", 11, "a name after the colon"),
            ("ip,actions=drop:1", 11, "takes no value"),
            ("ip,actions=", 11, "no action says where the packet goes"),
            ("priority=65536,actions=drop", 0, "expected 0 to 65535"),
            ("in_port=,actions=drop", 0, "a port"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.at == at && error.what.contains(what), "{text}: {error:?}");
        }
    }
}

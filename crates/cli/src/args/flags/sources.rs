//! Which words behind a verb are sources, and which are a filter.
//!
//! ```text
//!  burstline capture -i eth1  eth0  trace.pcap  udp port 53  -w x.pcapng
//!                    source   source source     filter
//! ```
//!
//! The first words that are sources (an address with a scheme, an interface, a file, `any`) are
//! sources; the rest is a filter, as in tcpdump. A word that could be either is an error that says
//! how to write both. A word that is neither is a source that is not there.

use burstline_port::{Address, AddressError, did_you_mean, interfaces_up};
use burstline_sys::interface::present_interfaces;

use crate::args::common::SourceArgs;
use crate::args::values;
use crate::failure::Failure;
use crate::paths::file_address;

/// The word for all interfaces that are up.
pub(crate) const ANY: &str = "any";

/// Words with which an expression begins. Source: pcap-filter(7), libpcap 1.10.
#[rustfmt::skip] // a table of words
const FILTER_WORDS: [&str; 40] = [
    "arp", "atalk", "broadcast", "decnet", "dst", "ether", "fddi", "gateway", "geneve", "greater",
    "host", "icmp", "icmp6", "ifname", "igmp", "inbound", "ip", "ip6", "ip6proto", "iso", "len",
    "less", "link", "mpls", "multicast", "net", "not", "outbound", "port", "portrange", "pppoed",
    "pppoes", "proto", "rarp", "sctp", "src", "tcp", "udp", "vlan", "wlan",
];

impl SourceArgs {
    /// Finds the sources and the filter in what was typed. To be called once, before anything else
    /// is asked of these arguments.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        for name in &self.interfaces {
            self.sources.extend(interface(name)?);
        }
        for path in &self.read {
            self.sources.push(file_address(path).parse()?);
        }
        let mut first = 0;
        while let Some(word) = self.words.get(first) {
            if self.filter_begins(word)? {
                break;
            }
            self.sources.extend(sources(word)?);
            first += 1;
        }
        let text = self.words[first..].join(" ");
        if text.is_empty() {
            return Ok(());
        }
        if self.filter.is_some() {
            let what = format!("two filters: --filter, and '{text}' behind the sources; write one");
            return Err(Failure::usage(what));
        }
        let filter = values::filter(&text);
        self.filter =
            Some(filter.map_err(|error| Failure::usage(format!("filter '{text}': {error}")))?);
        Ok(())
    }

    /// Whether the filter begins with this word: there is a source before it.
    fn filter_begins(&self, word: &str) -> Result<bool, Failure> {
        if self.sources.is_empty() {
            return Ok(false);
        }
        let is_there = values::source(word).is_ok_and(|address| !address.is_bare());
        match (begins_filter(word), is_there) {
            (true, false) => Ok(true),
            (true, true) => Err(Failure::usage(format!(
                "'{word}' is an interface or a file, and a filter may begin with it: write \
                 afpacket:{word} or ./{word} for a source, --filter for a filter"
            ))),
            (false, false) => not_quite_filter(word).map_or(Ok(false), Err),
            (false, true) => Ok(false),
        }
    }
}

/// The error about a word that is almost one with which a filter begins, if it is.
fn not_quite_filter(word: &str) -> Option<Failure> {
    // Names of interfaces and files have others.
    let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let near = did_you_mean(word, FILTER_WORDS.iter().copied());
    (is_word && !near.is_empty()).then(|| {
        let what =
            format!("'{word}' is not an interface, not a file and does not begin a filter{near}");
        Failure::usage(what)
    })
}

/// What `-i` names: an interface, `any`, or an address as among the words.
fn interface(name: &str) -> Result<Vec<Address>, Failure> {
    if name == ANY || name.contains(':') {
        return sources(name);
    }
    let present = present_interfaces();
    if present.iter().any(|known| known == name) {
        return Ok(vec![of_interface(name)?]);
    }
    let near = did_you_mean(name, present.iter().map(String::as_str));
    let there_are = present.join(", ");
    Err(Failure::new(format!("no interface '{name}'{near}; there are: {there_are}, {ANY}")))
}

/// The sources that a word stands for. One that is not there is an error of opening it.
fn sources(word: &str) -> Result<Vec<Address>, Failure> {
    if word == ANY {
        return any();
    }
    Ok(vec![values::source(word).map_err(|error| usage(word, &error))?])
}

/// A mistake in an address, as the parser of flags says it.
fn usage(word: &str, error: &AddressError) -> Failure {
    Failure::usage(format!(
        "invalid value '{word}' for '<SOURCE>...': {error}; see burstline --help"
    ))
}

/// Every interface that is up, loopback included, each a source: so each packet keeps its own.
fn any() -> Result<Vec<Address>, Failure> {
    let up = interfaces_up();
    if up.is_empty() {
        return Err(Failure::new("any: no interface is up"));
    }
    up.iter().map(|name| Ok(of_interface(name)?)).collect()
}

fn of_interface(name: &str) -> Result<Address, AddressError> {
    Ok(name.parse::<Address>()?.as_interface())
}

/// Whether an expression of pcap-filter(7) may begin with this word.
fn begins_filter(word: &str) -> bool {
    let first = word.split_whitespace().next().unwrap_or_default();
    let letters = first.split(['[', '(', '!']).next().unwrap_or_default();
    first.starts_with(['(', '!']) || FILTER_WORDS.contains(&letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_with_which_a_filter_begins() {
        for word in ["udp", "tcp[13]", "tcp[tcpflags]", "!", "(udp", "not", "udp port 53", "len"] {
            assert!(begins_filter(word), "{word}");
        }
        for word in ["eth0", "53", "upd", "and", "trace.pcap", "udp.pcap", "gen:", ""] {
            assert!(!begins_filter(word), "{word}");
        }
        assert!(FILTER_WORDS.is_sorted());
    }
}

//! Splits positional arguments into sources and a filter.
//!
//! ```text
//!  burstline capture -i eth1  eth0  trace.pcap  udp port 53  -w x.pcapng
//!                    source   source source     filter
//! ```
//!
//! Leading words that are sources (an address with a scheme, an interface, a file, `any`) are
//! sources; the rest is a filter, as in tcpdump. A word that could be either is an error that shows
//! how to write both. A leading word that is neither is a missing source.

use burstline_port::{Address, AddressError, did_you_mean, interfaces_up};
use burstline_sys::interface::present_interfaces;

use crate::args::common::SourceArgs;
use crate::args::values;
use crate::failure::Failure;
use crate::paths::file_address;

/// The word for all interfaces that are up.
pub(crate) const ANY: &str = "any";

/// Words that can begin a filter expression. Source: pcap-filter(7), libpcap 1.10.
#[rustfmt::skip] // a table of words
const FILTER_WORDS: [&str; 40] = [
    "arp", "atalk", "broadcast", "decnet", "dst", "ether", "fddi", "gateway", "geneve", "greater",
    "host", "icmp", "icmp6", "ifname", "igmp", "inbound", "ip", "ip6", "ip6proto", "iso", "len",
    "less", "link", "mpls", "multicast", "net", "not", "outbound", "port", "portrange", "pppoed",
    "pppoes", "proto", "rarp", "sctp", "src", "tcp", "udp", "vlan", "wlan",
];

impl SourceArgs {
    /// Finds the sources and the filter in the positional arguments. Must be called once, before
    /// any other method.
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

    /// Returns whether the filter begins with this word, given that a source comes before it.
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

/// Returns an error if the word looks like a misspelt beginning of a filter.
fn not_quite_filter(word: &str) -> Option<Failure> {
    // Names of interfaces and files have other characters.
    let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let near = did_you_mean(word, FILTER_WORDS.iter().copied());
    (is_word && !near.is_empty()).then(|| {
        let what =
            format!("'{word}' is not an interface, not a file and does not begin a filter{near}");
        Failure::usage(what)
    })
}

/// Resolves the value of `-i`: an interface, `any`, or an address.
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

/// Returns the sources that a word stands for. A missing one fails when it is opened.
fn sources(word: &str) -> Result<Vec<Address>, Failure> {
    if word == ANY {
        return any();
    }
    Ok(vec![values::source(word).map_err(|error| usage(word, &error))?])
}

/// Formats an error in an address like the parser of flags.
fn usage(word: &str, error: &AddressError) -> Failure {
    Failure::usage(format!(
        "invalid value '{word}' for '<SOURCE>...': {error}; see burstline --help"
    ))
}

/// Returns every interface that is up, including loopback, as its own source, so that each packet
/// keeps its interface.
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

/// Returns whether an expression of pcap-filter(7) may begin with this word.
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

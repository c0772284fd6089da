//! Parses the values of `--kafka`, `--nats` and `--spool`.

use std::io;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use burstline_flow::TreeError;
use burstline_wire::grammar::{Bounds, Quantity};

/// The smallest spool: some segments of a few messages.
const SPOOL_LEAST: u64 = 1 << 20;
const SPOOL: Bounds = Bounds::new(Quantity::Size, SPOOL_LEAST..=1 << 50);
/// Default spool size: a day of 100 records per second or more.
const SPOOL_USUAL: u64 = 1 << 30;

/// A bus, and the topic or stream on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusAddress {
    /// `kafka` or `nats`.
    pub kind: &'static str,
    /// `HOST:PORT` of each initial server.
    pub servers: Vec<String>,
    /// Ports of the servers.
    pub ports: Vec<u16>,
    /// Kafka's topic; for NATS the subject prefix before the sensor.
    pub topic: String,
    /// The NATS stream that stores the messages.
    pub stream: String,
}

/// The spool's folder and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolPlace {
    /// The folder, which is created if it does not exist.
    pub folder: PathBuf,
    /// Most bytes for each bus.
    pub bytes: u64,
}

/// Why a bus or a spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The program has no client for the bus.
    #[error("built without {kind}: make buses builds a program with it")]
    NotBuilt {
        /// `kafka` or `nats`.
        kind: &'static str,
    },
    /// Invalid text.
    #[error("{text:?}: expected {expected}")]
    Text {
        /// The text as typed.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// An IPv6 address without brackets, which is ambiguous.
    #[error("{text:?}: write an IPv6 address in brackets: {instead}")]
    Bracket {
        /// The text as typed.
        text: String,
        /// The corrected text.
        instead: String,
    },
    /// The size of a spool is invalid.
    #[error("{text:?}: size={what}")]
    Size {
        /// The text as typed.
        text: String,
        /// The problem.
        what: String,
    },
    /// The spool's folder belongs to another program, or cannot be used.
    #[error("--spool: {0}")]
    Spool(#[from] TreeError),
    /// The client could not be created.
    #[error("--{kind}: {error}")]
    Client {
        /// `kafka` or `nats`.
        kind: &'static str,
        /// The client's error.
        error: io::Error,
    },
}

impl BusAddress {
    /// Parses `HOST:PORT,HOST:PORT?topic=NAME` without name resolution.
    ///
    /// # Errors
    /// The text is invalid, or this program has no client for Kafka.
    pub fn kafka(text: &str) -> Result<Self, BusError> {
        let expected = "HOST:PORT of brokers, separated by commas, optionally ?topic=NAME, e.g. \
                        10.0.0.9:9092?topic=flows";
        Self::built("kafka", cfg!(feature = "kafka"), text, &["topic"], expected)
    }

    /// Parses `HOST:PORT,HOST:PORT?subject=NAME&stream=NAME` without name resolution.
    ///
    /// # Errors
    /// The text is invalid, or this program has no client for NATS.
    pub fn nats(text: &str) -> Result<Self, BusError> {
        let expected = "HOST:PORT of servers, separated by commas, optionally \
                        ?subject=NAME&stream=NAME, e.g. 10.0.0.9:4222?stream=flows";
        Self::built("nats", cfg!(feature = "nats"), text, &["subject", "stream"], expected)
    }

    fn built(
        kind: &'static str,
        is_built: bool,
        text: &str,
        keys: &[&str],
        expected: &'static str,
    ) -> Result<Self, BusError> {
        let mut servers = text.split('?').next().unwrap_or_default().split(',');
        if let Some(instead) = servers.find_map(in_brackets) {
            return Err(BusError::Bracket { text: text.to_owned(), instead });
        }
        let address = Self::read(kind, text, keys);
        let address = address.ok_or_else(|| BusError::Text { text: text.to_owned(), expected })?;
        if is_built { Ok(address) } else { Err(BusError::NotBuilt { kind }) }
    }

    fn read(kind: &'static str, text: &str, keys: &[&str]) -> Option<Self> {
        let (servers, words) = text.split_once('?').unwrap_or((text, ""));
        let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
        let ports: Option<Vec<u16>> = servers.iter().map(|server| port_of(server)).collect();
        let (topic, stream) = ("burstline.flows".to_owned(), "burstline".to_owned());
        let mut address = Self { kind, servers, ports: ports?, topic, stream };
        for word in words.split('&').filter(|_| !words.is_empty()) {
            let (key, value) = word.split_once('=')?;
            let may_have_dots = key != "stream";
            if !keys.contains(&key) || !is_name(value, may_have_dots) {
                return None;
            }
            match key {
                "stream" => value.clone_into(&mut address.stream),
                _ => value.clone_into(&mut address.topic),
            }
        }
        Some(address)
    }
}

/// Converts `ADDRESS:PORT` to `[ADDRESS]:PORT`, if it is an IPv6 address without brackets.
pub(crate) fn in_brackets(server: &str) -> Option<String> {
    let (host, port) = server.rsplit_once(':')?;
    let (address, _zone) = host.split_once('%').unwrap_or((host, ""));
    address.parse::<Ipv6Addr>().ok().map(|_| format!("[{host}]:{port}"))
}

fn port_of(server: &str) -> Option<u16> {
    let (host, port) = server.rsplit_once(':')?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
    let is_good = !host.is_empty() && host.chars().all(is_host);
    port.parse().ok().filter(|port| *port > 0 && is_good)
}

/// Returns whether a text is a valid Kafka topic, NATS subject and, without dots, stream name.
fn is_name(text: &str, may_have_dots: bool) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_word = |word: &str| !word.is_empty() && word.chars().all(is_plain);
    text.len() <= 200 && text.split('.').all(is_word) && (may_have_dots || !text.contains('.'))
}

impl FromStr for SpoolPlace {
    type Err = BusError;

    /// Parses `FOLDER?size=BYTES`.
    fn from_str(text: &str) -> Result<Self, BusError> {
        let (folder, bytes) = match text.rsplit_once("?size=") {
            Some((folder, size)) => (folder, SPOOL.read(size)),
            None => (text, Ok(SPOOL_USUAL)),
        };
        let bytes = bytes.map_err(|error| {
            let what = error.to_string();
            BusError::Size { text: text.to_owned(), what }
        })?;
        if folder.is_empty() {
            let expected = "a folder, optionally ?size=BYTES, e.g. /var/spool/flows?size=10g";
            return Err(BusError::Text { text: text.to_owned(), expected });
        }
        Ok(Self { folder: folder.into(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_buses() {
        let read = BusAddress::read("nats", "a:1,[fe80::1]:2?stream=x", &["subject", "stream"]);
        let read = read.unwrap();
        assert_eq!(
            (read.servers, read.ports),
            (vec!["a:1".into(), "[fe80::1]:2".into()], vec![1, 2])
        );
        assert_eq!((&read.topic[..], &read.stream[..]), ("burstline.flows", "x"));
        for text in [
            "",
            ":1",
            "a",
            "a:0",
            "a:70000",
            "a:1,",
            "a:1?",
            "a:1?topic",
            "a:1?topic=",
            "a:1?topic=.a",
            "a:1?topic=a..b",
            "a:1?topic=a b",
            "a:1?topic=*",
            "a:1?stream=x",
            "a b:1",
            "a:1?topic=a>",
        ] {
            let read = BusAddress::read("kafka", text, &["topic"]);
            assert_eq!(read.is_some(), text == "a:1?", "{text:?}");
        }
    }

    #[test]
    fn an_ipv6_address_needs_brackets() {
        let wrong = |text: &str| BusAddress::nats(text).unwrap_err().to_string();
        for (text, instead) in
            [("::1:1", "[::1]:1"), ("a:1,fe80::1%eth0:4222?stream=x", "[fe80::1%eth0]:4222")]
        {
            let wanted = format!("{text:?}: write an IPv6 address in brackets: {instead}");
            assert_eq!(wrong(text), wanted);
        }
        // Not an address, whatever follows.
        assert!(wrong("x::y:1:").contains("expected HOST:PORT"));
    }

    #[test]
    fn places_of_spools() {
        let read = |text: &str| text.parse::<SpoolPlace>();
        let place = read("/var/a?b?size=2m").unwrap();
        assert_eq!((place.folder, place.bytes), ("/var/a?b".into(), 2 << 20));
        assert_eq!(read("x").unwrap().bytes, SPOOL_USUAL);
        for text in ["", "?size=2m", "x?size=", "x?size=1k", "x?size=-1", "x?size=2e9"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}

//! Parsers of flag values. Each error states what is allowed; clap adds the flag and the value.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;

use burstline_engine::{Distribution, PollMode};
use burstline_log::{Handoff, MAX_PACKET_BYTES};
use burstline_port::{Address, AddressError, Filter, Rewrite, Role, SCHEMES, is_interface};
use burstline_share::{LosslessReaders, PublishConfig};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::inode;
use burstline_sys::memory::{NodeId, PageChoice};
use burstline_sys::scheduling::SchedulingClass;
use burstline_sys::users::{self, Account};
use burstline_topo::Outline;
use burstline_wire::files::MAX_CAPTURED;
use burstline_wire::filter::FilterError;
use burstline_wire::grammar::{Bounds, GrammarError, Quantity};
use burstline_wire::hash::{HashKind, HashKindError};
use burstline_wire::link_address;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::args::NOTHING;
use crate::paths::unschemed;

/// Parses a source: an address, an interface or a file.
pub(crate) fn source(text: &str) -> Result<Address, AddressError> {
    address(text, Role::Source)
}

/// Parses a sink: an address, an interface or a file.
pub(crate) fn sink(text: &str) -> Result<Address, AddressError> {
    address(text, Role::Sink)
}

/// Parses an address. A missing port is not an error here: the port reports it when opened, maybe
/// in another network namespace.
pub(crate) fn address(text: &str, role: Role) -> Result<Address, AddressError> {
    let address: Address = text.parse()?;
    match address.resolved(role) {
        Err(error) if error.is_about_machine() => Ok(address),
        resolved => resolved,
    }
}

/// Parses the file of `-w`, a path or `file:PATH`, and returns the path. Nothing in it is escaped:
/// names of a rotation have conversions of strftime(3). A word that may be meant as a port or as an
/// address with keys is an error, so that no file gets its name.
pub(crate) fn written(text: &str) -> Result<String, String> {
    let path = unschemed(text);
    if path.is_empty() {
        return Err("a path, or -".to_owned());
    }
    // With its folder a name is a path and nothing else.
    let in_folder = if path.starts_with('/') { path.to_owned() } else { format!("./{path}") };
    let is_schemed = path != text;
    let (scheme, _) = text.split_once(':').unwrap_or_default();
    let is_port = SCHEMES.iter().any(|known| known.name == scheme);
    if is_port && !is_schemed && text != NOTHING {
        return Err(format!(
            "a file is written here, so no scheme but file: is taken (capture -o sends to a port); \
             for a file of this name write {in_folder}"
        ));
    }
    let (name, query) = path.split_once('?').unwrap_or((path, ""));
    if is_schemed && name != path || !path.contains('/') && has_key(query) {
        return Err(format!(
            "a path has no keys: --format and --compress choose the format; for a file of this \
             name write {in_folder}"
        ));
    }
    if is_schemed {
        // Without its scheme this name would be the one word that is not a path.
        return Ok(if path == NOTHING { in_folder } else { path.to_owned() });
    }
    match is_interface(name) {
        true => {
            Err(format!("that is a network interface; for a file of this name write {in_folder}"))
        }
        false => Ok(text.to_owned()),
    }
}

/// Whether a text begins with a key of an address, as behind `?` in `x.pcap?format=pcap`.
fn has_key(query: &str) -> bool {
    let keys = SCHEMES.iter().flat_map(|scheme| [scheme.source_keys(), scheme.sink_keys()]);
    let (first, _) = query.split_once('=').unwrap_or_default();
    keys.flatten().flatten().any(|key| key.name == first)
}

/// The cores to pin threads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// Any cores, one per thread.
    Auto,
    /// These cores, in this order.
    List(Vec<CoreId>),
}

/// The NUMA node to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The node of the cores, or the kernel's choice.
    Auto,
    /// This node.
    Number(NodeId),
}

/// Parses a number of packets, at least 1: `250`, `10k`, `3M`, `1G`, powers of 1000.
pub(crate) fn packets(text: &str) -> Result<u64, GrammarError> {
    number(1..=u64::MAX)(text)
}

/// Parses a number of packets like [`packets`], but allows 0.
pub(crate) fn expected(text: &str) -> Result<u64, GrammarError> {
    number(0..=u64::MAX)(text)
}

/// Returns a parser for numbers in a range.
pub(crate) fn number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, GrammarError> + Clone {
    let bounds = Bounds::new(Quantity::Number, range);
    move |text| bounds.read(text)
}

/// Parses a time above 0, in ns: `250ms`, `10s`, `5m`, `1h`.
pub(crate) fn span_ns(text: &str) -> Result<u64, GrammarError> {
    Bounds::new(Quantity::Time, 1..=u64::MAX).read(text)
}

/// Parses a size above 0, in bytes: `4096`, `256k`, `64m`, `1g`, also `64MiB`; powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<usize, GrammarError> {
    Bounds::new(Quantity::Size, 1..=usize::MAX as u64).read(text)
}

/// Parses `0,2,4-7` or `auto`.
pub(crate) fn cores(text: &str) -> Result<Cores, String> {
    if text == "auto" {
        return Ok(Cores::Auto);
    }
    let cores = affinity::parse_cores(text).map_err(|error| error.to_string())?;
    // Isolated cores are allowed, although a process does not run there by default.
    let outline = Outline::read().map_err(|error| error.to_string())?;
    let usable = outline.cores.iter().filter(|core| core.is_usable);
    let allowed: Vec<CoreId> = usable.map(|core| core.id).collect();
    match cores.iter().find(|core| !allowed.contains(core)) {
        None => Ok(Cores::List(cores)),
        Some(core) => {
            let allowed = affinity::format_cores(&allowed);
            Err(format!("this process may not use core {core}, only {allowed}"))
        }
    }
}

/// Parses `swap`, or source and destination: `02:00:00:00:00:01,02:00:00:00:00:02`.
pub(crate) fn rewrite(text: &str) -> Result<Rewrite, String> {
    if text == "swap" {
        return Ok(Rewrite::Swap);
    }
    let addresses = text.split_once(',').and_then(|(source, destination)| {
        Some(Rewrite::Set {
            source: link_address::parse(source)?,
            destination: link_address::parse(destination)?,
        })
    });
    addresses.ok_or_else(|| {
        "must be swap, or source,destination: 02:00:00:00:00:01,02:00:00:00:00:02".to_owned()
    })
}

/// Parses a node's number or `auto`.
pub(crate) fn node(text: &str) -> Result<Node, String> {
    match text {
        "auto" => Ok(Node::Auto),
        _ => match text.parse() {
            Ok(number) => Ok(Node::Number(NodeId(number))),
            Err(_) => Err("must be a node's number from 0, or auto".to_owned()),
        },
    }
}

/// Parses a node's number.
pub(crate) fn node_number(text: &str) -> Result<NodeId, String> {
    text.parse().map(NodeId).map_err(|_| "must be a node's number from 0".to_owned())
}

/// Parses `0,2,4-7`, for any machine.
pub(crate) fn core_list(text: &str) -> Result<Box<[CoreId]>, String> {
    affinity::parse_cores(text).map(Vec::into_boxed_slice).map_err(|error| error.to_string())
}

/// Parses a number of threads.
pub(crate) fn threads(text: &str) -> Result<u64, GrammarError> {
    number(1..=u64::from(affinity::CORES_MAX))(text)
}

/// Parses `normal`, `fifo:N` or `idle`.
pub(crate) fn priority(text: &str) -> Result<SchedulingClass, String> {
    let allowed = || "must be normal, fifo:1 to fifo:99, or idle".to_owned();
    match text.split_once(':') {
        None if text == "normal" => Ok(SchedulingClass::Normal),
        None if text == "idle" => Ok(SchedulingClass::Idle),
        Some(("fifo", number)) => match number.parse() {
            Ok(priority) if (1..=99).contains(&priority) => Ok(SchedulingClass::Fifo { priority }),
            _ => Err(allowed()),
        },
        _ => Err(allowed()),
    }
}

/// Parses a snapshot length that fits into a desc. 0 means the whole packet, as in tcpdump.
pub(crate) fn snaplen(text: &str) -> Result<u32, GrammarError> {
    let bytes = Bounds::new(Quantity::Size, 0..=MAX_PACKET_BYTES as u64).read(text)?;
    Ok(if bytes == 0 { MAX_CAPTURED } else { bytes })
}

/// Parses an address to listen at; a bare port is on the loopback address.
pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "expected ADDRESS:PORT, e.g. 127.0.0.1:9100, or a port; 0.0.0.0 is all interfaces".into()
    })
}

/// Parses a user that has an account.
pub(crate) fn account(text: &str) -> Result<Account, String> {
    users::account(text).ok_or_else(|| format!("there is no user '{text}'"))
}

/// Parses an expression, a program, or `@FILE` with either in it.
pub(crate) fn filter(text: &str) -> Result<Filter, String> {
    let parse = |text: &str| text.parse().map_err(|error: FilterError| error.to_string());
    match text.strip_prefix('@') {
        None => parse(text),
        Some(path) => {
            let text = inode::read_text(Path::new(path));
            let text = text.map_err(|error| format!("read {path}: {error}"))?;
            parse(&text).map_err(|error| format!("{path}: {error}"))
        }
    }
}

/// Parses `NAME[?mode=0660&owner=USER&group=GROUP&lossless=TIME|forever]`.
pub(crate) fn publish(text: &str) -> Result<PublishConfig, String> {
    let (name, query) = text.split_once('?').unwrap_or((text, ""));
    let mut config = PublishConfig::new(name);
    let mut mode = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "mode" => {
                let number = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
                mode = Some(number.ok_or_else(|| format!("mode={value}: must be octal, 0-777"))?);
            }
            "owner" => {
                let user = users::user_number(value);
                config.owner = Some(user.ok_or_else(|| format!("there is no user '{value}'"))?);
            }
            "group" => {
                let group = users::group_number(value);
                config.group = Some(group.ok_or_else(|| format!("there is no group '{value}'"))?);
            }
            "lossless" if value == "forever" => config.lossless = LosslessReaders::Forever,
            "lossless" => {
                let deadline_ns = span_ns(value)
                    .map_err(|error| format!("lossless={value}: {error}, or forever"))?;
                config.lossless = LosslessReaders::For { deadline_ns };
            }
            _ => {
                return Err(format!(
                    "unknown key '{key}': the keys are mode, owner, group and lossless"
                ));
            }
        }
    }
    // Naming a group implies that it may read.
    config.mode = mode.unwrap_or(if config.group.is_some() { 0o660 } else { config.mode });
    Ok(config)
}

/// Parses the name of a flow hash.
pub(crate) fn hash_kind(text: &str) -> Result<HashKind, String> {
    text.parse().map_err(|error: HashKindError| error.to_string())
}

/// Returns the help text about flow hashes.
pub(crate) fn hash_help() -> String {
    let all = HashKind::NAMED.map(|named| (named.name, named.made_from)).into_iter();
    let all = all.chain([HashKind::BYTE]).map(|(name, what)| format!("{name} ({what})"));
    let all = all.collect::<Vec<_>>().join(", ");
    format!("Which flow hash each packet gets; fragments follow their flow. One of {all}")
}

/// Parses the name of a flow hash that separates flows, or `round-robin`.
pub(crate) fn distribution(text: &str) -> Result<Distribution, String> {
    match (text, hash_kind(text)) {
        (ROUND_ROBIN, _) => Ok(Distribution::RoundRobin),
        (_, Ok(HashKind::None)) => {
            Err(format!("all packets would go to one worker; did you mean {ROUND_ROBIN}?"))
        }
        (_, Ok(kind)) => Ok(Distribution::Hash(kind)),
        (_, Err(error)) => Err(format!("{error}, or {ROUND_ROBIN}")),
    }
}

/// The distribution that ignores flows.
pub(crate) const ROUND_ROBIN: &str = "round-robin";

/// Returns the help text about distributions.
pub(crate) fn distribution_help() -> String {
    let kinds = HashKind::NAMED.into_iter().filter(|named| named.kind != HashKind::None);
    let kinds = kinds.map(|named| (named.name, named.made_from)).chain([HashKind::BYTE]);
    let kinds: Vec<_> = kinds.map(|(name, what)| format!("{name} ({what})")).collect();
    format!(
        "How packets are distributed; fragments follow their flow. One of {}, {ROUND_ROBIN} (one \
         after the other, flows or not)",
        kinds.join(", ")
    )
}

/// Returns a parser for the poll modes.
pub(crate) fn poll_mode() -> impl TypedValueParser<Value = PollMode> {
    let modes = [PollMode::Busy, PollMode::Adaptive, PollMode::Interrupt];
    let names = PossibleValuesParser::new(modes.map(PollMode::name));
    names.map(move |name| modes.into_iter().find(|mode| mode.name() == name).unwrap_or_default())
}

/// Returns a parser for the page sizes.
pub(crate) fn pages() -> impl TypedValueParser<Value = PageChoice> {
    let names = PossibleValuesParser::new(["auto", "1g", "2m", "thp", "4k"]);
    names.map(|name| name.parse().unwrap_or_default())
}

/// Returns a parser for the hand-off ways.
pub(crate) fn handoff() -> impl TypedValueParser<Value = Handoff> {
    let names = PossibleValuesParser::new(Handoff::ALL.map(|(name, _)| name));
    names.map(|name| name.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_times_and_sizes() {
        assert_eq!((packets("10k"), expected("0")), (Ok(10_000), Ok(0)));
        assert_eq!(span_ns("5m"), Ok(300_000_000_000));
        assert_eq!((bytes("64MiB"), bytes("256k")), (Ok(64 << 20), Ok(256 << 10)));
        assert_eq!((snaplen("96"), snaplen("64k")), (Ok(96), Ok(64 << 10)));
        for wrong in
            ["", "0", "k", "-1", "+1", "1.5k", "1K", "99999999999999999999", "20000000000G"]
        {
            assert!(packets(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "10", "s", "0s", "1d", "1 s"] {
            assert!(span_ns(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "b", "1t", "99999999999999g"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!((snaplen("0"), snaplen("512k").is_err()), (Ok(262_144), true));
        assert_eq!(account("root").map(|root| root.user), Ok(0));
        assert!(account("no such user").is_err() && account("0").is_err());
    }

    #[test]
    fn who_may_read() {
        assert_eq!(publish("tap"), Ok(PublishConfig::new("tap")));
        let full = publish("./a/tap?owner=0&group=root&lossless=5s").unwrap();
        assert_eq!((&full.name[..], full.owner, full.group), ("./a/tap", Some(0), Some(0)));
        assert_eq!(full.mode, 0o660);
        assert_eq!(full.lossless, LosslessReaders::For { deadline_ns: 5_000_000_000 });
        let open = publish("tap?mode=0666&lossless=forever").unwrap();
        assert_eq!((open.mode, open.lossless), (0o666, LosslessReaders::Forever));
        for wrong in ["mode=9", "mode=1777", "owner=nobody-at-all", "group=", "lossless", "x=1"] {
            assert!(publish(&format!("tap?{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_to_write_is_a_path_with_or_without_its_scheme() {
        for (text, path) in [
            ("file:eth0.100", "eth0.100"),
            ("file:/d{0..3}/x-%H%M.pcapng", "/d{0..3}/x-%H%M.pcapng"),
            ("file:null:", "./null:"),
            ("file:lo", "lo"),
            ("file:-", "-"),
            ("-", "-"),
            ("null:", "null:"),
            ("./file:x", "./file:x"),
            ("nosuch.100", "nosuch.100"),
            ("x-10:30?.pcapng", "x-10:30?.pcapng"),
            ("site:1.pcap", "site:1.pcap"),
            ("x?a=b.pcap", "x?a=b.pcap"),
            ("./x.pcap?format=pcap", "./x.pcap?format=pcap"),
        ] {
            assert_eq!(written(text), Ok(path.to_owned()), "{text}");
        }
        for (text, mend) in [
            ("", "a path, or -"),
            ("file:", "a path, or -"),
            ("file:x?format=pcap", "a file of this name write ./x?format=pcap"),
            ("file:/x?y", "a file of this name write /x?y"),
            ("x.pcap?format=pcap", "a file of this name write ./x.pcap?format=pcap"),
            ("nosuch9?direction=in", "a file of this name write ./nosuch9?direction=in"),
            ("xdp:eth1", "a file of this name write ./xdp:eth1"),
            ("null:?x", "a file of this name write ./null:?x"),
        ] {
            assert!(written(text).unwrap_err().ends_with(mend), "{text}");
        }
    }

    #[test]
    fn classes_and_nodes() {
        assert_eq!(priority("fifo:7"), Ok(SchedulingClass::Fifo { priority: 7 }));
        for wrong in ["fifo", "fifo:0", "fifo:100", "fifo:x", "idle:1", "rr"] {
            assert!(priority(wrong).is_err(), "{wrong}");
        }
        assert_eq!(node("1"), Ok(Node::Number(NodeId(1))));
        assert!(node("-1").is_err());
        assert!(cores("0-").is_err() && cores("8191").is_err());
    }
}

//! Reading flag values. Each error names what is allowed; clap adds the flag and the value.

use std::fs;

use burstline_engine::PollMode;
use burstline_log::MAX_PACKET_BYTES;
use burstline_port::Filter;
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::memory::{NodeId, PageChoice};
use burstline_sys::scheduling::SchedulingClass;
use burstline_wire::filter::FilterError;
use burstline_wire::hash::{HashKind, HashKindError};
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};

/// Which cores to pin threads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// Any, one each.
    Auto,
    /// These, in this order.
    List(Vec<CoreId>),
}

/// Which node to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// That of the cores, or whatever the kernel chooses.
    Auto,
    /// This one.
    Number(NodeId),
}

/// A number of packets, at least 1: `250`, `10k`, `3M`, `1G`, powers of 1000.
pub(crate) fn packets(text: &str) -> Result<u64, String> {
    let units = [("k", 1000), ("M", 1_000_000), ("G", 1_000_000_000)];
    scaled(text, &units)
        .filter(|&packets| packets > 0)
        .ok_or_else(|| "a whole number from 1, with k, M or G behind it or not".to_owned())
}

/// A time, above 0, in ns: `250ms`, `10s`, `5m`, `1h`.
pub(crate) fn span_ns(text: &str) -> Result<u64, String> {
    const SECOND_NS: u64 = 1_000_000_000;
    let units = [
        ("ms", 1_000_000),
        ("us", 1000),
        ("s", SECOND_NS),
        ("m", 60 * SECOND_NS),
        ("h", 3600 * SECOND_NS),
    ];
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    scaled(text, &units)
        .filter(|&span_ns| has_unit && span_ns > 0)
        .ok_or_else(|| "a whole number from 1 with us, ms, s, m or h behind it".to_owned())
}

/// A size in bytes: `4096`, `256k`, `64m`, `1g`, also `64MiB`; powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let short = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    let units = [("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];
    let size = scaled(short, &units).filter(|&bytes| bytes > 0);
    size.and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "a whole number from 1, with k, m or g (powers of 1024) or not".to_owned())
}

/// `0,2,4-7` or `auto`.
pub(crate) fn cores(text: &str) -> Result<Cores, String> {
    if text == "auto" {
        return Ok(Cores::Auto);
    }
    let cores = affinity::parse_cores(text).map_err(|error| error.to_string())?;
    let allowed = affinity::allowed_cores().map_err(|error| error.to_string())?;
    match cores.iter().find(|core| !allowed.contains(core)) {
        None => Ok(Cores::List(cores)),
        Some(core) => {
            let allowed = affinity::format_cores(&allowed);
            Err(format!("core {core} is not allowed to this process; it has {allowed}"))
        }
    }
}

/// A node's number or `auto`.
pub(crate) fn node(text: &str) -> Result<Node, String> {
    match text {
        "auto" => Ok(Node::Auto),
        _ => match text.parse() {
            Ok(number) => Ok(Node::Number(NodeId(number))),
            Err(_) => Err("a node's number from 0, or auto".to_owned()),
        },
    }
}

/// `normal`, `fifo:N` or `idle`.
pub(crate) fn priority(text: &str) -> Result<SchedulingClass, String> {
    let allowed = || "normal, fifo:1 to fifo:99, or idle".to_owned();
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

/// A snapshot length that a desc can hold.
pub(crate) fn snaplen() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=MAX_PACKET_BYTES as u64)
}

/// An expression, a program, or `@FILE` with either in it.
pub(crate) fn filter(text: &str) -> Result<Filter, String> {
    let parse = |text: &str| text.parse().map_err(|error: FilterError| error.to_string());
    match text.strip_prefix('@') {
        None => parse(text),
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
            parse(&text).map_err(|error| format!("{path}: {error}"))
        }
    }
}

/// One of the flow hashes.
pub(crate) fn hash_kind(text: &str) -> Result<HashKind, String> {
    text.parse().map_err(|error: HashKindError| error.to_string())
}

/// What the flow hashes are, as `--help` says it.
pub(crate) fn hash_help() -> String {
    let all = HashKind::NAMED.map(|(_, name, what)| (name, what)).into_iter();
    let all = all.chain([HashKind::BYTE]).map(|(name, what)| format!("{name} ({what})"));
    let all = all.collect::<Vec<_>>().join(", ");
    format!("Which flow hash each packet gets. Fragments follow their flow: {all}")
}

/// One of the ways to wait.
pub(crate) fn poll_mode() -> impl TypedValueParser<Value = PollMode> {
    let modes = [PollMode::Busy, PollMode::Adaptive, PollMode::Interrupt];
    let names = PossibleValuesParser::new(modes.map(PollMode::name));
    names.map(move |name| modes.into_iter().find(|mode| mode.name() == name).unwrap_or_default())
}

/// One of the page sizes.
pub(crate) fn pages() -> impl TypedValueParser<Value = PageChoice> {
    let names = PossibleValuesParser::new(["auto", "1g", "2m", "thp", "4k"]);
    names.map(|name| name.parse().unwrap_or_default())
}

/// Digits and one of the units, which are tried in order; without a unit, 1.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let unit = units.iter().find(|(suffix, _)| text.ends_with(suffix));
    let (digits, factor) = match unit {
        Some((suffix, factor)) => (text.strip_suffix(suffix)?, *factor),
        None => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_times_and_sizes() {
        assert_eq!(packets("10k"), Ok(10_000));
        assert_eq!(packets("3M"), Ok(3_000_000));
        assert_eq!(span_ns("250ms"), Ok(250_000_000));
        assert_eq!(span_ns("5m"), Ok(300_000_000_000));
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("256k"), Ok(256 << 10));
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
    }

    #[test]
    fn classes_and_nodes() {
        assert_eq!(priority("fifo:7"), Ok(SchedulingClass::Fifo { priority: 7 }));
        for wrong in ["fifo", "fifo:0", "fifo:100", "fifo:x", "idle:1", "rr"] {
            assert!(priority(wrong).is_err(), "{wrong}");
        }
        assert_eq!(node("1"), Ok(Node::Number(NodeId(1))));
        assert!(node("-1").is_err());
        assert!(cores("0-").is_err() && cores("1023").is_err());
    }
}

//! From an address to a card and what it is plugged into.

use burstline_nicsim::pcie::{Bus, Link};
use burstline_nicsim::{Mode, Settings};

use crate::{Address, AddressError, Rate};

const KEYS: &[&str] = &[
    "mode",
    "queues",
    "ring",
    "buffer",
    "fifo",
    "mtu",
    "rate",
    "pcie",
    "payload",
    "request",
    "rss",
    "segment",
    "log",
    "source",
    "to",
    "loop",
    "trace",
    "restart",
    "link_down",
];

/// What the card's end of the cable sees, when nothing is said.
const DEFAULT_SOURCE: &str = "gen:?size=64&flows=64";

/// Segments of a log: some more than what the driver and a card that sends it hold at a time.
const SEGMENTS_LEAST: usize = 8;

/// The most frames that go round and round.
const LOOP_MOST: u64 = 1 << 20;

/// A card, and its cable.
pub(super) struct Plug {
    pub(super) settings: Settings,
    /// Where its frames come from.
    pub(super) source: Address,
    /// Where frames that it sends go.
    pub(super) to: Option<Address>,
    /// Of the source, so many frames are taken, and sent round and round.
    pub(super) looped: Option<u64>,
    /// The file that steps are written to.
    pub(super) trace: Option<String>,
}

impl Plug {
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        address.check_keys(KEYS)?;
        let modes = Mode::ALL.map(|mode| (mode.name(), mode));
        let mode = address.choice("mode", &modes, Mode::Writeback)?;
        let mut settings = Settings::new(mode, bus(address)?);
        if !address.target().is_empty() {
            settings.name = format!("nicsim-{}", address.target());
        }
        settings.queues = address.parsed("queues", settings.queues)?;
        settings.ring = address.parsed("ring", settings.ring)?;
        settings.buffer = address.parsed("buffer", settings.buffer)?;
        settings.longest = address.parsed("mtu", settings.longest)?;
        settings.fifo = size(address, "fifo", settings.fifo)?;
        settings.segment = size(address, "segment", settings.segment)?;
        settings.log_bytes = size(address, "log", settings.log_bytes)?;
        let segments = settings.log_bytes / settings.segment.max(1);
        if segments < SEGMENTS_LEAST {
            let reason = format!(
                "it has {segments} segments of {} bytes, and takes {SEGMENTS_LEAST} at least",
                settings.segment
            );
            return Err(address.bad_value("log", &settings.log_bytes.to_string(), reason));
        }
        settings.line_bits_per_s = rate(address)?;
        settings.is_hashing = address.choice("rss", &[("on", true), ("off", false)], false)?;
        let restart: u64 = address.parsed("restart", 0)?;
        settings.restart_after = (restart > 0).then_some(restart);
        if let Some(value) = address.parameter("link_down") {
            let range = value
                .split_once('-')
                .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?))
                .filter(|range| !range.is_empty());
            let bad = || address.bad_value("link_down", value, "numbers of frames, as 1000-2000");
            settings.link_down = range.ok_or_else(bad)?;
        }
        let looped: u64 = address.parsed("loop", 0)?;
        if looped > LOOP_MOST {
            let reason = format!("at most {LOOP_MOST} frames go round");
            return Err(address.bad_value("loop", &looped.to_string(), reason));
        }
        Ok(Self {
            settings,
            source: plugged(address, "source")?.map_or_else(|| DEFAULT_SOURCE.parse(), Ok)?,
            to: plugged(address, "to")?,
            looped: (looped > 0).then_some(looped),
            trace: address.parameter("trace").map(ToOwned::to_owned),
        })
    }
}

/// Another address, as a value: its own `&` is written `%26`, or `,` where it has none itself.
fn plugged(address: &Address, key: &str) -> Result<Option<Address>, AddressError> {
    let Some(value) = address.parameter(key) else { return Ok(None) };
    let inner: Address = value.parse()?;
    match inner.scheme() {
        "nicsim" => Err(address.bad_value(key, value, "a card is not plugged into a card")),
        _ => Ok(Some(inner)),
    }
}

fn bus(address: &Address) -> Result<Bus, AddressError> {
    let link: Link = match address.parameter("pcie") {
        Some(value) => {
            value.parse().map_err(|reason: &str| address.bad_value("pcie", value, reason))?
        }
        None => {
            "3.0x8".parse().map_err(|reason: &str| address.bad_value("pcie", "3.0x8", reason))?
        }
    };
    let (payload, request) = (address.parsed("payload", 256)?, address.parsed("request", 512)?);
    Bus::new(link, payload, request).map_err(|error| {
        let key = if error.what.contains("payload") { "payload" } else { "request" };
        address.bad_value(key, &error.bytes.to_string(), error.to_string())
    })
}

/// Bits a second of the line: `10Gbit`; `max` for a wire on which frames take no time.
fn rate(address: &Address) -> Result<Option<f64>, AddressError> {
    let Some(value) = address.parameter("rate").filter(|value| *value != "max") else {
        return Ok(None);
    };
    match value.parse() {
        Ok(Rate::LineBits(bits)) => Ok(Some(bits)),
        _ => Err(address.bad_value("rate", value, "a line's rate is as 10Gbit, or max")),
    }
}

/// Bytes: `65536`, `64k`, `4M`.
fn size(address: &Address, key: &str, default: usize) -> Result<usize, AddressError> {
    let Some(value) = address.parameter(key) else { return Ok(default) };
    let (digits, shift) = match value.strip_suffix('k') {
        Some(digits) => (digits, 10),
        None => value.strip_suffix('M').map_or((value, 0), |digits| (digits, 20)),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| address.bad_value(key, value, "bytes, as 65536, 64k or 4M"))
}

//! Parses an address into a card and the address of its source.

use burstline_nicsim::pcie::{Bus, Link};
use burstline_nicsim::{Mode, Settings};

use crate::{Address, AddressError, Key, Rate, Values};

/// The keys of a card.
pub(crate) const KEYS: &[Key] = &[
    Key::words(
        "mode",
        "writeback|inline|contiguous",
        "The card's DMA: descriptors that it writes back, metadata in front of each packet, or \
         segments of a log",
    )
    .or("writeback"),
    Key::number("queues", 1..=16, "Receive queues").or("1"),
    Key::number("ring", 1..=32_768, "Descriptors of a ring").powers_of_two().or("512"),
    Key::size("buffer", 256..=16_384, "Bytes of a buffer").powers_of_two().or("2k"),
    Key::size("fifo", 0..=u64::MAX, "Bytes of packet memory on the card").or("512k"),
    Key::size("mtu", 60..=16_128, "Bytes of the longest frame, without FCS").or("1514"),
    Key::text("rate", "RATE|max", "The line rate in bit/s; with max, frames take no time")
        .or("max"),
    Key::text("pcie", "SLOT", "Generation and lanes of its slot").or("3.0x8"),
    Key::size("payload", 0..=u64::MAX, "Max payload of a TLP in bytes").or("256"),
    Key::size("request", 0..=u64::MAX, "Max read request in bytes").or("512"),
    Key::switch("rss", "Whether the card hashes; with several queues it always does").or("no"),
    Key::size("segment", 4096..=2 << 20, "Bytes of a segment of the log")
        .powers_of_two()
        .or("256k"),
    Key::size("log", 0..=u64::MAX, "Bytes of the log of mode=contiguous").or("4m"),
    Key::text("source", "ADDRESS", "The source of its frames; write %26 for a & in it")
        .or("gen:?size=64&flows=64"),
    Key::number(
        "loop",
        0..=1 << 20,
        "Repeats the first N frames of the source; 0 takes all frames, once",
    )
    .or("0"),
    Key::text("trace", "FILE", "Writes each step of a packet's way; - is standard error"),
    Key::number("restart", 0..=u64::MAX, "Resets the device after N frames; 0 never does").or("0"),
    Key::text("link_down", "A-B", "Takes the link down from frame A to frame B"),
];

/// Segments of a log: some more than the driver and a sending card hold at a time.
const SEGMENTS_LEAST: usize = 8;

/// A card, and its cable.
pub(super) struct Plug {
    pub(super) settings: Settings,
    /// The source of its frames.
    pub(super) source: Address,
    /// The number of frames to take from the source and repeat forever.
    pub(super) looped: Option<u64>,
    /// The file for the steps.
    pub(super) trace: Option<String>,
}

impl Plug {
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        let values = address.values(KEYS)?;
        let mut settings = Settings::new(values.word("mode", Mode::ALL)?, bus(&values)?);
        if !address.target().is_empty() {
            settings.name = format!("nicsim-{}", address.target());
        }
        settings.queues = values.integer("queues")?;
        settings.ring = values.integer("ring")?;
        settings.buffer = values.integer("buffer")?;
        settings.longest = values.integer("mtu")?;
        settings.fifo = values.integer("fifo")?;
        settings.segment = values.integer("segment")?;
        settings.log_bytes = values.integer("log")?;
        let segments = settings.log_bytes / settings.segment;
        if segments < SEGMENTS_LEAST {
            let reason = format!(
                "it has {segments} segments of {} bytes, and needs at least {SEGMENTS_LEAST}",
                settings.segment
            );
            return Err(values.wrong("log", reason));
        }
        settings.line_bits_per_s = rate(&values)?;
        settings.is_hashing = values.switch("rss")?;
        settings.restart_after = Some(values.integer("restart")?).filter(|frames| *frames > 0);
        if let Some(value) = values.text("link_down") {
            let range = value
                .split_once('-')
                .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?))
                .filter(|range| !range.is_empty());
            let bad = || values.wrong("link_down", "expected a range of frames, e.g. 1000-2000");
            settings.link_down = range.ok_or_else(bad)?;
        }
        Ok(Self {
            settings,
            // It has a default.
            source: plugged(&values, "source")?.ok_or(AddressError::Empty)?,
            looped: Some(values.integer("loop")?).filter(|frames| *frames > 0),
            trace: values.text("trace").map(ToOwned::to_owned),
        })
    }
}

/// Parses another address as a value: its `&` is written `%26`, or `,` if it contains none.
fn plugged(values: &Values<'_>, key: &str) -> Result<Option<Address>, AddressError> {
    let Some(value) = values.text(key) else { return Ok(None) };
    let inner: Address = value.parse()?;
    match inner.scheme() == values.address().scheme() {
        true => Err(values.wrong(key, "a simulated card cannot be the source of another")),
        false => Ok(Some(inner)),
    }
}

fn bus(values: &Values<'_>) -> Result<Bus, AddressError> {
    // It has a default.
    let link = values.parsed::<Link>("pcie")?.ok_or(AddressError::Empty)?;
    let (payload, request) = (values.integer("payload")?, values.integer("request")?);
    Bus::new(link, payload, request).map_err(|error| {
        let key = if error.what.contains("payload") { "payload" } else { "request" };
        values.wrong(key, error.to_string())
    })
}

/// Parses the line rate in bits per second: `10Gbit`; `max` for a wire with no transmission time.
fn rate(values: &Values<'_>) -> Result<Option<f64>, AddressError> {
    match values.text("rate") {
        None | Some("max") => Ok(None),
        Some(text) => match text.parse() {
            Ok(Rate::LineBits(bits)) => Ok(Some(bits)),
            _ => Err(values.wrong("rate", "expected a line's rate, e.g. 10Gbit, or max")),
        },
    }
}

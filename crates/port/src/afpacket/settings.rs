//! From an address to the ring's options.

use burstline_sys::afpacket::{Direction, Fanout, FanoutMode, RingOptions, Timestamps};

use crate::{Address, AddressError};

/// `ARPHRD_LOOPBACK`. Source: uapi/linux/if_arp.h.
pub(crate) const LOOPBACK: u16 = 772;

const KEYS: &[&str] =
    &["direction", "fanout", "fd", "block", "blocks", "retire_ms", "promisc", "timestamps"];

/// A block holds at least one of the largest packets: 65,549 bytes were seen from GRO.
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 128 << 10..=64 << 20;

/// As the kernel interface takes it.
const BLOCKS_MAX: usize = 65_536;

/// A second is late enough.
const RETIRE_MS: std::ops::RangeInclusive<u32> = 1..=1000;

/// Reads the parameters of `address`. What the kernel is to filter and to cut is for others to add.
pub(super) fn parse(address: &Address) -> Result<RingOptions, AddressError> {
    address.check_keys(KEYS)?;
    let default = RingOptions::default();
    let directions = [("in", Direction::In), ("out", Direction::Out), ("both", Direction::Both)];
    let clocks = [("kernel", Timestamps::Kernel), ("hardware", Timestamps::Hardware)];
    let retire_timeout_ms = address.parsed("retire_ms", default.retire_timeout_ms)?;
    if !RETIRE_MS.contains(&retire_timeout_ms) {
        let reason = "a number of milliseconds from 1 to 1000";
        return Err(address.bad_value("retire_ms", &retire_timeout_ms.to_string(), reason));
    }
    let blocks = address.parsed("blocks", default.blocks)?;
    if !(2..=BLOCKS_MAX).contains(&blocks) {
        return Err(address.bad_value("blocks", &blocks.to_string(), "from 2 to 65536"));
    }
    Ok(RingOptions {
        block_bytes: block_bytes(address, default.block_bytes)?,
        blocks,
        retire_timeout_ms,
        is_promiscuous: address.choice("promisc", &[("on", true), ("off", false)], true)?,
        direction: address.choice("direction", &directions, default.direction)?,
        timestamps: address.choice("timestamps", &clocks, default.timestamps)?,
        inherited: inherited(address)?,
        fanout: fanout(address)?,
        ..default
    })
}

/// The loopback has each packet twice, as it leaves and as it comes in: the one that leaves is left
/// out, as by libpcap, unless nothing else is asked for.
pub(super) fn count_once(options: &mut RingOptions, hardware_type: u16) {
    if hardware_type == LOOPBACK && options.direction == Direction::Both {
        options.direction = Direction::In;
    }
}

/// Gives the ring as many blocks as hold `queue_bytes`, unless the address says how many.
pub(super) fn deepen(options: &mut RingOptions, address: &Address, queue_bytes: Option<usize>) {
    if let Some(bytes) = queue_bytes
        && address.parameter("blocks").is_none()
    {
        options.blocks = bytes.div_ceil(options.block_bytes).clamp(2, BLOCKS_MAX);
    }
}

/// A power of two, with `k` or `m` behind it for 2^10 and 2^20.
fn block_bytes(address: &Address, default: usize) -> Result<usize, AddressError> {
    let Some(value) = address.parameter("block") else { return Ok(default) };
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'k') => (&value[..value.len() - 1], 10),
        Some(b'm') => (&value[..value.len() - 1], 20),
        _ => (value, 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| bytes.is_power_of_two() && BLOCK_BYTES.contains(bytes))
        .ok_or_else(|| address.bad_value("block", value, "a power of two from 128k to 64m"))
}

/// The number of a descriptor.
pub(super) fn inherited(address: &Address) -> Result<Option<i32>, AddressError> {
    let Some(value) = address.parameter("fd") else { return Ok(None) };
    let number = value.parse().ok().filter(|number| *number >= 0);
    let bad = || address.bad_value("fd", value, "the number of an open descriptor: 3");
    number.map(Some).ok_or_else(bad)
}

/// `MODE` or `MODE:GROUP`. Without a group it is this process's own.
fn fanout(address: &Address) -> Result<Option<Fanout>, AddressError> {
    let Some(value) = address.parameter("fanout") else { return Ok(None) };
    let (mode, group) = value.split_once(':').unwrap_or((value, ""));
    let modes = [
        ("hash", FanoutMode::Hash),
        ("lb", FanoutMode::RoundRobin),
        ("cpu", FanoutMode::Core),
        ("qm", FanoutMode::Queue),
    ];
    let mode = modes.into_iter().find(|(word, _)| *word == mode).map(|(_, mode)| mode);
    let group = match group {
        // The low half: two processes may meet, and then have to name their groups.
        "" => Some(std::process::id() as u16),
        group => group.parse().ok(),
    };
    match (mode, group) {
        (Some(mode), Some(group)) => Ok(Some(Fanout { mode, group })),
        _ => {
            let reason = "hash, lb, cpu or qm, and perhaps a group: hash:7, from 0 to 65535";
            Err(address.bad_value("fanout", value, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(query: &str) -> Result<RingOptions, AddressError> {
        parse(&format!("afpacket:v0?{query}").parse().unwrap())
    }

    #[test]
    fn every_key_has_its_effect() {
        let query = "direction=out&fanout=lb:7&fd=5&block=1m&blocks=4&retire_ms=60&promisc=off";
        let options = parsed(&format!("{query}&timestamps=hardware")).unwrap();
        let expected = RingOptions {
            block_bytes: 1 << 20,
            blocks: 4,
            retire_timeout_ms: 60,
            is_promiscuous: false,
            direction: Direction::Out,
            timestamps: Timestamps::Hardware,
            inherited: Some(5),
            fanout: Some(Fanout { mode: FanoutMode::RoundRobin, group: 7 }),
            ..RingOptions::default()
        };
        assert_eq!(options, expected);
        assert_eq!(parsed("").unwrap(), RingOptions::default());
    }

    #[test]
    fn a_ring_is_as_deep_as_asked_unless_its_address_says_otherwise() {
        let deepened = |query: &str, queue_bytes: Option<usize>| {
            let address = format!("afpacket:v0?{query}").parse().unwrap();
            let mut options = parse(&address).unwrap();
            deepen(&mut options, &address, queue_bytes);
            options.block_bytes * options.blocks
        };
        assert_eq!(deepened("", Some((64 << 20) + 1)), (64 << 20) + (256 << 10));
        assert_eq!(deepened("block=1m", Some(4 << 20)), 4 << 20);
        assert_eq!(deepened("", Some(1)), 512 << 10);
        assert_eq!(deepened("blocks=4", Some(64 << 20)), 1 << 20);
        assert_eq!(deepened("", None), 32 << 20);
    }

    #[test]
    fn bad_values_are_named() {
        for (query, reason) in [
            ("direction=up", "one of in, out, both"),
            ("block=100k", "a power of two"),
            ("block=64k", "a power of two"),
            ("block=", "a power of two"),
            ("blocks=1", "from 2 to 65536"),
            ("retire_ms=0", "from 1 to 1000"),
            ("fanout=fair", "hash, lb, cpu or qm"),
            ("fanout=hash:70000", "hash, lb, cpu or qm"),
            ("fd=-1", "the number of an open descriptor"),
            ("rings=1", "knows no 'rings'"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

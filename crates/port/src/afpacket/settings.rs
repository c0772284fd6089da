//! Parses an address into the ring's options.

use burstline_afpacket::{Direction, Fanout, FanoutMode, RingOptions, Timestamps};

use crate::{Address, AddressError, Key, Values};

/// `ARPHRD_LOOPBACK`. Source: uapi/linux/if_arp.h.
pub(crate) const LOOPBACK: u16 = 772;

/// The limit of the kernel interface.
const BLOCKS_MAX: usize = 65_536;

/// A packet socket that another process has opened.
pub(super) const FD: Key = Key::number(
    "fd",
    0..=i32::MAX as u64,
    "The descriptor of an inherited packet socket, for a process without rights",
);

/// The keys of a source's address.
pub(crate) const KEYS: &[Key] = &[
    Key::words("direction", "in|out|both", "Which packets to take; on loopback, both means in")
        .or("both"),
    Key::switch("promisc", "Whether to also take packets for other machines").or("yes"),
    Key::text(
        "fanout",
        "hash|lb|cpu|qm[:GROUP]",
        "Share the packets with other sources of the group: by flow, in turn, by core, or by queue",
    ),
    // Fits at least one of the largest packets: 65,549 bytes were seen from GRO.
    Key::size("block", 128 << 10..=64 << 20, "Bytes of a block of the kernel's ring")
        .powers_of_two()
        .or("256k"),
    Key::number("blocks", 2..=BLOCKS_MAX as u64, "Blocks of that ring").or("128"),
    // A second is late enough.
    Key::milliseconds(
        "retire_ms",
        1..=1000,
        "The maximum time that a packet waits in a partly filled block",
    )
    .or("10"),
    Key::words("timestamps", "kernel|hardware", "The clock that stamps packets").or("kernel"),
    FD,
];

/// Parses the parameters of `address`. The caller adds the kernel's filter and snapshot length.
pub(super) fn parse(address: &Address) -> Result<RingOptions, AddressError> {
    let values = address.values(KEYS)?;
    Ok(RingOptions {
        block_bytes: values.integer("block")?,
        blocks: values.integer("blocks")?,
        retire_timeout_ms: values.integer("retire_ms")?,
        is_promiscuous: values.switch("promisc")?,
        direction: values.word("direction", [Direction::In, Direction::Out, Direction::Both])?,
        timestamps: values.word("timestamps", [Timestamps::Kernel, Timestamps::Hardware])?,
        inherited: values.typed_integer(FD.name)?,
        fanout: fanout(&values)?,
        ..RingOptions::default()
    })
}

/// Removes duplicates on the loopback, where each packet leaves and comes in. The leaving one is
/// left out, as in libpcap, unless only that direction is requested.
pub(super) fn count_once(options: &mut RingOptions, hardware_type: u16) {
    if hardware_type == LOOPBACK && options.direction == Direction::Both {
        options.direction = Direction::In;
    }
}

/// Sizes the ring to hold `queue_bytes`, unless the address sets the number of blocks.
pub(super) fn deepen(options: &mut RingOptions, address: &Address, queue_bytes: Option<usize>) {
    if let Some(bytes) = queue_bytes
        && address.parameter("blocks").is_none()
    {
        options.blocks = bytes.div_ceil(options.block_bytes).clamp(2, BLOCKS_MAX);
    }
}

/// Parses `MODE` or `MODE:GROUP`. The default group is derived from this process.
fn fanout(values: &Values<'_>) -> Result<Option<Fanout>, AddressError> {
    let Some(value) = values.text("fanout") else { return Ok(None) };
    let (mode, group) = value.split_once(':').unwrap_or((value, ""));
    let modes = [
        ("hash", FanoutMode::Hash),
        ("lb", FanoutMode::RoundRobin),
        ("cpu", FanoutMode::Core),
        ("qm", FanoutMode::Queue),
    ];
    let mode = modes.into_iter().find(|(word, _)| *word == mode).map(|(_, mode)| mode);
    let group = match group {
        // The low half of the pid: if two processes collide, they must name their groups.
        "" => Some(std::process::id() as u16),
        group => group.parse().ok(),
    };
    match (mode, group) {
        (Some(mode), Some(group)) => Ok(Some(Fanout { mode, group })),
        _ => {
            let reason = "must be hash, lb, cpu or qm, with or without a group 0-65535: hash:7";
            Err(values.wrong("fanout", reason))
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
            ("block=", "expected an integer"),
            ("blocks=1", "must be 2-65536"),
            ("retire_ms=0", "must be 1-1000"),
            ("fanout=fair", "hash, lb, cpu or qm"),
            ("fanout=hash:70000", "hash, lb, cpu or qm"),
            ("fd=-1", "expected an integer"),
            ("rings=1", "has no key 'rings'"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

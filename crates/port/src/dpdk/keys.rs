//! The keys of `dpdk:`, which the help includes even without DPDK.

use crate::Key;
use crate::live::WAIT;

/// The keys of a device.
pub(crate) const KEYS: &[Key] = &[
    Key::number("queues", 1..=64, "Receive queues, one port each").or("1"),
    // Half of what fits into the L1 cache with headers, and enough to share a call's fixed costs.
    // The maximum is `BURST_MOST` of burstline-dpdk.
    Key::number("burst", 1..=256, "Packets requested at once").or("64"),
    Key::number("ring", 32..=32_768, "Descriptors of a queue").or("1024"),
    Key::size("mtu", 68..=65_000, "The device's MTU [default: unchanged]"),
    Key::number(
        "pool",
        64..=8_388_607,
        "Mbufs of the device's pool [default: as many as it needs]",
    ),
    Key::number("node", 0..=31, "The NUMA node of its memory [default: the device's]"),
    Key::switch("checksums", "Whether the device checks checksums").or("no"),
    Key::words(
        "rss",
        "on|symmetric|off",
        "The key of the device's hash [default: the best it supports]",
    ),
    Key::words("timestamps", "device|poll", "The clock that stamps packets").or("poll"),
    Key::switch("huge", "Whether DPDK uses huge pages [default: yes if enough are free]"),
    Key::number("memory", 16..=1_048_576, "MiB of DPDK's memory [default: DPDK's own]"),
    Key::text("eal", "ARGUMENTS", "More EAL arguments, separated by spaces"),
    WAIT,
];

//! Where a record was made, and with what.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that may be used.
    pub cores: usize,
    /// NUMA nodes.
    pub nodes: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub os: String,
    /// What sets the frequency, where something does.
    pub governor: Option<String>,
    /// Whether it is a guest.
    pub is_virtual: bool,
    /// Hardware counters: what there is, or `none: ` and why.
    pub counters: String,
    /// Caches of data, the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// What the memory runs at, as the firmware says; or `unknown: ` and why. Empty in old records.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory_speed: String,
}

/// Caches of data that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u64,
    /// KiB of each.
    pub kib: u64,
    /// Cores that share each.
    pub shared_by: usize,
    /// How many there are.
    pub count: usize,
}

/// A network interface that packets went through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whose it is: `contender`, or `generator` (the other end of the cable).
    pub host: String,
    /// Its driver's name; `unknown: ` and why.
    pub driver: String,
    /// Where it is plugged in, and what it is: `0000:01:00.0 8086:10fb`. `None`: it is made of
    /// software.
    pub device: Option<String>,
    /// The node that it is plugged into.
    pub node: Option<u32>,
    /// Queues that it receives by.
    pub receive_queues: usize,
    /// Queues that it sends by.
    pub transmit_queues: usize,
    /// Cores that received packets are steered to (RPS), as `0,2`; `off`.
    pub steered_to: String,
    /// Cores that its interrupts go to, queue by queue; of one without interrupts, where the kernel
    /// worked on received packets.
    pub served_by: String,
}

/// With what the program was compiled. Texts are empty where that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The compiler, as it says itself.
    pub rustc: String,
    /// Cargo's profile, with what it sets.
    pub profile: String,
    /// What is compiled for, and the features of the processor that may be used.
    pub target: String,
    /// `RUSTFLAGS`; `none`.
    pub rust_flags: String,
    /// The compiler of the rivals in C, as it says itself; `none: ` and why.
    pub c_compiler: String,
    /// Its flags.
    pub c_flags: String,
    /// DPDK's version, and what processor it is compiled for; `none: ` and why.
    pub dpdk: String,
}

/// Memory of a contender's processes, by the pages that it was in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pages {
    /// MiB in reserved huge pages.
    pub reserved_mib: f64,
    /// KiB of the largest of these; 0: there are none.
    pub reserved_page_kib: u64,
    /// MiB that the kernel gathered into huge pages.
    pub transparent_mib: f64,
    /// MiB in the smallest pages.
    pub small_mib: f64,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reserved_mib, reserved_page_kib, transparent_mib, small_mib } = self;
        match reserved_page_kib {
            0 => write!(f, "no reserved pages"),
            kib => write!(f, "{reserved_mib:.0} MiB in reserved pages of {kib} KiB"),
        }?;
        write!(
            f,
            ", {transparent_mib:.0} MiB in transparent ones, {small_mib:.0} MiB in small ones"
        )
    }
}

impl Build {
    /// Whether nothing is known, as in old records.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rustc, profile, target, rust_flags, c_compiler, c_flags, dpdk } = self;
        write!(f, "{rustc}, {profile}, for {target}, RUSTFLAGS {rust_flags}; ")?;
        write!(f, "rivals in C {c_compiler} {c_flags}; DPDK {dpdk}")
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, kib, shared_by, count } = self;
        write!(f, "L{level} {count} x {kib} KiB")?;
        match shared_by {
            0 | 1 => Ok(()),
            cores => write!(f, ", each of {cores} cores"),
        }
    }
}

//! The machine and the build of a record.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Number of usable cores.
    pub cores: usize,
    /// Number of NUMA nodes.
    pub nodes: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub os: String,
    /// The frequency governor, if there is one.
    pub governor: Option<String>,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// Available hardware counters, or `none: ` and the reason.
    pub counters: String,
    /// Data caches, from the nearest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// Memory speed reported by the firmware, or `unknown: ` and the reason. Empty in old records.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory_speed: String,
}

/// A group of equal data caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Level: 1, 2, 3.
    pub level: u64,
    /// Size of each in KiB.
    pub kib: u64,
    /// Cores that share each.
    pub shared_by: usize,
    /// Number of caches.
    pub count: usize,
}

/// A network interface that packets used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its owner: `contender`, or `generator` (the other end of the cable).
    pub host: String,
    /// Its driver's name, or `unknown: ` and the reason.
    pub driver: String,
    /// Slot and device id, `0000:01:00.0 8086:10fb`. `None` for an interface without hardware.
    pub device: Option<String>,
    /// NUMA node of the device.
    pub node: Option<u32>,
    /// Number of receive queues.
    pub receive_queues: usize,
    /// Number of transmit queues.
    pub transmit_queues: usize,
    /// Cores that received packets are steered to (RPS), as `0,2`, or `off`.
    pub steered_to: String,
    /// Cores of its interrupts, by queue. Without interrupts, the cores on which the kernel
    /// processed received packets.
    pub served_by: String,
}

/// How the program was compiled. Unknown texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version line of the compiler.
    pub rustc: String,
    /// Cargo's profile, with its settings.
    pub profile: String,
    /// The target, and the processor features that the code may use.
    pub target: String,
    /// `RUSTFLAGS`, or `none`.
    pub rust_flags: String,
    /// Version line of the C compiler of the rivals, or `none: ` and the reason.
    pub c_compiler: String,
    /// Its flags.
    pub c_flags: String,
    /// DPDK's version and target processor, or `none: ` and the reason.
    pub dpdk: String,
}

/// Memory of a contender's processes, by page kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pages {
    /// MiB in reserved huge pages.
    pub reserved_mib: f64,
    /// Size in KiB of the largest reserved pages, or 0.
    pub reserved_page_kib: u64,
    /// MiB in transparent huge pages.
    pub transparent_mib: f64,
    /// MiB in the smallest pages.
    pub small_mib: f64,
}

impl Pages {
    /// Returns the MiB of all kinds.
    pub(crate) fn all_mib(&self) -> f64 {
        self.reserved_mib + self.transparent_mib + self.small_mib
    }
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
    /// Returns whether nothing is known, as in old records.
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

//! What `pcap_stats` says, kept where any thread may look.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use burstline_share::Sums;

use crate::abi::Stat;

/// Counts of packets since the handle was activated.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Given to the program: what the filter let through.
    passed: AtomicU64,
    /// Lost by the interface before they came to the log, as packets and trailers say.
    lost_before: AtomicU64,
    /// Overwritten in the log before they were read.
    missed: AtomicU64,
    /// Of another link type than the handle's, which one handle cannot give.
    other_link: AtomicU64,
}

impl Counts {
    /// Takes over what the log's readers have seen.
    pub(crate) fn read(&self, sums: &Sums) {
        self.missed.store(sums.missed, Relaxed);
    }

    /// Packets went to the program.
    pub(crate) fn pass(&self, packets: u64) {
        self.passed.fetch_add(packets, Relaxed);
    }

    /// Packets were lost before a packet that came.
    pub(crate) fn lose_before(&self, packets: u64) {
        self.lost_before.fetch_add(packets, Relaxed);
    }

    /// A packet is of another link type.
    pub(crate) fn skip_other_link(&self) {
        self.other_link.fetch_add(1, Relaxed);
    }

    /// As libpcap counts: `received` includes packets that were lost because there was no room.
    /// Numbers wrap where 32 bits end, as libpcap's do.
    pub(crate) fn stat(&self) -> Stat {
        let [passed, before, missed, other] =
            [&self.passed, &self.lost_before, &self.missed, &self.other_link]
                .map(|count| count.load(Relaxed));
        Stat {
            received: (passed + missed) as c_uint,
            dropped: missed as c_uint,
            interface_dropped: (before + other) as c_uint,
        }
    }
}

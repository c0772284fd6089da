//! The counters for `pcap_stats`, which any thread may read.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use burstline_share::Sums;

use crate::abi::Stat;

/// Counts of packets since the handle was activated.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Packets that passed the filter and went to the program.
    passed: AtomicU64,
    /// Packets that the interface lost before they reached the log, as packets and trailers report.
    lost_before: AtomicU64,
    /// Packets overwritten in the log before they were read.
    missed: AtomicU64,
    /// Packets whose link type is not the handle's; one handle cannot return them.
    other_link: AtomicU64,
}

impl Counts {
    /// Copies the counts of the log's readers.
    pub(crate) fn read(&self, sums: &Sums) {
        self.missed.store(sums.missed, Relaxed);
    }

    /// Counts packets given to the program.
    pub(crate) fn pass(&self, packets: u64) {
        self.passed.fetch_add(packets, Relaxed);
    }

    /// Counts packets lost before a received packet.
    pub(crate) fn lose_before(&self, packets: u64) {
        self.lost_before.fetch_add(packets, Relaxed);
    }

    pub(crate) fn skip_other_link(&self) {
        self.other_link.fetch_add(1, Relaxed);
    }

    /// Returns the counts as libpcap defines them: `received` includes packets lost for lack of
    /// room. Numbers wrap at 32 bits, like those of libpcap.
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

//! Selects the pages of DPDK's memory.

use std::{fmt, fs};

use crate::pages::{PAGES_OF_A_START, Reservation};

/// Kernel file with the number of free reserved pages of 2 MiB, and the number that DPDK uses.
const FREE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const DPDK_PAGES: u64 = 256;

/// Address mode for devices. No device of the lab takes physical addresses, which EAL prefers for
/// root. With them a pool is contiguous only if the kernel has adjacent free pages, and net_af_xdp
/// opens no other pool.
pub(super) const VIRTUAL: &str = "--iova-mode=va";

/// Page kind of DPDK's memory. The record has the pages that a process really used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Reserved pages of 2 MiB, available when the program starts.
    Huge,
    /// Small pages, which are always available.
    Small,
}

impl Memory {
    /// Returns what is available now; call after taking a [`Reservation`].
    pub fn now() -> Self {
        let free = fs::read_to_string(FREE_PAGES).unwrap_or_default();
        let has_pages = free.trim().parse::<u64>().is_ok_and(|free| free >= DPDK_PAGES);
        if has_pages { Self::Huge } else { Self::Small }
    }

    /// Returns what a contender gets, for whose start pages are reserved.
    pub(crate) fn of_a_start() -> Self {
        let _pages = Reservation::take(PAGES_OF_A_START);
        Self::now()
    }

    /// Returns the arguments of a DPDK program: its memory, and no shared files.
    ///
    /// 512 MiB are enough for testpmd's 160,000 mbufs of 2,176 bytes. No mbuf crosses a page, so
    /// with 4 KiB pages each takes a whole one: 640 MiB.
    pub fn arguments(self) -> String {
        match self {
            Self::Huge => format!("--in-memory -m 512 {VIRTUAL}"),
            Self::Small => "--no-huge --no-shconf -m 1024".to_owned(),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Huge => "2 MiB pages",
            Self::Small => "4 KiB pages: those of 2 MiB cannot be reserved",
        })
    }
}

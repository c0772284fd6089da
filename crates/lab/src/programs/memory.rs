//! Which pages DPDK's memory is in.

use std::{fmt, fs};

use crate::pages::{PAGES_OF_A_START, Reservation};

/// Where the kernel says how many reserved pages of 2 MiB are free, and how many DPDK takes.
const FREE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const DPDK_PAGES: u64 = 256;

/// Which addresses DPDK gives to devices. No device of the lab's takes physical ones, which are
/// EAL's choice for root. With those a pool is in one piece only where the kernel has free pages
/// side by side. net_af_xdp opens no other pool.
pub(super) const VIRTUAL: &str = "--iova-mode=va";

/// Pages that DPDK's memory is in. What a process really had is in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Reserved pages of 2 MiB, which are there when the program starts.
    Huge,
    /// Small ones, which are there always.
    Small,
}

impl Memory {
    /// What is available now: a [`Reservation`] comes first.
    pub fn now() -> Self {
        let free = fs::read_to_string(FREE_PAGES).unwrap_or_default();
        let has_pages = free.trim().parse::<u64>().is_ok_and(|free| free >= DPDK_PAGES);
        if has_pages { Self::Huge } else { Self::Small }
    }

    /// What who starts as a contender does gets: pages are reserved for its start.
    pub(crate) fn of_a_start() -> Self {
        let _pages = Reservation::take(PAGES_OF_A_START);
        Self::now()
    }

    /// The arguments of a program of DPDK's: its memory, and no file in the file system.
    ///
    /// 512 MiB are enough for testpmd's 160,000 mbufs of 2,176 bytes. None of them is across two
    /// pages, so that each takes one of 4 KiB: 640 MiB.
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

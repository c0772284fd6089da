//! Huge pages for a figure, without leaving a trace.
//!
//! Root raises the kernel's number of reserved 2 MiB pages, makes all memory of the figure at
//! once, and lowers the number again, milliseconds later and before anything is measured: pages
//! in use stay as *surplus* pages, and the kernel frees them with the memory. So neither a panic
//! nor a kill during a measurement leaves pages behind. Both changes are relative, so that they
//! do not undo somebody else's.
//!
//! Where that is not allowed, transparent 2 MiB pages serve both sides; then 4 KiB pages.
//!
//! Source: Documentation/admin-guide/mm/hugetlbpage.rst, "nr_hugepages" and surplus pages.

use std::{fs, io};

use burstline_sys::memory::PageChoice;

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
const SURPLUS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
const PAGE_BYTES: usize = 2 << 20;

/// Calls `make` with the best kind of page that it succeeds with. `bytes` is what it needs of
/// reserved pages at most.
///
/// # Errors
/// The error of the last kind tried.
pub fn with_best<T, E>(
    bytes: usize,
    mut make: impl FnMut(PageChoice) -> Result<T, E>,
) -> Result<T, E> {
    let reservation = Reservation::take(bytes.div_ceil(PAGE_BYTES) as u64);
    if let Ok(made) = make(PageChoice::Size2M) {
        return Ok(made);
    }
    drop(reservation);
    make(PageChoice::Transparent)
}

/// Reserved pages above what there were, for as long as it lives.
pub struct Reservation {
    pages: u64,
}

impl Reservation {
    /// Reserves as many more, or as many of them as there is memory for. `None`: not permitted.
    pub fn take(pages: u64) -> Option<Self> {
        let before = read(RESERVED).ok()?;
        // Those count as reserved again before the kernel makes any new one.
        let surplus = read(SURPLUS).unwrap_or(0);
        write(before + surplus + pages).ok()?;
        // There may not be memory for all of them.
        Some(Self { pages: read(RESERVED).ok()?.saturating_sub(before) })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Ok(now) = read(RESERVED) {
            // Refused only if rights were lost meanwhile, and then nothing can be done.
            let _ = write(now.saturating_sub(self.pages));
        }
    }
}

fn read(number: &str) -> io::Result<u64> {
    fs::read_to_string(number)?.trim().parse().map_err(io::Error::other)
}

fn write(pages: u64) -> io::Result<()> {
    fs::write(RESERVED, pages.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_back_when_reserved_pages_fail_and_tells_the_last_error() {
        let mut tried = Vec::new();
        let made = with_best(1, |pages| {
            tried.push(pages);
            if pages == PageChoice::Size2M { Err("none") } else { Ok(7) }
        });
        assert_eq!((made, tried), (Ok(7), vec![PageChoice::Size2M, PageChoice::Transparent]));
        assert_eq!(with_best(1, Err::<(), _>), Err(PageChoice::Transparent));
    }
}

//! Reserves huge pages for a figure and releases them again, by [`Reservation`].
//!
//! If that is not permitted, both sides use transparent 2 MiB pages, then 4 KiB pages.

pub use burstline_sys::memory::Reservation;
use burstline_sys::memory::{PageChoice, PageKind};

const PAGE_BYTES: usize = 2 << 20;

/// Huge pages of 2 MiB that are reserved while a contender starts. They hold the frames of either
/// side: testpmd takes 512 MiB.
pub(crate) const PAGES_OF_A_START: u64 = 320;

/// Calls `make` with the best page kind for which it succeeds. `bytes` is the maximum that it takes
/// from reserved pages.
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

/// Returns the page kind of this name, as jobs report it.
pub(crate) fn kind_of(name: &str) -> Option<PageKind> {
    use PageKind::{Size1G, Size2M, Size4K, Transparent};
    [Size1G, Size2M, Transparent, Size4K].into_iter().find(|kind| kind.to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_the_name_that_it_has() {
        let found = ["2 MiB", "2 MiB transparent", "4 KiB", "8 KiB"].map(kind_of);
        let kinds = [PageKind::Size2M, PageKind::Transparent, PageKind::Size4K].map(Some);
        assert_eq!((&found[..3], found[3]), (&kinds[..], None));
    }

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

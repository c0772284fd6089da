//! Huge pages for a figure, without leaving a trace.
//!
//! Root raises the kernel's number of reserved 2 MiB pages, makes all memory of the figure at
//! once, and lowers the number again, milliseconds later and before anything is measured: pages
//! in use stay as *surplus* pages, and the kernel frees them with the memory. So neither a panic
//! nor a kill during a measurement leaves pages behind. Both changes are relative, so that they
//! do not undo somebody else's.
//!
//! Who is killed between the two changes leaves pages, and a note of them: the next reservation, of
//! any process, gives them back first. The note comes after the first change and goes before the
//! second one, so that a kill beside it leaves pages, and never takes somebody else's.
//!
//! Where that is not allowed, transparent 2 MiB pages serve both sides; then 4 KiB pages.
//!
//! Source: Documentation/admin-guide/mm/hugetlbpage.rst, "nr_hugepages" and surplus pages.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use burstline_sys::memory::PageChoice;

use crate::held::{self, Held};

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
const SURPLUS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
const PAGE_BYTES: usize = 2 << 20;

/// Where notes are: root's, and empty after a start of the machine, as the number is 0.
const NOTES: &str = "/run";

/// What their names begin with.
const NOTE: &str = "burstline-pages-";

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
    numbers: Numbers,
    pages: u64,
    note: Option<Held>,
}

impl Reservation {
    /// Reserves as many more, or as many of them as there is memory for. `None`: not permitted.
    pub fn take(pages: u64) -> Option<Self> {
        let numbers =
            Numbers { reserved: RESERVED.into(), surplus: SURPLUS.into(), notes: NOTES.into() };
        numbers.take(pages)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // Both fail only if rights were lost meanwhile, and then nothing can be done.
        let _lock = self.numbers.lock();
        self.note = None;
        let _ = self.numbers.lower(self.pages);
    }
}

/// Where the kernel's numbers are, and notes of what is to be given back.
struct Numbers {
    reserved: PathBuf,
    surplus: PathBuf,
    notes: PathBuf,
}

impl Numbers {
    fn take(self, pages: u64) -> Option<Reservation> {
        let _lock = self.lock().ok()?;
        self.give_back_left();
        let before = read(&self.reserved).ok()?;
        // Those count as reserved again before the kernel makes any new one.
        let surplus = read(&self.surplus).unwrap_or(0);
        write(&self.reserved, before + surplus + pages).ok()?;
        // There may not be memory for all of them.
        let pages = read(&self.reserved).ok()?.saturating_sub(before);
        let text = pages.to_string();
        let note = Held::create(&self.notes, NOTE, |path| fs::write(path, text)).ok();
        Some(Reservation { numbers: self, pages, note })
    }

    /// Has others wait who change the number, as long as it lives.
    fn lock(&self) -> io::Result<File> {
        let lock = File::open(&self.reserved)?;
        lock.lock()?;
        Ok(lock)
    }

    fn give_back_left(&self) {
        for (path, _lock) in held::left(&self.notes, NOTE) {
            let Ok(pages) = read(&path) else { continue };
            held::take_away(&path);
            let _ = self.lower(pages); // as above
        }
    }

    fn lower(&self, pages: u64) -> io::Result<()> {
        write(&self.reserved, read(&self.reserved)?.saturating_sub(pages))
    }
}

fn read(number: &Path) -> io::Result<u64> {
    fs::read_to_string(number)?.trim().parse().map_err(io::Error::other)
}

fn write(number: &Path, pages: u64) -> io::Result<()> {
    fs::write(number, pages.to_string())
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

    /// Numbers of our own, in a folder that goes with what is returned.
    fn numbers(reserved: &str) -> (Numbers, Held) {
        let place = std::env::temp_dir();
        let folder = Held::create(&place, "pages-", |path| fs::create_dir(path)).unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("reserved"), reserved).unwrap();
        fs::write(file("surplus"), "2").unwrap();
        let (reserved, surplus) = (file("reserved"), file("surplus"));
        (Numbers { reserved, surplus, notes: folder.path().to_owned() }, folder)
    }

    #[test]
    fn what_a_killed_process_reserved_is_given_back_and_nothing_else() {
        let (numbers, folder) = numbers("14");
        let reserved = folder.path().join("reserved");
        fs::write(folder.path().join("burstline-pages-0-0"), "10").unwrap();
        let first = numbers.take(3).unwrap();
        // 14 less 10, 2 surplus ones and 3.
        assert_eq!((read(&reserved).unwrap(), first.pages), (9, 5));
        let notes = || fs::read_dir(folder.path()).unwrap().count() - 2;
        assert_eq!(notes(), 1);
        // It lives, so its note counts for nothing.
        let again = Numbers {
            reserved: reserved.clone(),
            surplus: folder.path().join("none"),
            notes: folder.path().to_owned(),
        };
        let second = again.take(1).unwrap();
        assert_eq!((read(&reserved).unwrap(), second.pages, notes()), (10, 1, 2));
        drop(first);
        drop(second);
        assert_eq!((read(&reserved).unwrap(), notes()), (4, 0));
    }
}

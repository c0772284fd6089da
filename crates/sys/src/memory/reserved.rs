//! Temporary reservations of 2 MiB pages that leave no trace.
//!
//! Root raises the kernel's number of reserved pages, makes all memory at once, and lowers the
//! number again. Pages in use stay as *surplus* pages, and the kernel frees them with the memory.
//! So no later panic or kill leaves pages behind. Both changes are relative, so they do not undo
//! those of other processes.
//!
//! ```text
//!  A       take 4 .... uses 4 ..... drop: B lives
//!  B             take 4 ........................... uses 4 ... drop: the last one lowers by 8
//!  number  +4    +4                                            -8
//! ```
//!
//! The kernel lowers its number by free pages first, even if a process is about to use them. So the
//! machine's reservations are counted, and only the last one lowers the number, by the sum of all
//! raises.
//!
//! Invariants:
//! - G1: while a reservation lives, no other one lowers the number. Each holds a shared lock on one
//!   of the kernel's files; the holder of the exclusive lock is alone.
//! - G2: the number is raised by at least the value in [`COUNT`]. [`COUNT`] is written after the
//!   number is raised, and removed before it is lowered, all under a lock. A kill at any moment may
//!   leave pages, which the next reservation of any process gives back. It never takes pages of
//!   other programs.
//! - G3: the lock for changes is taken first. Only [`Reservation::take`] waits for the other lock
//!   while it holds this one. Only a reservation that is alone could keep it waiting, and that one
//!   holds both.
//!
//! Source: Documentation/admin-guide/mm/hugetlbpage.rst, "nr_hugepages" and surplus pages.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The number that we change. It does not include surplus pages.
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// Also used for the locks: all namespaces of the machine see the same files.
const KERNEL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
const SURPLUS: &str = "surplus_hugepages";

/// How much the number is raised. Owned by root, and removed at boot, when the number is 0 too.
const COUNT: &str = "/run/burstline-pages";

/// Additional reserved pages, until it is dropped.
pub struct Reservation {
    numbers: Numbers,
    pages: u64,
    /// Locked, shared, while this value lives: G1.
    alive: File,
    /// Set if this is the only reservation: no other process changes the number meanwhile.
    alone: Option<File>,
}

impl Reservation {
    /// Reserves `pages` more pages, or as many as there is memory for. `None` if the kernel has no
    /// such pages, or this process may not reserve any.
    pub fn take(pages: u64) -> Option<Self> {
        Numbers::of_the_machine().take(pages)
    }

    /// Like [`take`](Self::take), while no other reservation lives on this machine: waits for
    /// existing ones, and makes later ones wait.
    pub fn take_alone(pages: u64) -> Option<Self> {
        Numbers::of_the_machine().take_alone(pages)
    }

    /// Pages that were reserved.
    pub fn pages(&self) -> u64 {
        self.pages
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // These fail only if rights were lost meanwhile; nothing can be done then.
        let _changing = self.alone.take().map_or_else(|| self.numbers.lock(), Ok);
        let _ = self.alive.unlock();
        if self.alive.try_lock().is_ok() {
            self.numbers.give_back();
        }
        let _ = self.alive.unlock();
    }
}

/// The files with the numbers.
#[derive(Clone)]
struct Numbers {
    reserved: PathBuf,
    kernel: PathBuf,
    count: PathBuf,
}

impl Numbers {
    fn of_the_machine() -> Self {
        Self { reserved: RESERVED.into(), kernel: KERNEL.into(), count: COUNT.into() }
    }

    fn take(self, pages: u64) -> Option<Reservation> {
        let _changing = self.lock().ok()?;
        let alive = self.alive().ok()?;
        if alive.try_lock().is_ok() {
            self.give_back();
        }
        alive.lock_shared().ok()?;
        let pages = self.raise(pages)?;
        Some(Reservation { numbers: self, pages, alive, alone: None })
    }

    fn take_alone(self, pages: u64) -> Option<Reservation> {
        let alive = self.alive().ok()?;
        let changing = loop {
            let changing = self.lock().ok()?;
            if alive.try_lock().is_ok() {
                break changing;
            }
            drop(changing);
            // Wait until the live reservations are gone.
            alive.lock().ok()?;
            alive.unlock().ok()?;
        };
        self.give_back();
        let pages = self.raise(pages)?;
        Some(Reservation { numbers: self, pages, alive, alone: Some(changing) })
    }

    /// Takes the lock for changes: other processes wait while the returned file lives.
    fn lock(&self) -> io::Result<File> {
        let lock = File::open(&self.kernel)?;
        lock.lock()?;
        Ok(lock)
    }

    /// Opens the file that a reservation locks while it lives.
    fn alive(&self) -> io::Result<File> {
        File::open(self.kernel.join(SURPLUS))
    }

    /// Raises the number and returns how many additional pages are free.
    fn raise(&self, pages: u64) -> Option<u64> {
        let before = read(&self.reserved).ok()?;
        // Surplus pages count as reserved again before the kernel makes any new one.
        let surplus = read(&self.kernel.join(SURPLUS)).ok()?;
        write(&self.reserved, before + surplus + pages).ok()?;
        // The memory may not suffice for all of them.
        let raised = read(&self.reserved).ok()?.saturating_sub(before);
        if write(&self.count, self.count() + raised).is_err() {
            let _ = self.lower(raised); // as in drop
            return None;
        }
        Some(raised.saturating_sub(surplus))
    }

    /// Lowers the number by the sum of all reservations' raises.
    fn give_back(&self) {
        let pages = self.count();
        if fs::remove_file(&self.count).is_ok() {
            let _ = self.lower(pages); // as in drop
        }
    }

    fn count(&self) -> u64 {
        read(&self.count).unwrap_or(0)
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
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use burstline_skip::skip;

    use super::*;
    use crate::memory::{PageChoice, Region, RegionRequest};

    /// A folder that is removed on drop.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Makes our own numbers: 14 reserved and 2 surplus pages.
    fn new_numbers() -> (Numbers, Folder) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed); // only to be unique
        let name = format!("burstline-reserved-{}-{number}", std::process::id());
        let kernel = std::env::temp_dir().join(name);
        fs::create_dir(&kernel).unwrap();
        let file = |name: &str| kernel.join(name);
        fs::write(file("reserved"), "14").unwrap();
        fs::write(file(SURPLUS), "2").unwrap();
        let numbers =
            Numbers { reserved: file("reserved"), kernel: kernel.clone(), count: file("count") };
        (numbers, Folder(kernel))
    }

    fn seen(numbers: &Numbers) -> (u64, Option<u64>) {
        (read(&numbers.reserved).unwrap(), read(&numbers.count).ok())
    }

    #[test]
    fn the_last_one_gives_back_what_all_have_reserved() {
        let (numbers, _folder) = new_numbers();
        let first = numbers.clone().take(3).unwrap();
        assert_eq!((first.pages(), seen(&numbers)), (3, (14 + 2 + 3, Some(5))));
        fs::write(numbers.kernel.join(SURPLUS), "0").unwrap();
        let second = numbers.clone().take(1).unwrap();
        drop(first);
        assert_eq!(seen(&numbers), (20, Some(6)), "a page of the second may be among those");
        let third = numbers.clone().take(1).unwrap();
        drop(second);
        // A concurrent change by another program.
        write(&numbers.reserved, 121).unwrap();
        drop(third);
        assert_eq!(seen(&numbers), (114, None));
    }

    #[test]
    fn what_a_killed_process_reserved_is_given_back_and_nothing_else() {
        let (numbers, _folder) = new_numbers();
        let kill = |reservation: Reservation| {
            reservation.alive.unlock().unwrap();
            std::mem::forget(reservation);
        };
        fs::write(numbers.kernel.join(SURPLUS), "0").unwrap();
        let first = numbers.clone().take(3).unwrap();
        kill(numbers.clone().take(4).unwrap());
        drop(first);
        assert_eq!(seen(&numbers), (14, None));
        kill(numbers.clone().take(4).unwrap());
        assert_eq!(seen(&numbers), (18, Some(4)));
        drop(numbers.clone().take(0));
        assert_eq!(seen(&numbers), (14, None));
        // Killed after raising the number, before recording it.
        fs::write(&numbers.count, "").unwrap();
        drop(numbers.clone().take_alone(1));
        assert_eq!(seen(&numbers), (14, None));
    }

    #[test]
    fn who_is_alone_waits_for_others_and_others_for_it() {
        const TURNS: u64 = 200;
        let (numbers, _folder) = new_numbers();
        fs::write(numbers.kernel.join(SURPLUS), "0").unwrap();
        std::thread::scope(|scope| {
            let numbers = &numbers;
            for _ in 0..2 {
                scope.spawn(|| (0..TURNS).for_each(|_| drop(numbers.clone().take(1).unwrap())));
                scope.spawn(|| {
                    for _ in 0..TURNS {
                        let reservation = numbers.clone().take_alone(5).unwrap();
                        assert_eq!(seen(numbers), (14 + 5, Some(5)));
                        drop(reservation);
                    }
                });
            }
        });
        assert_eq!(seen(&numbers), (14, None));
    }

    #[test]
    fn who_gives_pages_back_that_are_in_use_leaves_those_of_another() {
        let region = || {
            let (name, pages) = ("reserved".to_owned(), PageChoice::Size2M);
            Region::create(&RegionRequest { name, bytes: 4 << 20, pages, node: None })
        };
        let Some(first) = Reservation::take(2) else {
            return skip("no 2 MiB pages can be reserved: it takes root");
        };
        let Ok(_used) = region() else { return skip("no 2 MiB pages are available") };
        let _second = Reservation::take(2);
        drop(first);
        assert!(region().is_ok());
    }
}

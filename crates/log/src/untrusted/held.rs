//! Copies that are kept beyond the next burst.
//!
//! A copy takes the memory of a segment. It returns to its reader when it is dropped, so a reader
//! that holds up to its window allocates each copy only once.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Copied, UntrustedReader};
use crate::burst::Burst;

/// A reader's copies besides its current one.
#[derive(Default)]
pub(super) struct Pool(Mutex<Copies>);

#[derive(Default)]
struct Copies {
    spare: Vec<Copied>,
    held: usize,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Copies> {
        // A panic elsewhere leaves it consistent: each change is one push or pop, and a number.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UntrustedReader {
    /// Like [`next_burst`](Self::next_burst), but the copy lives until it is dropped, on any
    /// thread. At most `window` copies can be held at the same time; `None` beyond that.
    ///
    /// Cost: that of `next_burst`, two locks, and the memory of a segment for each copy that is
    /// held for the first time.
    pub fn hold_burst(&mut self) -> Option<HeldCopy> {
        if self.is_window_full() {
            return None;
        }
        self.next_burst()?;
        let mut copies = self.pool.lock();
        let spare = copies.spare.pop();
        copies.held += 1;
        drop(copies);
        let next = spare.unwrap_or_else(|| Copied::new(self.reader.memory.control.geometry()));
        let copy = mem::replace(&mut self.copy, next);
        Some(HeldCopy { copy, pool: Arc::clone(&self.pool) })
    }

    /// Returns whether the maximum number of copies is held.
    pub fn is_window_full(&self) -> bool {
        self.pool.lock().held >= self.reader.window()
    }
}

/// A burst's copy that is kept beyond the next burst.
pub struct HeldCopy {
    copy: Copied,
    pool: Arc<Pool>,
}

impl HeldCopy {
    /// Returns the packets.
    pub fn burst(&self) -> Burst<'_> {
        self.copy.burst()
    }
}

impl Drop for HeldCopy {
    fn drop(&mut self) {
        let mut copies = self.pool.lock();
        copies.held -= 1;
        copies.spare.push(mem::replace(&mut self.copy, Copied::none(0, 0)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::UntrustedReader;
    use crate::{Appended, Log, LogConfig, Meta, ReaderConfig, Writer};

    fn append(writer: &mut Writer, number: u8) {
        let meta = Meta::new(number.into(), 100, 0);
        assert_eq!(writer.append(&[number; 100], &meta), Appended::Whole);
        writer.publish();
    }

    #[test]
    fn copies_are_held_up_to_the_window_and_outlive_the_reader() {
        let (log, mut writer) = Log::create(LogConfig::small(8)).unwrap();
        let window = ReaderConfig { window: 2, ..ReaderConfig::default() };
        let mut reader = UntrustedReader::from(log.attach(window).unwrap());
        append(&mut writer, 1);
        let one = reader.hold_burst().unwrap();
        append(&mut writer, 2);
        let two = reader.hold_burst().unwrap();
        append(&mut writer, 3);
        assert!(reader.is_window_full() && reader.hold_burst().is_none());
        assert_eq!(one.burst().packet(0).bytes(), [1; 100]);
        drop(one);
        let three = reader.hold_burst().unwrap();
        assert_eq!(reader.statistics().delivered, 3);
        drop(reader);
        // The writer reuses every segment several times over.
        (0..1000).for_each(|_| append(&mut writer, 9));
        for (number, held) in [(2, &two), (3, &three)] {
            let burst = held.burst();
            assert_eq!((burst.len(), burst.packet(0).bytes()), (1, [number; 100].as_slice()));
        }
    }
}

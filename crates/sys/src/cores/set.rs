//! A set of cores, as long as the machine needs it.
//!
//! A `cpu_set_t` has 1,024 bits. A kernel with more cores refuses to answer into so few, so a set
//! grows until the kernel takes it.
//!
//! Source: sched_setaffinity(2), "Handling systems with large CPU affinity masks".

use std::io;

use libc::c_ulong;

use super::affinity::{CORES_MAX, CoreId};

/// Bits of a word of the kernel's masks.
const WORD_BITS: u32 = c_ulong::BITS;

/// Words of the first question, and of the last one.
const WORDS_LEAST: usize = (1024 / WORD_BITS) as usize;
const WORDS_MOST: usize = (CORES_MAX / WORD_BITS) as usize;

/// A mask with a bit for each core, in the kernel's layout.
#[derive(Clone, Debug, Default)]
pub(super) struct CoreSet(Vec<c_ulong>);

impl CoreSet {
    /// Adds a core, which is below [`CORES_MAX`]. Returns whether it is new.
    pub(super) fn insert(&mut self, core: CoreId) -> bool {
        let word = (core.0 / WORD_BITS) as usize;
        let bit: c_ulong = 1 << (core.0 % WORD_BITS);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Returns its cores, ascending.
    pub(super) fn cores(&self) -> Vec<CoreId> {
        let numbers = 0..self.0.len() as u32 * WORD_BITS;
        numbers.filter(|&number| self.has(number)).map(CoreId).collect()
    }

    fn has(&self, number: u32) -> bool {
        self.0[(number / WORD_BITS) as usize] >> (number % WORD_BITS) & 1 == 1
    }

    /// Returns the cores that the calling thread may run on.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub(super) fn of_this_thread() -> io::Result<Self> {
        Self::read_by(|mask| {
            let (bytes, at) = (size_of_val(mask), mask.as_mut_ptr());
            // SAFETY: `at` points to this many bytes of ours, which the call fills with integers.
            match unsafe { libc::sched_getaffinity(0, bytes, at.cast()) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    /// Asks with ever longer masks until one is long enough.
    fn read_by(mut ask: impl FnMut(&mut [c_ulong]) -> io::Result<()>) -> io::Result<Self> {
        let mut words = WORDS_LEAST;
        loop {
            let mut mask: Vec<c_ulong> = vec![0; words];
            match ask(&mut mask) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words < WORDS_MOST => {
                    words *= 2;
                }
                outcome => return outcome.map(|()| Self(mask)),
            }
        }
    }

    /// Lets the calling thread run on these cores, as far as they exist.
    ///
    /// # Errors
    /// Errors from the kernel: `EINVAL` if none of them exists or is allowed.
    pub(super) fn allow(&self) -> io::Result<()> {
        let (bytes, at) = (size_of_val(&self.0[..]), self.0.as_ptr());
        // SAFETY: `at` points to this many bytes, which the call only reads. A shorter mask than
        // the kernel's is complete: the cores beyond it are not in the set.
        match unsafe { libc::sched_setaffinity(0, bytes, at.cast()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers like a kernel whose masks have a bit for this many cores: all may be used.
    fn kernel(cores: u32) -> impl FnMut(&mut [c_ulong]) -> io::Result<()> {
        move |mask| {
            if mask.len() as u32 * WORD_BITS < cores {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            let mut all = CoreSet::default();
            (0..cores).for_each(|core| assert!(all.insert(CoreId(core))));
            mask[..all.0.len()].copy_from_slice(&all.0);
            Ok(())
        }
    }

    #[test]
    fn a_set_has_what_was_put_in_on_any_machine() {
        let numbers = [0, 63, 64, 1023, 1024, CORES_MAX - 1];
        let mut set = CoreSet::default();
        assert!(set.cores().is_empty());
        for number in numbers {
            assert!(set.insert(CoreId(number)), "{number}");
            assert!(!set.insert(CoreId(number)), "{number} again");
        }
        assert_eq!(set.cores(), numbers.map(CoreId));
    }

    #[test]
    fn a_mask_grows_until_the_kernel_takes_it() {
        for cores in [1, 1024, 1025, 5000, CORES_MAX] {
            let set = CoreSet::read_by(kernel(cores)).unwrap();
            assert!(set.cores().into_iter().eq((0..cores).map(CoreId)), "{cores}");
        }
        let error = CoreSet::read_by(kernel(CORES_MAX + 1)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}

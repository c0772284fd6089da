//! A writer's own memory, and random words to write over it. The tests of other crates use it, too.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::Log;

/// Returns this process's writable mapping of the memfd `name`, as a mad writer has it. `_log` is
/// the only log of the process with memory of this name.
pub(crate) fn own_memory<'log>(_log: &'log Log, name: &str) -> &'log [AtomicU64] {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let wanted = format!("/memfd:{name} (deleted)");
    let line = maps.lines().find(|line| line.ends_with(&wanted) && line.contains(" rw-s "));
    let range = line.unwrap_or_else(|| panic!("{name} in {maps}")).split(' ').next().unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let (start, end) = range.split_once('-').map(|(a, b)| (number(a), number(b))).unwrap();
    let first = std::ptr::with_exposed_provenance::<AtomicU64>(start);
    // SAFETY: the kernel lists it as mapped, and it stays mapped while the log is borrowed.
    unsafe { std::slice::from_raw_parts(first, (end - start) / size_of::<AtomicU64>()) }
}

/// A random number generator that is good enough here. Source: Marsaglia, Xorshift RNGs, 2003.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Overwrites a word with a random value, with another word's value, with a small number, or
    /// with its own value after one bit is flipped.
    pub(crate) fn scribble(&mut self, words: &[AtomicU64]) {
        let (value, at) = (self.next(), self.next() as usize % words.len());
        let word = match value % 4 {
            0 => value,
            1 => words[self.next() as usize % words.len()].load(Relaxed),
            2 => value % 64,
            _ => words[at].load(Relaxed) ^ 1 << (value >> 58),
        };
        words[at].store(word, Relaxed);
    }
}

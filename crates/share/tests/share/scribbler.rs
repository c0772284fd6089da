//! Simulates a publisher with a bad pointer that damages its own log. The tests of `burstline-pcap`
//! use it, too.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use burstline_log::Log;

/// Pause between two rounds of scribbling, so that readers sometimes find intact packets.
const PAUSE: Duration = Duration::from_micros(50);

/// Returns this process's writable mapping of a log's memfd. `log` is the only one of the process
/// whose configuration has this name, and `part` is the end of the memfd's name.
pub(crate) fn own_memory<'log>(_log: &'log Log, name: &str, part: &str) -> &'log [AtomicU64] {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let wanted = format!("/memfd:burstline-{name}{part} (deleted)");
    let line = maps.lines().find(|line| line.ends_with(&wanted) && line.contains(" rw-s "));
    let range = line.unwrap_or_else(|| panic!("{wanted} in {maps}")).split(' ').next().unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let (start, end) = range.split_once('-').map(|(a, b)| (number(a), number(b))).unwrap();
    let first = std::ptr::with_exposed_provenance::<AtomicU64>(start);
    // SAFETY: the kernel lists it as mapped, and it stays mapped while the log is borrowed.
    unsafe { std::slice::from_raw_parts(first, (end - start) / size_of::<AtomicU64>()) }
}

/// A random number generator that is good enough here. Source: Marsaglia, Xorshift RNGs, 2003.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Overwrites some words with random values, or with plausible ones in the wrong place.
    fn scribble(&mut self, words: &[AtomicU64]) {
        let (value, at) = (self.next(), self.next() as usize % words.len());
        let old = words[at].load(Relaxed);
        let word = match value % 3 {
            0 => value,
            1 => words[self.next() as usize % words.len()].load(Relaxed),
            _ => old ^ 1 << (value >> 58),
        };
        words[at].store(word, Relaxed);
    }
}

/// Scribbles over all of the log until `is_over`. Control memory is restored each time before
/// `write` writes some packets.
pub(crate) fn scribble(log: &Log, name: &str, is_over: &AtomicBool, mut write: impl FnMut()) {
    let [packets, control] = ["", "-control"].map(|part| own_memory(log, name, part));
    let sound: Vec<u64> = control.iter().map(|word| word.load(Relaxed)).collect();
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    while !is_over.load(Relaxed) {
        for _ in 0..64 {
            noise.scribble(packets);
            noise.scribble(control);
        }
        thread::sleep(PAUSE);
        control.iter().zip(&sound).for_each(|(word, &value)| word.store(value, Relaxed));
        write();
        thread::sleep(PAUSE);
    }
}

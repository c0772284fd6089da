//! A publisher that scribbles over its own log.

use std::fs;
use std::io::{self, BufRead};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use burstline_log::Writer;
use burstline_share::PublishConfig;

use super::arguments;
use crate::common::{append, publish};
use crate::mad::PACKETS;

/// Between two heaps of nonsense: readers find something whole now and then.
const PAUSE: Duration = Duration::from_micros(50);

/// The words of this process's writable mapping of the memfd `name`: what a program with a bad
/// pointer has.
fn own_memory(name: &str) -> &'static [AtomicU64] {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let wanted = format!("/memfd:{name} (deleted)");
    let line = maps.lines().find(|line| line.ends_with(&wanted) && line.contains(" rw-s "));
    let range = line.unwrap_or_else(|| panic!("{name} in {maps}")).split(' ').next().unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let (start, end) = range.split_once('-').map(|(a, b)| (number(a), number(b))).unwrap();
    let first = std::ptr::with_exposed_provenance::<AtomicU64>(start);
    // SAFETY: the kernel says that it is mapped, and this process keeps the log until it ends.
    unsafe { std::slice::from_raw_parts(first, (end - start) / size_of::<AtomicU64>()) }
}

/// A stream of numbers that is good enough for scribbling. Source: Marsaglia, Xorshift RNGs, 2003.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Nonsense, or sense in the wrong place, in some words.
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

/// `NAME descs`: some descs point elsewhere, before anybody reads. `NAME everything`: all of the
/// log is scribbled over while it is read, and mended, again and again.
#[test]
#[ignore = "another process of the tests"]
fn mad_publisher() {
    let arguments = arguments();
    let (_publisher, _log, mut writer) = publish(&PublishConfig::new(&arguments[0]));
    append(&mut writer, 0, PACKETS);
    let packets = own_memory("burstline-share");
    if arguments[1] == "descs" {
        // A desc's first word has the offset; no packet begins where these say. In every other
        // segment: a reader finds two that were filled one after the other.
        let words = crate::common::SEGMENT_BYTES / size_of::<AtomicU64>();
        for segment in packets.chunks_exact(words).step_by(2) {
            segment[words - 2 * 40].fetch_or(0xffff_fff0, Relaxed);
        }
        println!("say written");
        io::stdin().lock().read_line(&mut String::new()).unwrap();
        return;
    }
    let control = own_memory("burstline-share-control");
    let sound: Vec<u64> = control.iter().map(|word| word.load(Relaxed)).collect();
    println!("say written");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| scribble(&mut writer, packets, control, &sound, &is_over));
        io::stdin().lock().read_line(&mut String::new()).unwrap();
        is_over.store(true, Relaxed);
    });
}

fn scribble(
    writer: &mut Writer,
    packets: &[AtomicU64],
    control: &[AtomicU64],
    sound: &[u64],
    is_over: &AtomicBool,
) {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    while !is_over.load(Relaxed) {
        for _ in 0..64 {
            noise.scribble(packets);
            noise.scribble(control);
        }
        thread::sleep(PAUSE);
        control.iter().zip(sound).for_each(|(word, &value)| word.store(value, Relaxed));
        append(writer, 0, 32);
        thread::sleep(PAUSE);
    }
}

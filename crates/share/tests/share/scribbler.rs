//! Simulates a publisher with a bad pointer that damages its own log. The tests of `burstline-pcap`
//! use it, too.

#[path = "../../../log/tests/common/scribble.rs"]
pub(crate) mod memory;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use burstline_log::Log;

use memory::{Noise, own_memory};

/// Pause between two rounds of scribbling, so that readers sometimes find intact packets.
const PAUSE: Duration = Duration::from_micros(50);

/// Scribbles over all of the log until `is_over`. Control memory is restored each time before
/// `write` writes some packets.
pub(crate) fn scribble(log: &Log, name: &str, is_over: &AtomicBool, mut write: impl FnMut()) {
    let [packets, control] =
        ["", "-control"].map(|part| own_memory(log, &format!("burstline-{name}{part}")));
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

//! The lean scattered design: a fixed set of buffers that circulate between two threads.
//!
//! ```text
//!   producer --- ring of filled buffers ---> consumer
//!            <-- ring of free buffers ------
//! ```
//!
//! No shared pool, no cache, no compare and swap: the best that scattered buffers can do. One cache
//! line of metadata precedes each packet.

use std::hint::spin_loop;

use super::scattered::{Header, fill, read_burst};
use super::spsc::Spsc;
use super::{Address, BURST, Pull, Push, Run};
use crate::arena::Arena;
use crate::threads::{Cores, run_together};
use crate::traffic::Traffic;
use burstline_sys::prefetch;

const HEADER_BYTES: usize = size_of::<Header>();
/// Distance between two buffers: 33 cache lines, an odd number to spread over cache sets.
pub const STRIDE_BYTES: usize = HEADER_BYTES + 2048;

/// The buffers and both rings.
pub struct Lean<'a> {
    forth: Spsc<'a, Address>,
    back: Spsc<'a, Address>,
}

impl<'a> Lean<'a> {
    /// Creates `count` buffers, a multiple of [`BURST`]; all are free.
    pub fn new(arena: &'a Arena, count: usize) -> Self {
        assert!(count.is_multiple_of(BURST) && count > 0, "{count} buffers");
        let capacity = count.next_power_of_two();
        let (forth, mut back) = (Spsc::new(arena, capacity), Spsc::new(arena, capacity));
        let buffers = arena.piece(count * STRIDE_BYTES);
        let (mut give, _) = back.split();
        for index in 0..count {
            // SAFETY: inside the piece.
            let buffer = unsafe { buffers.add(index * STRIDE_BYTES) };
            assert!(give.push(&[Address(buffer.as_ptr())]), "the ring has room for all");
        }
        Self { forth, back }
    }

    /// Hands over `packets` packets, a multiple of [`BURST`].
    pub fn hand_off(&mut self, cores: Cores, traffic: &Traffic, packets: u64) -> Run {
        let (mut push, mut pull) = self.forth.split();
        let (mut give, mut take) = self.back.split();
        let done = run_together(
            cores,
            move || {
                let mut burst = [Address::NOWHERE; BURST];
                for first in (0..packets as u32).step_by(BURST) {
                    while !take.pull(&mut burst) {
                        spin_loop();
                    }
                    for buffer in burst {
                        prefetch::to_write(buffer.0);
                        prefetch::to_write(buffer.0.wrapping_add(HEADER_BYTES));
                    }
                    for (index, &buffer) in burst.iter().enumerate() {
                        // SAFETY: pulled from the ring of free buffers; a packet fits in it.
                        unsafe { fill(buffer, HEADER_BYTES, traffic, first + index as u32) };
                    }
                    while !push.push(&burst) {
                        spin_loop();
                    }
                }
            },
            move || {
                let mut sum = 0_u64;
                let mut burst = [Address::NOWHERE; BURST];
                for _ in 0..packets / BURST as u64 {
                    while !pull.pull(&mut burst) {
                        spin_loop();
                    }
                    sum = sum.wrapping_add(read_burst(&burst, HEADER_BYTES));
                    while !give.push(&burst) {
                        spin_loop();
                    }
                }
                sum
            },
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }
}

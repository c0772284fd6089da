//! The scattered balancer as the NUMA document describes it: one core spreads pointers to workers.
//!
//! ```text
//!   balancer: take 32 objects -> fill -> hash -> pointer to its worker's 32 -> push when full
//!   workers:  pull 32 pointers each in turn -> prefetch ahead, read -> give 32 objects back
//! ```
//!
//! Objects are those of [`super::scattered`]. A worker's pointers wait until there are 32. That
//! delays the worker and is cheapest for both cores; the rest is pushed at the end. The workers
//! take turns on one core, because several threads would only compete for it.

use std::hint::spin_loop;

use super::pool::HEADER_BYTES;
use super::pool::Pool;
use super::scattered::{self, Caches};
use super::spsc::Spsc;
use super::{Address, BURST, Pull, Push, Run};
use crate::threads::{Cores, run_together};
use crate::traffic::Traffic;

/// Maps a packet's number to its hash and its worker.
pub type Flows = dyn Fn(u32) -> (u32, usize) + Sync;

/// The packets to spread.
#[derive(Clone, Copy)]
pub struct SpreadWork<'a> {
    /// Their bytes.
    pub traffic: &'a Traffic,
    /// Their workers.
    pub flows: &'a Flows,
}

/// Pointers collected for one worker.
struct Pending {
    burst: [Address; BURST],
    count: usize,
}

/// Spreads `packets` packets, a multiple of [`BURST`], over `WORKERS` rings.
pub fn balance<const WORKERS: usize>(
    cores: Cores,
    SpreadWork { traffic, flows }: SpreadWork<'_>,
    packets: u64,
    pool: &Pool<'_>,
    caches: &mut Caches,
    rings: &mut [Spsc<'_, Address>],
) -> Run {
    let (mut pushes, mut pulls): (Vec<_>, Vec<_>) = rings.iter_mut().map(Spsc::split).unzip();
    let (giving, taking) = caches.both();
    let done = run_together(
        cores,
        move || {
            let mut pending: [Pending; WORKERS] = std::array::from_fn(|_| Pending::new());
            let mut burst = [Address::NOWHERE; BURST];
            for first in (0..packets as u32).step_by(BURST) {
                while !pool.take(giving, &mut burst) {
                    spin_loop();
                }
                for (index, &object) in burst.iter().enumerate() {
                    let counter = first + index as u32;
                    let (hash, worker) = flows(counter);
                    // SAFETY: just taken from the pool; a packet fits in its data.
                    unsafe { scattered::receive(object, traffic, counter, hash) };
                    let own = &mut pending[worker];
                    own.burst[own.count] = object;
                    own.count += 1;
                    if own.count == BURST {
                        own.push(&mut pushes[worker]);
                    }
                }
            }
            for (own, push) in pending.iter_mut().zip(&mut pushes) {
                own.push(push);
            }
        },
        move || {
            let (mut sum, mut seen) = (0_u64, 0_u64);
            let mut burst = [Address::NOWHERE; BURST];
            while seen < packets {
                let before = seen;
                for pull in &mut pulls {
                    if pull.pull(&mut burst) {
                        sum = sum.wrapping_add(scattered::read_burst(&burst, HEADER_BYTES));
                        // SAFETY: pulled from the ring of filled objects.
                        burst.iter().for_each(|&object| unsafe { scattered::unchain(object) });
                        pool.give(taking, &burst);
                        seen += BURST as u64;
                    } else if packets - seen < (WORKERS * BURST) as u64
                        && pull.pull(&mut burst[..1])
                    {
                        // SAFETY: pulled from the ring of filled objects.
                        sum = sum.wrapping_add(unsafe { scattered::read(burst[0]) });
                        pool.give(taking, &burst[..1]);
                        seen += 1;
                    }
                }
                if seen == before {
                    spin_loop();
                }
            }
            sum
        },
    );
    Run { seconds: done.seconds, sum: done.consumer }
}

impl Pending {
    fn new() -> Self {
        Self { burst: [Address::NOWHERE; BURST], count: 0 }
    }

    #[inline]
    fn push(&mut self, ring: &mut impl Push<Address>) {
        while !ring.push(&self.burst[..self.count]) {
            spin_loop();
        }
        self.count = 0;
    }
}

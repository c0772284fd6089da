//! A matcher behind a switch: one core forwards packets, another one searches for contents in them.
//!
//! ```text
//!   switch core: copies each packet -> log           | -> sensor core: a call for a burst
//!                copies each packet -> mbuf, pointer | -> sensor core: a call for each packet
//! ```
//!
//! The switch core copies, like a switch that gives one packet to a port and to a sensor. The
//! sensor passes all packets; the number of scanned packets counts as returned.

use std::hint::spin_loop;

use burstline_log::{Appended, Meta};

use super::contents::{Contiguous, Found, SCANNED, scan};
use super::hyperscan::{Database, Memory};
use super::pool::{HEADER_BYTES, Pool};
use super::scattered::{AHEAD, Caches, Header, reset, unchain};
use super::spsc::Spsc;
use super::staged::cpu_ns;
use super::{Address, BURST, Pull, Push};
use crate::arena::Arena;
use crate::threads::{Cores, run_together};
use burstline_sys::prefetch;

/// Objects per pool, cache size of a core, and ring slots, with values usual in DPDK.
const OBJECTS: usize = 8191;
const CACHE: usize = 256;
const POINTERS: usize = 1024;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// The sensor's findings.
    pub found: Found,
    /// CPU time of the switch's and the sensor's threads, which never sleep.
    pub cpu_ns: u64,
    /// Wall time.
    pub seconds: f64,
}

impl Passed {
    fn of(
        sides: crate::threads::Together<u64, (u64, Result<Found, String>)>,
    ) -> Result<Self, String> {
        let (sensor_ns, found) = sides.consumer;
        Ok(Self { found: found?, cpu_ns: sides.producer + sensor_ns, seconds: sides.seconds })
    }
}

/// Passes all packets through the log from core to core.
///
/// # Errors
/// Errors of Hyperscan.
pub fn contiguous(
    side: &mut Contiguous,
    cores: Cores,
    packets: &[Vec<u8>],
) -> Result<Passed, String> {
    let (database, lengths, writer, reader) = side.parts();
    Passed::of(run_together(
        cores,
        move || {
            cpu_ns(|| {
                for burst in packets.chunks(BURST) {
                    for packet in burst {
                        let meta = Meta::new(0, packet.len() as u32, 0);
                        while writer.append(packet, &meta) == Appended::Full {
                            spin_loop();
                        }
                    }
                    writer.publish();
                }
            })
        },
        move || {
            let (mut found, mut done, mut outcome) = (Found::default(), 0, Ok(()));
            let spent_ns = cpu_ns(|| {
                // After an error all packets are still passed, because the writer waits for that.
                while done < packets.len() as u64 {
                    let Some(mut rest) = reader.next_burst() else {
                        spin_loop();
                        continue;
                    };
                    while !rest.is_empty() {
                        let (part, behind) = rest.split_at(rest.len().min(SCANNED));
                        let scanned = scan(database, lengths, &part, done, &mut found);
                        outcome = std::mem::replace(&mut outcome, Ok(())).and(scanned);
                        (rest, done) = (behind, done + part.len() as u64);
                    }
                }
            });
            (spent_ns, outcome.map(|()| found))
        },
    ))
}

/// A pool, a ring of pointers, and the matcher.
pub struct Pooled<'a> {
    database: Database,
    pool: Pool<'a>,
    caches: Caches,
    ring: Spsc<'a, Address>,
}

impl<'a> Pooled<'a> {
    /// Size of its arena in bytes.
    pub const BYTES: usize = OBJECTS * super::pool::STRIDE_BYTES + (1 << 20);

    /// Creates it in an arena of [`BYTES`](Self::BYTES).
    ///
    /// # Errors
    /// Errors of Hyperscan.
    pub fn new(rules: &[Vec<u8>], arena: &'a Arena) -> Result<Self, String> {
        Ok(Self {
            database: Database::of(rules, Memory::One)?,
            pool: Pool::new(arena, OBJECTS),
            caches: Caches::new(CACHE),
            ring: Spsc::new(arena, POINTERS),
        })
    }

    /// Passes all packets, a multiple of [`BURST`], from core to core.
    ///
    /// # Errors
    /// Errors of Hyperscan.
    pub fn pass(&mut self, cores: Cores, packets: &[Vec<u8>]) -> Result<Passed, String> {
        let Self { database, pool, caches, ring } = self;
        let pool = &*pool;
        let (producer, consumer) = caches.both();
        let (mut push, mut pull) = ring.split();
        Passed::of(run_together(
            cores,
            move || {
                cpu_ns(|| {
                    let mut burst = [Address::NOWHERE; BURST];
                    for chunk in packets.chunks_exact(BURST) {
                        while !pool.take(producer, &mut burst) {
                            spin_loop();
                        }
                        for (&object, packet) in burst.iter().zip(chunk) {
                            // SAFETY: just taken from the pool; a packet fits in its data.
                            unsafe { put(object, packet) };
                        }
                        while !push.push(&burst) {
                            spin_loop();
                        }
                    }
                })
            },
            move || {
                let (mut found, mut outcome) = (Found::default(), Ok(()));
                let spent_ns = cpu_ns(|| {
                    let mut burst = [Address::NOWHERE; BURST];
                    for first in (0..packets.len() as u64).step_by(BURST) {
                        while !pull.pull(&mut burst) {
                            spin_loop();
                        }
                        let scanned = look_through(database, &burst, first, &mut found);
                        outcome = std::mem::replace(&mut outcome, Ok(())).and(scanned);
                        for &object in &burst {
                            // SAFETY: pulled from the ring of filled objects.
                            unsafe { unchain(object) };
                        }
                        pool.give(consumer, &burst);
                    }
                });
                (spent_ns, outcome.map(|()| found))
            },
        ))
    }
}

/// Copies a packet into an object.
///
/// # Safety
/// The caller owns `object`, which is from a pool and has room for the packet.
#[inline]
pub(super) unsafe fn put(object: Address, packet: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        reset(object);
        let data = object.0.add(HEADER_BYTES);
        std::ptr::copy_nonoverlapping(packet.as_ptr(), data, packet.len());
        object.0.cast::<Header>().write(Header::of_whole(data, packet.len() as u32));
    }
}

/// Makes a call for each packet of a burst, the first of which has number `first`.
#[inline]
fn look_through(
    database: &mut Database,
    burst: &[Address],
    first: u64,
    found: &mut Found,
) -> Result<(), String> {
    for (number, object) in burst.iter().enumerate() {
        if let Some(later) = burst.get(number + AHEAD) {
            prefetch::to_read(later.0);
            prefetch::to_read(later.0.wrapping_add(HEADER_BYTES));
        }
        // SAFETY: filled, and ordered by the ring that the address came through.
        let bytes = unsafe { (*object.0.cast::<Header>()).bytes() };
        database.scan(bytes, |content, end| found.add(first + number as u64, content, end))?;
    }
    Ok(())
}

//! Our balancer and the scattered one, for any packet size and a few numbers of workers.
//!
//! One core spreads, and the other plays all workers in turn. Both sides get a packet's hash as if
//! from a network card, and build the packet in place. Both cores spin, so the processor time of a
//! run is twice its length.

use std::hint::spin_loop;
use std::ops::Range;

use burstline_engine::{Mode, worker_of};
use burstline_log::{
    Buckets, Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start, Writer, WriterStatistics,
};
use burstline_sys::memory::{PageChoice, PageKind};

use crate::arena::Arena;
use crate::contenders::shapes::Pool as Shape;
use crate::rivals::balancer::{self, Flows, SpreadWork};
use crate::rivals::pool::Pool;
use crate::rivals::scattered::Caches;
use crate::rivals::spsc::Spsc;
use crate::rivals::{Address, BURST, Run};
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Traffic};

/// Packet memory of all logs together: as in the hand-off figures, so that packets in flight stay
/// in the cache.
pub(crate) const LOG_BYTES: usize = 8 << 20;
/// Small enough to give each of four logs eight segments.
pub(crate) const SEGMENT_BYTES: usize = 64 << 10;
/// Slots of each ring of the rival, and arena bytes for all rings.
const POINTERS: usize = 1024;
pub(super) const RINGS_BYTES: usize = 1 << 20;
/// The maximum number of workers of a figure.
const WORKERS_MAX: usize = 4;

/// Maps a packet's number and the number of workers to its hash and worker.
pub(crate) type Interleaving = fn(u32, usize) -> (u32, usize);

/// The orders of flows.
pub(crate) const INTERLEAVINGS: [(&str, Interleaving); 3] = [
    ("uniform", |counter, workers| with_worker(hash_of(counter), workers)),
    ("bursts", |counter, workers| with_worker(hash_of(counter / 32), workers)),
    // The last worker's share belongs to a silent port.
    ("idle", |counter, workers| {
        let (hash, worker) = with_worker(hash_of(counter), workers);
        // Flipping the hash's top bit selects the worker half the workers away.
        if worker == workers - 1 { with_worker(hash ^ 1 << 31, workers) } else { (hash, worker) }
    }),
];

/// Returns a flow hash for each number; neighbours go to unrelated workers. (Other figures
/// multiply the number by the constant that also maps hashes to buckets. So nearly all neighbours
/// go to one worker.) Source: the first half of the finalizer of MurmurHash3, by Austin Appleby.
#[inline]
fn hash_of(number: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b1);
    (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b)
}

#[inline]
fn with_worker(hash: u32, workers: usize) -> (u32, usize) {
    (hash, worker_of(hash, workers))
}

/// Our side: one log per worker, or one for all.
pub(crate) struct Ours {
    pub(crate) writers: Vec<Writer>,
    /// Readers by worker, for those that have one.
    pub(crate) readers: Vec<Reader>,
    pub(crate) page: PageKind,
}

impl Ours {
    pub(crate) fn create(mode: Mode, workers: usize, pages: PageChoice) -> Result<Self, String> {
        let (mut writers, mut readers, mut page) = (Vec::new(), Vec::new(), None);
        let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
        let is_shared = mode == Mode::Share;
        let logs = if is_shared { 1 } else { workers };
        for _ in 0..logs {
            let (bytes, has_buckets) = (LOG_BYTES / logs, is_shared);
            let config = LogConfig { bytes, pages, has_buckets, ..config() };
            let (log, writer) = Log::create(config).map_err(|error| error.to_string())?;
            let parts: Vec<Log> = match is_shared {
                true => (0..workers).map(|k| log.part(Buckets::of_worker(k, workers))).collect(),
                false => vec![log.clone()],
            };
            for part in parts {
                readers.push(part.attach(seat).map_err(|error| error.to_string())?);
            }
            page = Some(log.placement().page);
            writers.push(writer);
        }
        Ok(Self { writers, readers, page: page.ok_or("no logs")? })
    }

    pub(crate) fn segments(&self) -> u32 {
        let statistics = self.writers.iter().map(Writer::statistics);
        statistics.map(|own: WriterStatistics| own.segments_high_water).sum()
    }

    /// Spreads `packets` packets; the workers read `seen` of them.
    pub(crate) fn balance(
        &mut self,
        cores: Cores,
        work: SpreadWork<'_>,
        packets: u64,
        seen: u64,
    ) -> Run {
        let (writers, readers) = (&mut self.writers[..], &mut self.readers[..]);
        let done = run_together(
            cores,
            move || distribute(writers, work, 0..packets as u32),
            move || drain(readers, seen),
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }

    /// The same on one core, `turn` packets at a time; `packets` is a multiple of `turn`.
    pub(crate) fn take_turns(&mut self, work: SpreadWork<'_>, packets: u64, turn: usize) {
        let mut sum = 0_u64;
        for first in (0..packets as u32).step_by(turn) {
            distribute(&mut self.writers, work, first..first + turn as u32);
            sum = sum.wrapping_add(drain(&mut self.readers, turn as u64));
        }
        std::hint::black_box(sum);
    }
}

/// Returns the log configuration of a figure, without its size.
pub(crate) fn config() -> LogConfig {
    let (name, segment_bytes) = ("bench".to_owned(), SEGMENT_BYTES);
    LogConfig { name, segment_bytes, ..LogConfig::default() }
}

fn meta_of(traffic: &Traffic, counter: u32, hash: u32) -> Meta {
    Meta { hash, ..Meta::new(traffic::time_of(counter), traffic.length() as u32, 0) }
}

/// Writes these packets, in whole bursts, into the log of their worker or into the only log.
fn distribute(writers: &mut [Writer], work: SpreadWork<'_>, packets: Range<u32>) {
    match writers {
        [writer] => write(writer, work, packets),
        writers => spread(writers, work, packets),
    }
}

fn write(writer: &mut Writer, SpreadWork { traffic, flows }: SpreadWork<'_>, packets: Range<u32>) {
    for first in packets.step_by(BURST) {
        for counter in first..first + BURST as u32 {
            let meta = meta_of(traffic, counter, flows(counter).0);
            while !append(writer, traffic, counter, &meta) {
                spin_loop();
            }
        }
        writer.publish();
    }
}

/// Publishes a worker's packets when [`BURST`] wait, as the rival does with pointers.
fn spread(
    writers: &mut [Writer],
    SpreadWork { traffic, flows }: SpreadWork<'_>,
    packets: Range<u32>,
) {
    let mut waiting = [0; WORKERS_MAX];
    for counter in packets {
        let (hash, worker) = flows(counter);
        let meta = meta_of(traffic, counter, hash);
        while !append(&mut writers[worker], traffic, counter, &meta) {
            // Readers may wait for the rest.
            writers.iter_mut().for_each(Writer::publish);
            spin_loop();
        }
        waiting[worker] += 1;
        if waiting[worker] == BURST {
            writers[worker].publish();
            waiting[worker] = 0;
        }
    }
    writers.iter_mut().for_each(Writer::publish);
}

#[inline]
pub(crate) fn append(writer: &mut Writer, traffic: &Traffic, counter: u32, meta: &Meta) -> bool {
    let Some(slot) = writer.reserve(traffic.length()) else { return false };
    // SAFETY: the slot is valid for writes of that length, and the template is not in the log.
    unsafe { traffic.fill(slot.as_ptr(), counter) };
    slot.commit(meta);
    true
}

/// Runs the workers in turn, each on its log or its part of one.
fn drain(readers: &mut [Reader], packets: u64) -> u64 {
    let (mut sum, mut seen) = (0_u64, 0_u64);
    while seen < packets {
        let before = seen;
        for reader in &mut *readers {
            if let Some(burst) = reader.next_burst() {
                seen += burst.len() as u64;
                sum = sum.wrapping_add(traffic::digest_of(&burst));
            }
        }
        if seen == before {
            spin_loop();
        }
    }
    sum
}

/// Returns the sum over packets `[0, packets)` of these flows, and how many go to workers below
/// `workers`.
pub(crate) fn expected(
    traffic: &Traffic,
    flows: &Flows,
    packets: u64,
    workers: usize,
) -> (u64, u64) {
    let (mut sum, mut count, mut packet) = (0_u64, 0, [0_u8; traffic::MAX_BYTES]);
    for counter in 0..packets as u32 {
        let (hash, worker) = flows(counter);
        if worker < workers {
            // SAFETY: the room is as long as any packet.
            unsafe { traffic.fill(packet.as_mut_ptr(), counter) };
            let bytes = &packet[..traffic.length()];
            let own = traffic::digest(bytes, hash, traffic::time_of(counter));
            (sum, count) = (sum.wrapping_add(own), count + 1);
        }
    }
    (sum, count)
}

/// Returns millions of packets a second, if the sum is right. Both cores spin on either side.
pub(crate) fn rate(side: &str, run: Run, packets: u64, expected: u64) -> Result<f64, String> {
    if run.sum != expected {
        return Err(format!("{side} summed up {:#x}, not {expected:#x}", run.sum));
    }
    Ok(packets as f64 / run.seconds / 1e6)
}

/// The scattered balancer.
pub(super) struct Scattered<'a> {
    pool: Pool<'a>,
    caches: Caches,
    rings: Vec<Spsc<'a, Address>>,
}

impl<'a> Scattered<'a> {
    pub(super) fn new(arena: &'a Arena, shape: Shape, workers: usize) -> Self {
        let pool = Pool::new(arena, shape.objects as usize);
        let rings = (0..workers).map(|_| Spsc::new(arena, POINTERS)).collect();
        Self { pool, caches: Caches::new(shape.cache as usize), rings }
    }

    pub(super) fn balance(&mut self, cores: Cores, work: SpreadWork<'_>, packets: u64) -> Run {
        let (pool, caches) = (&self.pool, &mut self.caches);
        match &mut self.rings[..] {
            rings @ [_] => balancer::balance::<1>(cores, work, packets, pool, caches, rings),
            rings @ [_, _] => balancer::balance::<2>(cores, work, packets, pool, caches, rings),
            rings => balancer::balance::<4>(cores, work, packets, pool, caches, rings),
        }
    }
}

//! Merges many ports into one queue in stages, as DPDK designs do: receive, merge by burst, copy.
//!
//! ```text
//!  receive   a port: take 32 objects -> describe -> stamp the burst -> a ring for each port
//!  merge     the oldest burst at the rings' ends -> one ring
//!  copy      packets into shared memory, back to back, with a worklist; give 32 objects back
//!  read      the worklist: count each entry by its port
//! ```
//!
//! Packets are in the objects at the start, as if a card had written them there. Neither side pays
//! for that.
//!
//! The objects are those of [`super::scattered`], with its headers and prefetching. With two cores,
//! receiving has one and the other stages share the other; with one core, the stages take turns.

use std::hint::spin_loop;
use std::marker::PhantomData;
use std::ptr;

use burstline_sys::clock;

use super::pool::{self, Cache, HEADER_BYTES, Pool};
use super::scattered::{self, AHEAD, Header};
use super::spsc::{Consumer, Producer, Spsc};
use super::{Address, BURST, Pull, Push};
use crate::arena::Arena;
use crate::lines::{LINES, Line, Shape};
use crate::threads::{Cores, run_together};
use burstline_sys::prefetch;

/// Slots per ring of bursts, in pointers.
const POINTERS: usize = 1024;
/// Size of the shared memory where packets end up: a quarter of our log. The core that writes it
/// also reads it and waits for nobody, so a larger one would only leave that core's caches.
const OUTPUT_BYTES: usize = 2 << 20;

/// One entry of the worklist.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Offset of the packet.
    pub offset: u32,
    /// Its length and its port.
    pub shape: u32,
    /// Receive time.
    pub time_ns: u64,
}

/// The output of the copying stage.
pub struct Output<'a> {
    /// The first byte of the memory, which this output owns.
    bytes: Address,
    arena: PhantomData<&'a ()>,
    /// Length of a packet, and its space here.
    packet_bytes: usize,
    stride: usize,
    worklist: Vec<Entry>,
    /// Offset of the next packet.
    next: usize,
    /// Packets and bytes read so far, by port.
    seen: [(u64, u64); LINES],
    /// Packets older than one copied before; counted only on request.
    pub violations: u64,
    newest_ns: u64,
    is_checking: bool,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Packets copied and read.
    pub packets: u64,
    /// CPU time of all stages, in s.
    pub cpu_s: f64,
    /// Wall time, in s.
    pub elapsed_s: f64,
    /// Packets older than their predecessor, in a run that checks.
    pub violations: u64,
}

impl<'a> Output<'a> {
    /// Creates an empty output. `is_checking`: check the order, which a measured run does not.
    pub fn new(arena: &'a Arena, packets: Shape, is_checking: bool) -> Self {
        let worklist = vec![Entry::default(); OUTPUT_BYTES / packets.room()];
        let bytes = Address(arena.piece(OUTPUT_BYTES).as_ptr());
        Self {
            bytes,
            arena: PhantomData,
            packet_bytes: packets.bytes as usize,
            stride: packets.room(),
            worklist,
            next: 0,
            seen: [(0, 0); LINES],
            violations: 0,
            newest_ns: 0,
            is_checking,
        }
    }

    /// Copies a burst after the previous one.
    #[inline]
    fn copy(&mut self, burst: &[Address; BURST]) {
        let ahead = |object: Address| {
            prefetch::to_read(object.0);
            prefetch::to_read(object.0.wrapping_add(HEADER_BYTES));
        };
        burst[..AHEAD].iter().copied().for_each(ahead);
        for index in 0..BURST {
            if let Some(&later) = burst.get(index + AHEAD) {
                ahead(later);
            }
            // SAFETY: bursts hold only filled objects, ordered by the ring that they came through.
            let header = unsafe { &*burst[index].0.cast::<Header>() };
            let at = self.next;
            self.next = if at + 1 == self.worklist.len() { 0 } else { at + 1 };
            let room = self.bytes.0.wrapping_add(at * self.stride);
            // SAFETY: a slot of the output that no other code writes; the object has as much space.
            unsafe { ptr::copy_nonoverlapping(header.data, room, self.packet_bytes) };
            let offset = (at * self.stride) as u32;
            let shape = header.length << 8 | u32::from(header.port);
            self.worklist[at] = Entry { offset, shape, time_ns: header.time_ns };
            if self.is_checking {
                self.violations += u64::from(header.time_ns < self.newest_ns);
                self.newest_ns = self.newest_ns.max(header.time_ns);
            }
        }
    }

    /// Counts the burst copied last, as a reader of our log does.
    #[inline]
    fn read(&mut self) {
        let rooms = self.worklist.len();
        let mut at = (self.next + rooms - BURST) % rooms;
        for _ in 0..BURST {
            let shape = self.worklist[at].shape;
            at = if at + 1 == rooms { 0 } else { at + 1 };
            let (packets, bytes) = &mut self.seen[shape as usize % LINES];
            (*packets, *bytes) = (*packets + 1, *bytes + u64::from(shape >> 8));
        }
    }

    /// Returns the number of packets read, if each had the expected length.
    fn read_packets(&self) -> u64 {
        let (packets, bytes) =
            self.seen.iter().fold((0, 0), |all, port| (all.0 + port.0, all.1 + port.1));
        if bytes == packets * self.packet_bytes as u64 { packets } else { 0 }
    }
}

/// The receiving stage.
struct Receive<'r, 'p> {
    lines: &'r [Option<Line>; LINES],
    pool: &'r Pool<'p>,
    cache: &'r mut Cache,
    rings: Vec<Producer<'r, Address>>,
    next: [u64; LINES],
}

impl Receive<'_, '_> {
    /// Receives a burst from each port, up to `most` packets of it. Returns `false` if every port
    /// has reached `most`.
    #[inline]
    fn poll(&mut self, most: u64) -> bool {
        let mut is_open = false;
        for (number, line) in self.lines.iter().enumerate() {
            let Some(line) = line else { continue };
            if self.next[number] == most {
                continue;
            }
            is_open = true;
            let mut burst = [Address::NOWHERE; BURST];
            if !self.pool.take(self.cache, &mut burst) {
                return true;
            }
            for &object in &burst {
                // SAFETY: just taken from the pool.
                unsafe { scattered::reset(object) };
            }
            for &object in &burst {
                // SAFETY: just taken from the pool.
                unsafe { describe(object, line, number, self.next[number]) };
                self.next[number] += 1;
            }
            // SAFETY: just taken from the pool; the first object's header has the time of its
            // burst.
            unsafe { (*burst[0].0.cast::<Header>()).stamp = stamp() };
            while !self.rings[number].push(&burst) {
                spin_loop();
            }
        }
        is_open
    }
}

/// Describes the packet in an object, as a driver does.
///
/// # Safety
/// The caller owns `object`, which is from a pool.
#[inline(always)]
unsafe fn describe(object: Address, line: &Line, port: usize, packet: u64) {
    let (_, time_ns) = line.place(packet);
    // SAFETY: the data follow the header within the object.
    let data = unsafe { object.0.add(HEADER_BYTES) };
    let (length, port) = (line.shape().bytes, port as u16);
    let header =
        Header { data, length, hash: 0, time_ns, port, segments: 1, references: 1, stamp: 0 };
    // SAFETY: objects are aligned to a cache line, and the caller owns this one.
    unsafe { object.0.cast::<Header>().write(header) };
}

/// Writes a packet into each object of an unused pool, as a card does before packets are received.
fn write_packets(pool: &Pool<'_>, lines: &[Option<Line>; LINES]) {
    let (mut none, mut objects) = (Cache::new(0), Vec::new());
    let mut burst = [Address::NOWHERE; 1];
    let packets = lines.iter().flatten().cycle().zip(0..);
    for (line, number) in packets {
        if !pool.take(&mut none, &mut burst) {
            break;
        }
        let (place, length) = (line.place(number).0, line.shape().bytes as usize);
        let bytes = &line.bytes()[place..place + length];
        // SAFETY: just taken from the pool; the data follow the header within the object, and the
        // line is elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), burst[0].0.add(HEADER_BYTES), length) };
        objects.push(burst[0]);
    }
    objects.chunks(BURST).for_each(|objects| pool.give(&mut none, objects));
}

/// Returns the time of a burst, from the cheapest clock.
#[inline]
fn stamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    return clock::cycles();
    #[cfg(not(target_arch = "x86_64"))]
    clock::monotonic_ns()
}

/// The merging and the copying stage with the ring between them.
struct MergeAndCopy<'r, 'p, 'o> {
    rings: Vec<Consumer<'r, Address>>,
    heads: [Option<[Address; BURST]>; LINES],
    /// Both ends of the ring between the stages.
    to_copy: Producer<'r, Address>,
    merged: Consumer<'r, Address>,
    pool: &'r Pool<'p>,
    cache: &'r mut Cache,
    output: &'r mut Output<'o>,
}

impl MergeAndCopy<'_, '_, '_> {
    /// Forwards the oldest burst. Returns `false` if there is none.
    #[inline]
    fn merge(&mut self) -> bool {
        let mut oldest: Option<(u64, usize)> = None;
        for (number, (head, ring)) in self.heads.iter_mut().zip(&mut self.rings).enumerate() {
            let mut burst = [Address::NOWHERE; BURST];
            if head.is_none() && ring.pull(&mut burst) {
                *head = Some(burst);
            }
            if let Some(burst) = head {
                // SAFETY: pulled from a ring of filled objects.
                let stamp = unsafe { (*burst[0].0.cast::<Header>()).stamp };
                if oldest.is_none_or(|oldest| (stamp, number) < oldest) {
                    oldest = Some((stamp, number));
                }
            }
        }
        let Some(burst) = oldest.and_then(|(_, number)| self.heads[number].take()) else {
            return false;
        };
        while !self.to_copy.push(&burst) {
            spin_loop();
        }
        true
    }

    /// Copies a burst, if there is one.
    #[inline]
    fn copy(&mut self) -> bool {
        let mut burst = [Address::NOWHERE; BURST];
        if !self.merged.pull(&mut burst) {
            return false;
        }
        self.output.copy(&burst);
        for &object in &burst {
            // SAFETY: pulled from the ring of filled objects.
            unsafe { scattered::unchain(object) };
        }
        self.pool.give(self.cache, &burst);
        self.output.read();
        true
    }
}

/// Returns the packet space of an object: more than usual only for longer packets.
fn room(packets: Shape) -> usize {
    pool::DATA_BYTES.max(packets.room())
}

/// Returns the arena size for this many objects, the rings and the output.
pub fn arena_bytes(objects: usize, packets: Shape) -> usize {
    objects * pool::stride_bytes(room(packets)) + OUTPUT_BYTES + (1 << 20)
}

/// The sizes of the pool that the stages share.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of objects.
    pub objects: usize,
    /// Maximum number of objects in each core's cache.
    pub cache: usize,
}

/// How to run the stages.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The cores.
    pub cores: Cores,
    /// Whether to use both, or only the producer's.
    pub are_two: bool,
    /// Whether to check the order, which a measured run does not.
    pub is_checking: bool,
}

/// Sends `most` packets of each line, a multiple of [`BURST`], through all stages: on both cores,
/// or on the producer's.
pub fn run(
    arena: &Arena,
    lines: &[Option<Line>; LINES],
    sizes: Sizes,
    most: u64,
    how: How,
) -> Staged {
    let Sizes { objects, cache } = sizes;
    let How { cores, are_two, is_checking } = how;
    let packets = lines.iter().flatten().next().expect("a line has packets").shape();
    let pool = Pool::with_room(arena, objects, room(packets));
    write_packets(&pool, lines);
    let mut rings: [Spsc<'_, Address>; LINES] = std::array::from_fn(|_| Spsc::new(arena, POINTERS));
    let mut between = Spsc::new(arena, POINTERS);
    let mut output = Output::new(arena, packets, is_checking);
    let mut caches = [Cache::new(cache), Cache::new(cache)];
    let all = lines.iter().flatten().count() as u64 * most;
    let (producers, consumers) = rings.iter_mut().map(Spsc::split).unzip();
    let [first, second] = &mut caches;
    let mut receive =
        Receive { lines, pool: &pool, cache: first, rings: producers, next: [0; LINES] };
    let (to_copy, merged) = between.split();
    let mut rest = MergeAndCopy {
        rings: consumers,
        heads: [None; LINES],
        to_copy,
        merged,
        pool: &pool,
        cache: second,
        output: &mut output,
    };
    let bursts = all / BURST as u64;
    let mut copy_all = |receive: Option<&mut Receive<'_, '_>>| {
        let mut receive = receive;
        for _ in 0..bursts {
            while !rest.merge() {
                match &mut receive {
                    Some(receive) => drop(receive.poll(most)),
                    None => spin_loop(),
                }
            }
            assert!(rest.copy(), "a burst was merged");
        }
    };
    let done = match are_two {
        true => run_together(
            cores,
            || cpu_ns(|| while receive.poll(most) {}),
            || cpu_ns(|| copy_all(None)),
        ),
        false => run_together(cores, || cpu_ns(|| copy_all(Some(&mut receive))), || 0),
    };
    Staged {
        packets: output.read_packets(),
        cpu_s: (done.producer + done.consumer) as f64 / 1e9,
        elapsed_s: done.seconds,
        violations: output.violations,
    }
}

/// Returns the CPU time of the calling thread in `work`, in ns.
pub(crate) fn cpu_ns(work: impl FnOnce()) -> u64 {
    let start_ns = clock::thread_cpu_ns();
    work();
    clock::thread_cpu_ns() - start_ns
}

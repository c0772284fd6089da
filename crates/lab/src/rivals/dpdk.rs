//! The rivals on DPDK's own mbufs, mempools, rings and bursts, written in C.
//!
//! ```text
//! ../../rivals-dpdk/pipeline.c   producer -> ring -> consumer
//! ../../rivals-dpdk/balance.c    a pointer ring for each worker
//! ../../rivals-dpdk/balance_live.c  the same on a driver's packets, as a separate program
//! ../../rivals-dpdk/merge.c      four ports -> merger -> memcpy into one memory
//! ../../rivals-dpdk/device.c     packets of a driver, for pipeline and merge
//! ```
//!
//! EAL gets reserved huge pages if enough are free. Otherwise a pool's memory becomes transparent
//! huge pages, as far as the kernel can, so that both sides have the same. Whole loops are in C, so
//! calls from Rust add no cost per packet.

pub mod balance;
pub mod merge_live;
pub mod program;

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use burstline_dpdk::{EalOptions, start_eal};
use burstline_sys::clock;
use burstline_sys::memory::PageKind;

use super::staged::cpu_ns;
use super::{BURST, Run};
use crate::arena::Arena;
use crate::lines::{self, LINES, Line};
use crate::pages::{PAGES_OF_A_START, Reservation};
use crate::threads::{Cores, run_together};
use crate::traffic::Traffic;

/// Slots of each pointer ring, DPDK's usual number.
pub const SLOTS: u32 = 1024;

/// The largest burst of a [`Pipeline`]. Source: BURST_MOST of rivals.h.
const BURST_MOST: u32 = 256;
/// Size of EAL's memory, as in testpmd's arguments.
const MEMORY_MIB: u32 = 512;

/// Size of the memory that packets are merged into: a quarter of our log, as in [`super::staged`].
pub const OUTPUT_BYTES: usize = 2 << 20;
/// Alignment of packets there.
const OUTPUT_ALIGN: usize = 64;
/// Arena size for that memory and its worklist.
pub const OUTPUT_ARENA_BYTES: usize =
    OUTPUT_BYTES + OUTPUT_BYTES / OUTPUT_ALIGN * size_of::<[u64; 2]>();

/// A shape of pool and rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Shape {
    /// Number of mbufs in the pool.
    pub objects: u32,
    /// Number of mbufs in each core's cache.
    pub cache: u32,
    /// Number of slots in each ring.
    pub slots: u32,
    /// Whether rings of pointers and of free mbufs have one producer and one consumer: not 0.
    pub is_single: u8,
}

impl Shape {
    /// The shape used for counting instructions; other shapes give about the same counts.
    pub const COUNTED: Self = Self { objects: 2047, cache: 256, slots: SLOTS, is_single: 1 };
}

/// Returns a pool's page kind, by whether all its pages are huge. EAL must run.
pub fn page(is_huge: bool) -> PageKind {
    // SAFETY: it reads what EAL determined at its start.
    match is_huge.then(|| unsafe { rte_eal_has_hugepages() }) {
        None => PageKind::Size4K,
        Some(0) => PageKind::Transparent,
        Some(_) => PageKind::Size2M,
    }
}

/// How the consumer prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hint {
    /// No prefetch.
    None,
    /// `rte_prefetch0`: into all levels of the cache.
    T0,
    /// `rte_prefetch1`: into all levels but the first.
    T1,
}

/// The options of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Manner {
    /// Whether to merge by packet, in order of time: not 0. Else by burst.
    pub is_ordered: u8,
    /// Whether to copy whole segments, of 2,048 bytes if packets fit: not 0. Else packets.
    pub is_whole: u8,
    /// The prefetch mode.
    pub hint: Hint,
    /// Whether to count packets that are out of order: not 0.
    pub is_checking: u8,
}

impl Manner {
    /// The article's design: by burst, copies of the packet's length, `prefetcht0`.
    pub const PLAIN: Self = Self { is_ordered: 0, is_whole: 0, hint: Hint::T0, is_checking: 0 };
}

#[repr(C)]
struct Lane {
    bytes: *const u8,
    times_ns: *const u64,
}

/// The destination of a merge, with a worklist.
#[repr(C)]
struct Output {
    bytes: *mut u8,
    worklist: *mut c_void,
    room: u32,
}

/// Creates an arena for that memory and its worklist, in the best pages available.
///
/// # Errors
/// If there is not enough memory.
pub fn output_arena() -> Result<Arena, String> {
    Arena::in_best_pages(OUTPUT_ARENA_BYTES)
}

impl Output {
    /// Creates it in an arena of [`OUTPUT_ARENA_BYTES`].
    fn new(arena: &Arena) -> Self {
        let worklist = arena.cells::<[u64; 2]>(OUTPUT_BYTES / OUTPUT_ALIGN);
        Self {
            bytes: arena.piece(OUTPUT_BYTES).as_ptr(),
            worklist: worklist.as_ptr().cast_mut().cast(),
            room: OUTPUT_BYTES as u32,
        }
    }
}

#[repr(C)]
struct Raw {
    opaque: [u8; 0],
}

#[repr(C)]
struct RawMerge {
    opaque: [u8; 0],
}

unsafe extern "C" {
    fn rte_eal_has_hugepages() -> c_int;
    fn rival_create(shape: *const Shape, is_huge: *mut bool) -> *mut Raw;
    fn rival_destroy(rival: *mut Raw) -> u32;
    fn rival_produce(rival: *mut Raw, packet: *const u8, length: u32, packets: u64, burst: u32);
    fn rival_consume(rival: *mut Raw, packets: u64, hint: u32, burst: u32) -> u64;
    fn rival_turns(rival: *mut Raw, packet: *const u8, length: u32, packets: u64, hint: u32)
    -> u64;
    fn rival_open(rival: *mut Raw, devargs: *const c_char) -> c_int;
    fn rival_receive(rival: *mut Raw, packets: u64);
    fn rival_live(rival: *mut Raw, is_over: *const AtomicU32, sum: *mut u64) -> u64;
    fn rival_driver_turns(rival: *mut Raw, packets: u64) -> u64;
    fn rival_merge_create(
        shape: *const Shape,
        packets: *const lines::Shape,
        lines: *const Lane,
        most: u64,
        output: *const Output,
        is_huge: *mut bool,
    ) -> *mut RawMerge;
    fn rival_merge_destroy(merge: *mut RawMerge) -> u32;
    fn rival_merge_receive(merge: *mut RawMerge);
    fn rival_merge_copy(merge: *mut RawMerge, manner: *const Manner, violations: *mut u64) -> u64;
    fn rival_merge_turns(merge: *mut RawMerge, manner: *const Manner, violations: *mut u64) -> u64;
}

/// Starts EAL if it does not run yet, in reserved huge pages if available.
///
/// # Errors
/// A sentence.
pub fn start() -> Result<(), String> {
    // EAL keeps the memory of its start for the life of this process.
    let _pages = Reservation::take(PAGES_OF_A_START);
    let options = EalOptions { memory_mib: Some(MEMORY_MIB), ..EalOptions::default() };
    start_eal(&options).map_err(|error| error.to_string())
}

/// Like [`start`], without huge pages: under valgrind their addresses are not available.
///
/// # Errors
/// As there.
pub fn start_to_count() -> Result<(), String> {
    let options = EalOptions { huge: Some(false), ..EalOptions::default() };
    start_eal(&options).map_err(|error| error.to_string())
}

/// A pool of mbufs and a pointer ring.
#[derive(Debug)]
pub struct Pipeline {
    raw: NonNull<Raw>,
    is_huge: bool,
    burst: u32,
}

// SAFETY: one thread produces and one consumes, which is what pool and ring are made for; both
// are known to EAL while they do.
unsafe impl Sync for Pipeline {}
// SAFETY: pool and ring may be used by whichever threads EAL knows; nothing of it belongs to one.
unsafe impl Send for Pipeline {}

impl Pipeline {
    /// Creates them. EAL must run.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(shape: Shape) -> Result<Self, String> {
        let mut is_huge = false;
        // SAFETY: EAL runs; both pointers are valid for reads and writes during the call.
        let raw = unsafe { rival_create(&shape, &mut is_huge) };
        let raw = NonNull::new(raw).ok_or_else(|| format!("DPDK has no memory for {shape:?}"))?;
        Ok(Self { raw, is_huge, burst: BURST as u32 })
    }

    /// Sets the packets per hand-off, in `[1, 256]`, if it fills the packets itself.
    pub fn in_bursts(self, burst: u32) -> Self {
        assert!((1..=BURST_MOST).contains(&burst), "bursts of {burst}");
        let mut this = self;
        this.burst = burst;
        this
    }

    /// Returns whether its pool is in huge pages.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Hands over `packets` packets, a multiple of the burst.
    pub fn hand_off(&self, cores: Cores, traffic: &Traffic, packets: u64, hint: Hint) -> Run {
        let (packet, length) = (traffic.template(), traffic.length() as u32);
        let done = run_together(
            cores,
            // SAFETY: the template has `length` bytes, and this is the only producer.
            || unsafe { rival_produce(self.raw(), packet.as_ptr(), length, packets, self.burst) },
            || self.consume(packets, hint),
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }

    fn consume(&self, packets: u64, hint: Hint) -> u64 {
        // SAFETY: both callers have one consumer.
        unsafe { rival_consume(self.raw(), packets, hint as u32, self.burst) }
    }

    fn raw(&self) -> *mut Raw {
        self.raw.as_ptr()
    }

    /// Like [`hand_off`](Self::hand_off), with both sides in turns on this thread. Returns the sum.
    pub fn take_turns(&mut self, traffic: &Traffic, packets: u64, hint: Hint) -> u64 {
        let (packet, length) = (traffic.template(), traffic.length() as u32);
        // SAFETY: the template has `length` bytes; no other thread produces or consumes.
        unsafe { rival_turns(self.raw(), packet.as_ptr(), length, packets, hint as u32) }
    }

    /// Like [`hand_on`](Self::hand_on), with both sides in turns on this thread. Returns the sum.
    pub fn take_turns_on(&mut self, packets: u64) -> u64 {
        // SAFETY: no other thread receives or reads.
        unsafe { rival_driver_turns(self.raw(), packets) }
    }

    /// Opens a device to receive from, at most once.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn open(&mut self, devargs: &str) -> Result<(), String> {
        let text = CString::new(devargs).map_err(|error| error.to_string())?;
        // SAFETY: the string ends with a 0.
        match unsafe { rival_open(self.raw(), text.as_ptr()) } {
            0 => Ok(()),
            code => Err(format!("DPDK does not open {devargs}: {code}")),
        }
    }

    /// Hands over packets of the device, a multiple of [`BURST`].
    pub fn hand_on(&self, cores: Cores, packets: u64, hint: Hint) -> Run {
        let done = run_together(
            cores,
            // SAFETY: this is the only thread that receives.
            || unsafe { rival_receive(self.raw(), packets) },
            || self.consume(packets, hint),
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }

    /// Receives, hands over and reads on this thread, a burst each, until `is_over` is not 0 and no
    /// more packets arrive. Returns the number of packets.
    pub fn take_turns_live(&mut self, is_over: &AtomicU32) -> u64 {
        let mut sum = 0;
        // SAFETY: no other thread receives or reads; both pointers are valid during the call, and C
        // reads the flag by an atomic load.
        let taken = unsafe { rival_live(self.raw(), is_over, &mut sum) };
        std::hint::black_box(sum);
        taken
    }

    /// Destroys it.
    ///
    /// # Errors
    /// If mbufs are missing.
    pub fn end(self) -> Result<(), String> {
        let raw = self.raw;
        std::mem::forget(self);
        // SAFETY: the last use.
        whole(unsafe { rival_destroy(raw.as_ptr()) })
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: the last use.
        unsafe { rival_destroy(self.raw.as_ptr()) };
    }
}

fn whole(missing: u32) -> Result<(), String> {
    match missing {
        0 => Ok(()),
        _ => Err(format!("the rival has lost {missing} mbufs")),
    }
}

/// The result of a merge.
#[derive(Clone, Copy, Debug)]
pub struct Merged {
    /// Packets copied and read.
    pub packets: u64,
    /// CPU time of both threads, in s.
    pub cpu_s: f64,
    /// Wall time, in s.
    pub elapsed_s: f64,
    /// Packets out of order, if they were checked.
    pub violations: u64,
    /// Whether the pool is in huge pages.
    pub is_huge: bool,
}

/// The four ports, the rings and the output of one run.
struct Merge<'a> {
    raw: NonNull<RawMerge>,
    lines: std::marker::PhantomData<&'a Line>,
    is_huge: bool,
}

// SAFETY: one thread receives, and one merges and copies; the rings are between them.
unsafe impl Sync for Merge<'_> {}

impl<'a> Merge<'a> {
    fn new(
        arena: &'a Arena,
        lines: &'a [Option<Line>; LINES],
        shape: Shape,
        most: u64,
    ) -> Result<Self, String> {
        let packets = lines.iter().flatten().next().ok_or("no line has packets")?.shape();
        let lanes = lines.each_ref().map(|line| match line {
            Some(line) => Lane { bytes: line.bytes().as_ptr(), times_ns: line.times_ns().as_ptr() },
            None => Lane { bytes: std::ptr::null(), times_ns: std::ptr::null() },
        });
        let (output, mut is_huge) = (Output::new(arena), false);
        // SAFETY: EAL runs; the lines, the output and the worklist live as long as `'a`.
        let raw = unsafe {
            rival_merge_create(&shape, &packets, lanes.as_ptr(), most, &output, &mut is_huge)
        };
        let raw = NonNull::new(raw).ok_or_else(|| format!("DPDK has no memory for {shape:?}"))?;
        Ok(Self { raw, lines: std::marker::PhantomData, is_huge })
    }
}

impl Merge<'_> {
    fn raw(&self) -> *mut RawMerge {
        self.raw.as_ptr()
    }
}

impl Drop for Merge<'_> {
    fn drop(&mut self) {
        // SAFETY: the last use, and no thread of EAL uses it.
        unsafe { rival_merge_destroy(self.raw.as_ptr()) };
    }
}

/// Merges `most` packets of each line, a multiple of [`BURST`], on both cores.
///
/// # Errors
/// If there is not enough memory, or packets or mbufs are missing.
pub fn merge(
    arena: &mut Arena,
    lines: &[Option<Line>; LINES],
    shape: Shape,
    manner: Manner,
    most: u64,
    cores: Cores,
) -> Result<Merged, String> {
    assert!(most.is_multiple_of(BURST as u64), "{most} packets are no bursts");
    arena.clear();
    let merge = Merge::new(arena, lines, shape, most)?;
    let mut violations = 0;
    let done = run_together(
        cores,
        // SAFETY: this is the only thread that receives.
        || cpu_ns(|| unsafe { rival_merge_receive(merge.raw()) }),
        || {
            let mut packets = 0;
            // SAFETY: this is the only thread that merges and copies.
            let mut copy = || unsafe { rival_merge_copy(merge.raw(), &manner, &mut violations) };
            (cpu_ns(|| packets = copy()), packets)
        },
    );
    let is_huge = merge.is_huge;
    let raw = merge.raw;
    std::mem::forget(merge);
    // SAFETY: the last use.
    whole(unsafe { rival_merge_destroy(raw.as_ptr()) })?;
    let cpu_s = (done.producer + done.consumer.0) as f64 / 1e9;
    let (packets, elapsed_s) = (done.consumer.1, done.seconds);
    Ok(Merged { packets, cpu_s, elapsed_s, violations, is_huge })
}

/// Like [`merge`], entirely on this thread, which never sleeps.
///
/// # Errors
/// As there.
pub fn merge_in_turns(
    arena: &mut Arena,
    lines: &[Option<Line>; LINES],
    shape: Shape,
    manner: Manner,
    most: u64,
) -> Result<Merged, String> {
    arena.clear();
    let merge = Merge::new(arena, lines, shape, most)?;
    let (start_ns, mut violations, is_huge) = (clock::monotonic_ns(), 0, merge.is_huge);
    // SAFETY: no other thread has it.
    let packets = unsafe { rival_merge_turns(merge.raw(), &manner, &mut violations) };
    let elapsed_s = (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    Ok(Merged { packets, cpu_s: elapsed_s, elapsed_s, violations, is_huge })
}

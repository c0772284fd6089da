//! The control memory: the writer's state for its readers, in a separate sealed region.
//!
//! ```text
//! 0        header: magic, geometry | head | state | oldest | settled | seat states
//! 4096     names: a cache line for each of 256 ports
//! 20480    directory: one word per sequence number modulo the directory's length
//! ...      two cache lines per segment: watermark | base time, first packet number
//! ...      with buckets: 256 words per segment, packets of each bucket before it,
//!          and 256 words of all packets so far
//! ```
//!
//! Every word is an atomic, because the reader may be another process. The geometry is read once,
//! when a view is made, and checked against the size of the mapping. No word read later is used as
//! an index without a check.

use std::hint::spin_loop;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use burstline_sys::{barrier, clock};

use crate::copy;
use crate::error::AttachError;
use crate::log::{MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES};
use crate::names::{NAMES, PortName};
use crate::protocol::{self, Control, Word32, Word64};
use crate::watermark::{DirectoryEntry, MAX_SEGMENTS};

/// The most readers of one log.
pub const MAX_READERS: usize = 64;
/// The number of buckets by which a log can count its packets.
pub const BUCKETS: usize = 256;
/// The most segments that one reader can pin at the same time.
pub const MAX_WINDOW: usize = 8;

const MAGIC: u64 = u64::from_le_bytes(*b"brstline");
/// Incremented whenever the layout of shared memory changes.
const VERSION: u32 = 7;
const NAMES_AT: usize = 4096;
const DIRECTORY_AT: usize = NAMES_AT + NAMES * size_of::<PortName>();
const LINE_BYTES: usize = 64;
/// Upper bound of a store's latency, in ns: a line from the farthest core we saw takes 300.
const STORE_NS: u64 = 5_000;
/// Attempts to read a consistent count while the head moves.
const PUBLISHED_TRIES: u32 = 8;

/// The state of a log, as readers see it: still being written.
const STATE_OPEN: u32 = 1;
/// The writer has ended the log: no more packets will be published.
const STATE_CLOSED: u32 = 2;
/// Like closed, but the writer was stopped early: another may follow.
const STATE_STOPPED: u32 = 3;

/// How a log ended, according to its writer. A killed writer sets no ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its sources were exhausted, or a limit was reached.
    Final,
    /// It was asked to stop.
    Stopped,
}

/// A value with a cache line to itself.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    hash_kind: AtomicU32,
    segment_bytes: AtomicU64,
    segment_count: AtomicU32,
    max_readers: AtomicU32,
    clock_kind: AtomicU32,
    /// The number of buckets counted: [`BUCKETS`], or 0.
    buckets: AtomicU32,
    head: Line<AtomicU64>,
    state: Line<AtomicU32>,
    oldest: Line<AtomicU64>,
    /// Packets whose verdicts are no longer needed: see `verdict`.
    settled: Line<AtomicU64>,
    seats: [AtomicU32; MAX_READERS],
}

/// The cache lines of one segment. Only the watermark is ordered; the rest is written before it.
/// The watermark has its own line, which moves to the writer and back with each publish. A reader
/// would wait for that line again to find an unchanged base time in it (Decision 0030).
#[repr(C, align(128))]
pub(crate) struct SegmentLine {
    watermark: Line<AtomicU64>,
    /// The time that the descs' deltas count from, in ns since 1970.
    pub(crate) base_time_ns: AtomicU64,
    /// The number of the segment's first packet, counted over the log's life.
    pub(crate) first_packet: AtomicU64,
    /// The index in the segment of the first packet that has facts; `u32::MAX` if none has.
    pub(crate) first_special: AtomicU32,
    /// When the segment was opened, in monotonic ns; 0 in a log without history.
    pub(crate) opened_ns: AtomicU64,
    /// Not 0 if packets went past the caches, because their reader is far.
    pub(crate) is_far: AtomicU32,
}

/// The column takes 1/64 of a segment: a byte per packet. A segment of 64-byte packets and their
/// descs holds no more packets than that.
const COLUMN_PART: usize = 64;

/// Packets of each bucket that were published before a segment, or in total.
pub(crate) type BucketLine = [AtomicU64; BUCKETS];

const _: () = assert!(size_of::<Header>() <= NAMES_AT);
const _: () = assert!(size_of::<SegmentLine>() == 2 * LINE_BYTES);

/// The shape of a log, fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) segment_bytes: usize,
    pub(crate) segment_count: u32,
    pub(crate) max_readers: u32,
    pub(crate) hash_kind: u32,
    pub(crate) clock_kind: u32,
    pub(crate) has_buckets: bool,
}

impl Geometry {
    /// Returns the number of directory entries: a power of two, at least the number of segments. So
    /// no two valid sequence numbers, which are consecutive, share an entry.
    fn directory_entries(&self) -> usize {
        (self.segment_count as usize).next_power_of_two()
    }

    pub(crate) fn control_bytes(&self) -> usize {
        let buckets = if self.has_buckets { size_of::<BucketLine>() } else { 0 };
        self.buckets_at() + (self.segment_count as usize + 1) * buckets
    }

    /// Returns the possible sizes of packet memory in bytes: the segments, and less than one more.
    pub(crate) fn packet_bytes(&self) -> RangeInclusive<usize> {
        let least = self.segment_bytes.saturating_mul(self.segment_count as usize);
        least..=least.saturating_add(self.segment_bytes - 1)
    }

    /// Returns the size of a segment's column of buckets, in bytes.
    pub(crate) fn column_bytes(&self) -> usize {
        if self.has_buckets { self.segment_bytes / COLUMN_PART } else { 0 }
    }

    /// Returns the offset at which a segment's descs begin, downwards: its end, or the start of its
    /// column. A multiple of 16.
    #[inline]
    pub(crate) fn top(&self) -> usize {
        self.segment_bytes - self.column_bytes()
    }

    fn buckets_at(&self) -> usize {
        self.lines_at() + self.segment_count as usize * size_of::<SegmentLine>()
    }

    fn lines_at(&self) -> usize {
        DIRECTORY_AT
            + (self.directory_entries() * size_of::<u64>())
                .next_multiple_of(size_of::<SegmentLine>())
    }

    fn is_sound(&self) -> bool {
        self.segment_bytes.is_power_of_two()
            && (MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&self.segment_bytes)
            && (1..=MAX_SEGMENTS).contains(&self.segment_count)
            && (1..=MAX_READERS as u32).contains(&self.max_readers)
    }
}

/// A view of control memory.
///
/// # Invariants
/// - V1: `base` points to `geometry.control_bytes()` mapped bytes, 64-byte aligned, for as long as
///   the view is used; the holder of a view also holds the mapping (see `Memory`).
/// - V2: all accesses from any process are atomic, and every word's value is valid.
#[derive(Clone, Copy)]
pub(crate) struct ControlView {
    base: NonNull<u8>,
    geometry: Geometry,
    directory_mask: u64,
    lines_at: usize,
}

// SAFETY: V2, everything reachable through a view is atomic, so any thread may use it.
unsafe impl Send for ControlView {}
// SAFETY: V2, everything reachable through a view is atomic, so threads may share it.
unsafe impl Sync for ControlView {}

impl ControlView {
    /// Writes the header of a new log into zeroed memory.
    ///
    /// # Safety
    /// V1 must hold for `base` and `geometry`.
    pub(crate) unsafe fn create(base: NonNull<u8>, geometry: Geometry) -> Self {
        assert!(geometry.is_sound(), "unsound geometry {geometry:?}");
        let view = Self::over(base, geometry);
        let header = view.header();
        header.version.store(VERSION, Relaxed);
        header.hash_kind.store(geometry.hash_kind, Relaxed);
        header.clock_kind.store(geometry.clock_kind, Relaxed);
        header.segment_bytes.store(geometry.segment_bytes as u64, Relaxed);
        header.segment_count.store(geometry.segment_count, Relaxed);
        header.max_readers.store(geometry.max_readers, Relaxed);
        header.buckets.store(if geometry.has_buckets { BUCKETS as u32 } else { 0 }, Relaxed);
        header.state.0.store(STATE_OPEN, Relaxed);
        header.magic.store(MAGIC, Release); // pairs with `attach`: the rest is visible
        view
    }

    /// Reads and checks the header of a log that another process made.
    ///
    /// # Safety
    /// `base` must point to `mapped_bytes` bytes, 64-byte aligned, mapped while the view lives.
    pub(crate) unsafe fn attach(
        base: NonNull<u8>,
        mapped_bytes: usize,
    ) -> Result<Self, AttachError> {
        if mapped_bytes < DIRECTORY_AT {
            return Err(AttachError::NotALog { reason: "its control memory is too small" });
        }
        // SAFETY: the header fits in the mapping, checked above; V2.
        let header = unsafe { base.cast::<Header>().as_ref() };
        if Word64::load(&header.magic, Acquire) != MAGIC {
            return Err(AttachError::NotALog { reason: "its magic number is missing" });
        }
        let version = header.version.load(Relaxed);
        if version != VERSION {
            return Err(AttachError::Version { theirs: version, ours: VERSION });
        }
        let geometry = Geometry {
            segment_bytes: header.segment_bytes.load(Relaxed) as usize,
            segment_count: header.segment_count.load(Relaxed),
            max_readers: header.max_readers.load(Relaxed),
            hash_kind: header.hash_kind.load(Relaxed),
            clock_kind: header.clock_kind.load(Relaxed),
            has_buckets: header.buckets.load(Relaxed) == BUCKETS as u32,
        };
        if !geometry.is_sound() || geometry.control_bytes() > mapped_bytes {
            return Err(AttachError::NotALog { reason: "its geometry contradicts its size" });
        }
        Ok(Self::over(base, geometry))
    }

    fn over(base: NonNull<u8>, geometry: Geometry) -> Self {
        let directory_mask = geometry.directory_entries() as u64 - 1;
        Self { base, geometry, directory_mask, lines_at: geometry.lines_at() }
    }

    /// Returns the geometry, as checked when the view was made.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn header(&self) -> &Header {
        // SAFETY: V1, the header is inside the mapping; V2.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Returns the line of a segment in `[0, segment_count)`.
    #[inline]
    pub(crate) fn line(&self, segment: u32) -> &SegmentLine {
        assert!(segment < self.geometry.segment_count, "segment {segment} is out of range");
        let at = self.lines_at + segment as usize * size_of::<SegmentLine>();
        // SAFETY: V1, the segment is in range, so its line is inside; lines are aligned; V2.
        unsafe { self.base.add(at).cast::<SegmentLine>().as_ref() }
    }

    /// Returns the bucket counts before a segment in `[0, segment_count)`, in a log with buckets.
    pub(crate) fn buckets(&self, segment: u32) -> Option<&BucketLine> {
        assert!(segment < self.geometry.segment_count, "segment {segment} is out of range");
        self.bucket_line(segment)
    }

    /// Returns the bucket counts so far, in a log with buckets.
    pub(crate) fn bucket_totals(&self) -> Option<&BucketLine> {
        self.bucket_line(self.geometry.segment_count)
    }

    fn bucket_line(&self, segment: u32) -> Option<&BucketLine> {
        let at = self.geometry.buckets_at() + segment as usize * size_of::<BucketLine>();
        // SAFETY: V1, the geometry has a line for each segment, and one more, after the segments'
        // lines, which are aligned. So this line is inside; V2.
        self.geometry.has_buckets.then(|| unsafe { self.base.add(at).cast().as_ref() })
    }

    /// Returns whether the writer has ended the log. Everything it published is then visible.
    pub(crate) fn is_closed(&self) -> bool {
        self.ending().is_some()
    }

    /// Returns how the writer ended the log, if it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        // Pairs with the Release in `close`.
        match Word32::load(&self.header().state.0, Acquire) {
            STATE_CLOSED => Some(Ending::Final),
            STATE_STOPPED => Some(Ending::Stopped),
            _ => None,
        }
    }

    /// Writer: ends the log.
    pub(crate) fn close(&self, ending: Ending) {
        let state = match ending {
            Ending::Final => STATE_CLOSED,
            Ending::Stopped => STATE_STOPPED,
        };
        self.header().state.0.store(state, Release); // pairs with the Acquire in `ending`
    }

    pub(crate) fn port_name(&self, port: u8) -> &PortName {
        let at = NAMES_AT + usize::from(port) * size_of::<PortName>();
        // SAFETY: V1, there is an entry for every possible port number, below the directory;
        // entries are aligned; V2.
        unsafe { self.base.add(at).cast::<PortName>().as_ref() }
    }

    /// Returns the number of packets published over the log's life: the next packet's number.
    ///
    /// Exact for some moment during the call. If the writer opens segments faster than this
    /// function can read, the last attempt counts, which may mix two moments.
    pub(crate) fn published(&self) -> u64 {
        let mut published = 0;
        for _ in 0..PUBLISHED_TRIES {
            let head = Word64::load(self.head(), Acquire); // pairs with `open`
            let entry = DirectoryEntry::from_bits(Word64::load(self.directory(head), Acquire));
            let segment = entry.segment();
            if head == 0 || segment >= self.geometry.segment_count {
                return 0;
            }
            let mark = protocol::watch(self, segment);
            let first_packet = Word64::load(&self.line(segment).first_packet, Acquire);
            published = first_packet.wrapping_add(u64::from(mark.count()));
            // This Acquire pairs with the fence of `pinned`: if the number belonged to a later use
            // of the segment, its retirement would be visible here.
            let after = protocol::watch(self, segment);
            if mark.sequence() == head && after.sequence() == head && !after.is_retired() {
                break;
            }
        }
        published
    }

    /// Returns the oldest sequence number that can still be entered; 0 before the first segment.
    /// Changes under the seats' lock; without it, it is only a starting point for a search.
    pub(crate) fn oldest(&self) -> &AtomicU64 {
        &self.header().oldest.0
    }

    /// Packets whose verdicts are no longer needed: see `verdict`.
    pub(crate) fn settled(&self) -> &AtomicU64 {
        &self.header().settled.0
    }

    /// Returns the writer's state of seat `index`, in `[0, MAX_READERS)`.
    pub(crate) fn seat_state(&self, index: usize) -> &AtomicU32 {
        &self.header().seats[index]
    }
}

impl Control for ControlView {
    type Word = AtomicU64;

    fn fence(&self) {
        fence(Ordering::SeqCst); // the fence of edges E2 and E4
    }

    #[inline]
    fn light_fence(&self) {
        barrier::light();
    }

    fn settle(&self) {
        copy::settle();
    }

    fn let_time_pass(&self) {
        let start_ns = clock::monotonic_ns();
        while clock::monotonic_ns() - start_ns < STORE_NS {
            spin_loop();
        }
    }

    fn fence_everywhere(&self) -> bool {
        barrier::everywhere()
    }

    fn segment_count(&self) -> u32 {
        self.geometry.segment_count
    }

    fn head(&self) -> &AtomicU64 {
        &self.header().head.0
    }

    fn directory(&self, sequence: u64) -> &AtomicU64 {
        let at = DIRECTORY_AT + (sequence & self.directory_mask) as usize * size_of::<u64>();
        // SAFETY: V1, the mask keeps the entry inside; entries are aligned to 8; V2.
        unsafe { self.base.add(at).cast::<AtomicU64>().as_ref() }
    }

    #[inline]
    fn watermark(&self, segment: u32) -> &AtomicU64 {
        &self.line(segment).watermark.0
    }
}

/// A reader's mapping is read-only, and Rust allows only relaxed loads from read-only memory. So an
/// acquire load is a relaxed load and a fence, which is at least as strong. Source:
/// `std::sync::atomic`, "Atomic accesses to read-only memory".
#[cfg(not(tsan))]
macro_rules! load {
    ($word:expr, $order:expr) => {{
        let value = $word.load(Relaxed);
        if $order != Relaxed {
            fence($order);
        }
        value
    }};
}

/// ThreadSanitizer supports orderings but no fences. It runs on machines whose acquire load is one
/// instruction that only reads, so read-only memory is no problem (`scripts/tsan`).
#[cfg(tsan)]
macro_rules! load {
    ($word:expr, $order:expr) => {
        $word.load($order)
    };
}

impl Word64 for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        load!(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

impl Word32 for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        load!(self, order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }
}

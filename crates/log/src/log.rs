//! Makes logs and gives seats to readers.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use burstline_sys::barrier;
use burstline_sys::memory::{Mapping, NodeId, PageChoice, Placement, Region, RegionRequest};

use crate::buckets::Buckets;
use crate::budget::{Budget, Budgets};
use crate::control::{ControlView, Geometry, MAX_READERS, MAX_WINDOW};
use crate::cycle;
use crate::error::{AttachError, CreateError};
use crate::handoff::Handoff;
use crate::page::PAGE_BYTES;
use crate::protocol::{Control, Payer, ReaderPage};
use crate::reader::Reader;
use crate::seat::{Policy, SEAT_FREE, SeatEntry, SeatHandle};
use crate::verdict::Column;
use crate::wake::Gone;
use crate::writer::Writer;

/// The smallest segment, in bytes.
pub const MIN_SEGMENT_BYTES: usize = 4096;
/// The largest segment, in bytes: a desc must hold any offset in it, a watermark any count.
pub const MAX_SEGMENT_BYTES: usize = 2 << 20;
/// The fewest segments of a log: one being filled, one being read, one between.
pub const MIN_SEGMENTS: usize = 3;
/// The largest packet memory of logs made together: a desc must hold any offset in it.
const MAX_TOGETHER_BYTES: usize = 1 << 32;

/// The shape of a log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// A name for people, shown in `/proc/PID/maps`.
    pub name: String,
    /// Size of the packet memory, a multiple of `segment_bytes`.
    pub bytes: usize,
    /// Size of one segment: a power of two in `[MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES]`.
    pub segment_bytes: usize,
    /// The page size of the packet memory.
    pub pages: PageChoice,
    /// The NUMA node of the log's reader; `None` leaves the choice to the kernel.
    pub node: Option<NodeId>,
    /// The way packets go to the readers: see [`Handoff`].
    pub handoff: Handoff,
    /// The most readers at a time, in `[1, MAX_READERS]`.
    pub max_readers: usize,
    /// Whether lossless readers, which may hold up the writer, are allowed.
    pub allow_lossless: bool,
    /// How long a lossless reader may hold up the writer before it is demoted to lossy, in ns;
    /// `None` for no limit. Shorter times add up, unless the [source can wait][waits].
    ///
    /// [waits]: crate::Writer::set_source_waits
    pub lossless_deadline_ns: Option<u64>,
    /// The kind of the descs' flow hash: a code of the layer that computes it, 0 for none.
    pub hash_kind: u32,
    /// The clock of the packets' times: a code of the layer that takes them, 0 if unknown.
    pub clock_kind: u32,
    /// How long packets can be read after every reader has passed them, in ns, if memory suffices:
    /// see [`Log::history`]. With `None`, memory is reused as soon as possible, which stays in the
    /// cache.
    pub keep_ns: Option<u64>,
    /// Bytes of segments in rotation while readers keep up; the rest of the memory is used if they
    /// do not. `None` derives it from the machine's caches, as `crates/log/src/handover/cycle.rs`
    /// says.
    pub cycle_bytes: Option<usize>,
    /// Whether packets get the [bucket](crate::bucket_of) of their hash, so that each reader can
    /// take a [part](Log::part). Costs a 64th of each segment, 2 KiB of control memory per segment,
    /// and some ten of the writer's instructions per packet.
    pub has_buckets: bool,
    /// Whether one reader may give verdicts on its packets, for a [`VerdictTaker`] to take.
    ///
    /// [`VerdictTaker`]: crate::VerdictTaker
    pub takes_verdicts: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            name: "log".into(),
            bytes: 64 << 20,
            segment_bytes: 256 << 10,
            pages: PageChoice::Auto,
            node: None,
            handoff: Handoff::Auto,
            max_readers: 16,
            allow_lossless: true,
            lossless_deadline_ns: None,
            hash_kind: 0,
            clock_kind: 0,
            keep_ns: None,
            cycle_bytes: None,
            has_buckets: false,
            takes_verdicts: false,
        }
    }
}

impl LogConfig {
    /// Adapts the configuration for one of `logs` logs that are used together. Unless `cycle_bytes`
    /// is set, the logs divide the caches among them.
    pub fn one_of(self, logs: usize) -> Self {
        Self { cycle_bytes: self.cycle_bytes.or(Some(cycle::of_each(logs))), ..self }
    }

    /// Returns the shape of a log with this number of the smallest segments.
    #[cfg(test)]
    pub(crate) fn small(segments: usize) -> Self {
        let pages = PageChoice::Size4K;
        Self { bytes: segments * 4096, segment_bytes: 4096, pages, ..Self::default() }
    }

    /// Returns the number of segments in rotation.
    pub(crate) fn cycle(&self) -> usize {
        self.cycle_bytes.unwrap_or_else(|| cycle::of_each(1)).div_ceil(self.segment_bytes)
    }

    fn packet_region(&self, bytes: usize) -> Result<Region, CreateError> {
        Ok(Region::create(&RegionRequest {
            name: format!("burstline-{}", self.name),
            bytes,
            pages: self.pages,
            node: self.node,
        })?)
    }

    fn geometry(&self) -> Result<Geometry, CreateError> {
        let (least, most) = (MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        let bytes = self.segment_bytes;
        if !bytes.is_power_of_two() || !(least..=most).contains(&bytes) {
            return Err(CreateError::SegmentBytes { bytes, least, most });
        }
        let segments = self.bytes / bytes;
        let most = crate::watermark::MAX_SEGMENTS as usize;
        if !(MIN_SEGMENTS..=most).contains(&segments) {
            return Err(CreateError::Segments {
                log_bytes: self.bytes,
                segment_bytes: bytes,
                segments,
                least: MIN_SEGMENTS,
                most,
            });
        }
        if !(1..=MAX_READERS).contains(&self.max_readers) {
            return Err(CreateError::Readers { asked: self.max_readers, most: MAX_READERS });
        }
        Ok(Geometry {
            segment_bytes: bytes,
            segment_count: segments as u32,
            max_readers: self.max_readers as u32,
            hash_kind: self.hash_kind,
            clock_kind: self.clock_kind,
            has_buckets: self.has_buckets,
        })
    }
}

/// The first packet of a new reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// The first packet published after its seat was taken. From then on the publisher counts it
    /// among its readers.
    #[default]
    Now,
    /// The first packet of the newest segment, or the first of the log if there is none yet.
    Segment,
    /// The first packet of the oldest segment that can be entered, or the first of the log if there
    /// is none yet.
    Oldest,
}

/// The seat that a reader requests.
#[derive(Clone, Copy, Debug)]
pub struct ReaderConfig {
    /// Whether the reader may be lapped, or holds up the writer.
    pub policy: Policy,
    /// The number of segments it may hold at the same time, in `[1, MAX_WINDOW]`.
    pub window: usize,
    /// The reader's first packet.
    pub start: Start,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self { policy: Policy::Lossy, window: 1, start: Start::Segment }
    }
}

/// The mapped memory of a log, held by the writer, its readers and the publisher.
pub(crate) struct Memory {
    pub(crate) control: ControlView,
    /// The first byte of the first segment.
    pub(crate) packets: NonNull<u8>,
    /// What its readers do before they sleep.
    pub(crate) payer: Payer,
    /// Keeps the memory of the first two fields mapped.
    pub(crate) held: Held,
}

impl Memory {
    /// Returns whether the log was made in this process, so that its writer is this crate's.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.held, Held::Own { .. })
    }
}

pub(crate) enum Held {
    Own { packets: Arc<Region>, control: Region },
    Attached { _packets: Mapping, _control: Mapping },
}

// SAFETY: the pointer is only a number here. Readers read below published counts under a pin,
// and only the one `Writer` writes, into segments that no pin names (protocol I1, I2).
unsafe impl Send for Memory {}
// SAFETY: a shared `Memory` gives out addresses and atomics only. To read or write behind the
// pointer is unsafe in itself, under the same two invariants (protocol I1, I2).
unsafe impl Sync for Memory {}

/// A log's publisher: gives seats to readers. [`Log::create`] also makes the [`Writer`].
#[derive(Clone)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    /// The buckets that its readers take; `None` for all.
    pub(crate) part: Option<Buckets>,
}

/// State shared by the writer and the threads that give out seats, in the publisher's process only.
pub(crate) struct Shared {
    pub(crate) memory: Arc<Memory>,
    pub(crate) config: LogConfig,
    /// Whether its packet memory is also that of other logs.
    pub(crate) is_together: bool,
    seats: Mutex<Vec<Arc<SeatEntry>>>,
    pub(crate) gone: Gone,
    pub(crate) budgets: Budgets,
    /// Incremented with each change of `seats`, under their lock. The writer reads it without the
    /// lock after each publish to learn that its list of possible sleepers is out of date. It
    /// orders no other memory; a change seen late costs a sleeper one timeout.
    pub(crate) version: AtomicU64,
    /// Segments whose packets went past the caches. A statistic: it orders no other memory.
    pub(crate) far_segments: AtomicU64,
    /// The lowest age at which the writer had to give up a kept segment, in ns; `u64::MAX` if it
    /// never had to. A statistic: it orders no other memory.
    pub(crate) shortest_ns: AtomicU64,
    /// The column of the reader that gives verdicts, if any.
    verdicts: Mutex<Option<Arc<Column>>>,
    /// Incremented with each change of `verdicts`, under their lock, like `version`.
    pub(crate) verdicts_version: AtomicU64,
}

impl Log {
    /// Makes a log and its only writer.
    pub fn create(config: LogConfig) -> Result<(Self, Writer), CreateError> {
        let geometry = config.geometry()?;
        let packets = config.packet_region(config.bytes)?;
        Self::over(config, geometry, &Arc::new(packets), 0, false)
    }

    /// Makes `count` logs of the same shape in one region of memory, each with its only writer. A
    /// [`Weave`](crate::Weave) makes bursts of their packets. Only readers of this process can
    /// attach.
    ///
    /// # Errors
    /// As [`create`](Self::create); also if the region would be larger than offsets can express.
    pub fn create_together(
        config: &LogConfig,
        count: usize,
    ) -> Result<Vec<(Self, Writer)>, CreateError> {
        let geometry = config.geometry()?;
        let each = geometry.segment_count as usize * geometry.segment_bytes;
        let bytes = each.saturating_mul(count);
        if bytes > MAX_TOGETHER_BYTES {
            return Err(CreateError::Together { bytes, most: MAX_TOGETHER_BYTES });
        }
        let packets = Arc::new(config.packet_region(bytes)?);
        let make = |number: usize| {
            let name = format!("{}-{number}", config.name);
            let config = LogConfig { name, bytes: each, ..config.clone() };
            Self::over(config, geometry, &packets, number * each, true)
        };
        (0..count).map(make).collect()
    }

    /// Makes a log whose segments begin at byte `at` of `packets`. All of them are in there.
    fn over(
        config: LogConfig,
        geometry: Geometry,
        packets: &Arc<Region>,
        at: usize,
        is_together: bool,
    ) -> Result<(Self, Writer), CreateError> {
        let control = Region::create(&RegionRequest {
            name: format!("burstline-{}-control", config.name),
            bytes: geometry.control_bytes(),
            pages: PageChoice::Size4K,
            node: config.node,
        })?;
        // SAFETY: the region is that large, page-aligned and zeroed, and `Memory` keeps it mapped.
        let view = unsafe { ControlView::create(control.as_ptr(), geometry) };
        // SAFETY: the segments from `at` on are in the region.
        let packets_at = unsafe { packets.as_ptr().add(at) };
        let held = Held::Own { packets: Arc::clone(packets), control };
        let payer = if barrier::register() { Payer::Sleeper } else { Payer::Time };
        let memory = Arc::new(Memory { control: view, packets: packets_at, payer, held });
        let seats = Mutex::new(Vec::with_capacity(config.max_readers)); // never grows
        let gone = Gone::new();
        let [version, far_segments, verdicts_version] = [0; 3].map(AtomicU64::new);
        let verdicts = Mutex::default();
        let shortest_ns = AtomicU64::new(u64::MAX);
        let shared = Shared {
            memory,
            config,
            is_together,
            seats,
            gone,
            budgets: Budgets::default(),
            version,
            far_segments,
            shortest_ns,
            verdicts,
            verdicts_version,
        };
        let shared = Arc::new(shared);
        let writer = Writer::new(Arc::clone(&shared));
        Ok((Self { shared, part: None }, writer))
    }

    /// Attaches a reader in this process.
    pub fn attach(&self, config: ReaderConfig) -> Result<Reader, AttachError> {
        let entry = self.shared.take_seat(&config, true, Arc::default())?;
        let handle = SeatHandle::own(entry, Arc::clone(&self.shared));
        Ok(Reader::new(Arc::clone(&self.shared.memory), handle, config.start, self.part))
    }

    /// Returns the same log, restricted to `buckets`: its readers see, count and miss only these
    /// packets. They take ordinary seats of the log, and wait for the packets of the whole log.
    ///
    /// # Panics
    /// If the log was made without [buckets](LogConfig::has_buckets).
    pub fn part(&self, buckets: Buckets) -> Self {
        assert!(self.shared.config.has_buckets, "a log without buckets has no parts");
        Self { part: Some(buckets), ..self.clone() }
    }

    /// Tells readers the link type (`LINKTYPE_...`) and the name of port number `port`; the name is
    /// cut to 58 bytes. Must be called before packets of that port are published; the first name
    /// stays.
    pub fn name_port(&self, port: u8, link: u32, name: &str) {
        let _one_at_a_time = self.shared.lock();
        self.shared.memory.control.port_name(port).write(link, name);
    }

    /// Frees the memory of readers that left, once the writer has dropped it. An attach does so,
    /// too. Not for the writer's thread: it costs two system calls per reader.
    pub fn tidy(&self) {
        self.shared.gone.take_away();
    }

    /// Returns the packets published over the log's life; for a part, those of its buckets.
    pub fn published(&self) -> u64 {
        let control = &self.shared.memory.control;
        self.part.map_or_else(|| control.published(), |part| control.counted(part))
    }

    /// Returns the number of segments opened so far.
    pub fn segments(&self) -> u64 {
        self.shared.memory.control.head().load(Relaxed) // a statistic
    }

    /// Returns the number of segments whose packets went past the caches: see [`Handoff`].
    pub fn far_segments(&self) -> u64 {
        self.shared.far_segments.load(Relaxed) // a statistic
    }

    /// Returns the number of seats taken, by readers of this process and of others.
    pub fn readers(&self) -> usize {
        self.shared.lock().len()
    }

    /// Returns the sum of the windows of these readers: the segments that they may hold together.
    pub fn windows(&self) -> usize {
        self.shared.lock().iter().map(|seat| seat.window).sum()
    }

    /// Returns the memory of the packets and its actual placement.
    pub fn placement(&self) -> &Placement {
        match &self.shared.memory.held {
            Held::Own { packets, .. } => packets.placement(),
            Held::Attached { .. } => unreachable!("a publisher owns its memory"),
        }
    }

    /// Returns the address of the segments and their size in bytes, for a device that writes into
    /// segments [handed out](Writer::hand_out) to it. They stay mapped while this log, a clone of
    /// it, its writer or a reader lives.
    pub fn packet_memory(&self) -> (NonNull<u8>, usize) {
        (self.shared.memory.packets, self.shared.config.bytes)
    }

    /// Returns the configuration of the log.
    pub fn config(&self) -> &LogConfig {
        &self.shared.config
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("config", self.config()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Locks the seats, which change only under this lock. The writer tries it once a segment. It
    /// waits for it only if no retired or spare segment is left. So a reader attaches either
    /// before, and the writer sees its seat, or after, and finds the new directory.
    ///
    /// Under this lock, nobody calls the allocator, nor the kernel: a holder looks through at most
    /// [`MAX_READERS`] seats, and stores some words. Only the writer may have to free a reader's
    /// page under it: see [`Gone`].
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Arc<SeatEntry>>> {
        // A panic elsewhere cannot leave the vector half-changed: each change is one push or one
        // retain.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Vec<Arc<SeatEntry>>>> {
        match self.seats.try_lock() {
            Ok(seats) => Some(seats),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes a free seat. `is_own`: the reader is in this process.
    pub(crate) fn take_seat(
        &self,
        config: &ReaderConfig,
        is_own: bool,
        budget: Arc<Budget>,
    ) -> Result<Arc<SeatEntry>, AttachError> {
        if !(1..=MAX_WINDOW).contains(&config.window) {
            return Err(AttachError::Window { asked: config.window, most: MAX_WINDOW });
        }
        if config.policy == Policy::Lossless && !self.config.allow_lossless {
            return Err(AttachError::LosslessNotAllowed);
        }
        // Before anything is created: this may free the memory that is needed.
        self.gone.take_away();
        // Created before the lock is taken: nobody may wait for system calls and the allocator.
        let page = Region::create_shared("burstline-reader", PAGE_BYTES)?;
        let (window, policy) = (config.window, config.policy);
        let mut entry = Arc::new(SeatEntry::new(is_own, window, policy, budget, page));
        let mut seats = self.lock();
        let readers = self.config.max_readers;
        let taken = |index| seats.iter().any(|seat| seat.index == index);
        let Some(index) = (0..readers).find(|&index| !taken(index)) else {
            return Err(AttachError::Full { readers });
        };
        let control = &self.memory.control;
        let segments = control.geometry().segment_count as usize;
        let windows = seats.iter().map(|seat| seat.window).sum::<usize>() + config.window;
        if windows + MIN_SEGMENTS - 1 > segments {
            return Err(AttachError::Pool { windows, segments });
        }
        if let Some(entry) = Arc::get_mut(&mut entry) {
            entry.index = index; // nobody else has the entry yet
        }
        // Once the seat is listed, the writer keeps the head, or the oldest, for this reader. So
        // the cursor is stored first.
        let first = match config.start {
            Start::Oldest => control.oldest().load(Relaxed), // changes under the same lock
            Start::Now | Start::Segment => control.head().load(Acquire),
        };
        entry.page.cursor().store(first.max(1), Release);
        entry.page.say([0, 0, control.published()]);
        control.seat_state(index).store(config.policy.code(), Relaxed);
        seats.push(Arc::clone(&entry));
        self.version.fetch_add(1, Relaxed);
        Ok(entry)
    }

    /// Returns the column of the reader that currently gives verdicts.
    pub(crate) fn verdict_column(&self) -> Option<Arc<Column>> {
        self.lock_verdicts().clone()
    }

    /// Locks the verdict column. Only the publisher takes this lock: when a verdict giver comes or
    /// goes, and once after that.
    pub(crate) fn lock_verdicts(&self) -> MutexGuard<'_, Option<Arc<Column>>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner) // one word
    }

    pub(crate) fn leave_seat(&self, entry: &Arc<SeatEntry>) {
        let mut seats = self.lock();
        seats.retain(|seat| !Arc::ptr_eq(seat, entry));
        self.memory.control.seat_state(entry.index).store(SEAT_FREE, Relaxed);
        self.version.fetch_add(1, Relaxed);
    }
}

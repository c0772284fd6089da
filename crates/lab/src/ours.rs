//! Our side of the hand-off figures: the whole API of the log, as a program would use it.

use std::hint::spin_loop;
use std::ops::Range;

use burstline_log::{
    Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start, Writer, WriterStatistics,
};
use burstline_sys::memory::{PageChoice, PageKind};

use crate::rivals::{BURST, Run};
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Frames, Traffic};

/// Segment size of the log in every figure: the default.
pub const SEGMENT_BYTES: usize = 256 << 10;

/// A log with its writer and one lossless reader.
pub struct Ours {
    log: Log,
    writer: Apart<Writer>,
    reader: Apart<Reader>,
    burst: usize,
}

/// Data that one thread changes all the time, kept away from data of the other thread. On a shared
/// cache line they would halve each other's speed.
#[repr(align(128))]
struct Apart<T>(T);

impl Ours {
    /// A log of `bytes` bytes of packet memory.
    ///
    /// # Errors
    /// As [`Log::create`] and [`Log::attach`], as a sentence.
    pub fn create(bytes: usize, pages: PageChoice) -> Result<Self, String> {
        let (name, segment_bytes) = ("bench".to_owned(), SEGMENT_BYTES);
        let config = LogConfig { name, bytes, segment_bytes, pages, ..LogConfig::default() };
        let (log, writer) = Log::create(config).map_err(|error| error.to_string())?;
        let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
        let reader = log.attach(seat).map_err(|error| error.to_string())?;
        Ok(Self { log, writer: Apart(writer), reader: Apart(reader), burst: BURST })
    }

    /// Shows the reader this many packets at a time, at least 1.
    pub fn in_bursts(self, burst: usize) -> Self {
        assert!(burst > 0, "a burst has packets");
        Self { burst, ..self }
    }

    /// The kind of page it lies in.
    pub fn page(&self) -> PageKind {
        self.log.placement().page
    }

    /// What the writer has done.
    pub fn statistics(&self) -> WriterStatistics {
        self.writer.0.statistics()
    }

    /// The two ends.
    pub fn ends(&mut self) -> (&mut Writer, &mut Reader) {
        (&mut self.writer.0, &mut self.reader.0)
    }

    /// Hands `packets` packets over, a multiple of a burst.
    pub fn hand_off(&mut self, cores: Cores, traffic: &Traffic, packets: u64) -> Run {
        let burst = self.burst;
        let (writer, reader) = self.ends();
        let done = run_together(
            cores,
            move || match burst {
                // The usual number is one that the compiler knows.
                BURST => produce(writer, traffic, 0..packets as u32),
                _ => produce_in_bursts(writer, traffic, 0..packets as u32, burst),
            },
            move || consume(reader, packets),
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }
}

/// Both sides in turns on this thread, a burst each. Returns the sum.
pub fn take_turns(ours: &mut Ours, traffic: &Traffic, packets: u64) -> u64 {
    let (writer, reader) = ours.ends();
    (0..packets as u32).step_by(BURST).fold(0, |sum: u64, first| {
        produce(writer, traffic, first..first + BURST as u32);
        sum.wrapping_add(consume(reader, BURST as u64))
    })
}

/// Writes and publishes these packets, a multiple of [`BURST`], each made in place.
pub(crate) fn produce(writer: &mut Writer, traffic: &Traffic, packets: Range<u32>) {
    produce_in_bursts(writer, traffic, packets, BURST);
}

/// As [`produce`], in bursts of this many.
#[inline(always)]
fn produce_in_bursts(writer: &mut Writer, traffic: &Traffic, packets: Range<u32>, burst: usize) {
    produce_by(writer, traffic.length(), packets, burst, |at, counter| {
        // SAFETY: `at` is valid for writes of `length` bytes, and the template is no part of the
        // log.
        unsafe { traffic.fill(at, counter) };
    });
}

/// As [`produce`], each copied from where it was received.
pub(crate) fn copy_in(writer: &mut Writer, received: &Frames, packets: u64) {
    produce_by(writer, received.length(), 0..packets as u32, BURST, |at, counter| {
        // SAFETY: `at` is valid for writes of `length` bytes and is no part of the frames.
        unsafe { received.copy_to(at, counter) };
    });
}

/// `fill` is given room for `length` bytes.
#[inline(always)]
fn produce_by(
    writer: &mut Writer,
    length: usize,
    packets: Range<u32>,
    burst: usize,
    fill: impl Fn(*mut u8, u32),
) {
    for first in packets.step_by(burst) {
        let mut batch = writer.batch();
        let mut next = first;
        let end = first + burst as u32;
        while next < end {
            let filled = batch.fill((end - next) as usize, length, |number, room| {
                let counter = next + number as u32;
                fill(room.as_ptr(), counter);
                let mut meta = Meta::new(traffic::time_of(counter), length as u32, 0);
                meta.hash = traffic::hash_of(counter);
                meta
            });
            next += filled as u32;
            if next < end {
                spin_loop();
            }
        }
        drop(batch);
        writer.publish();
    }
}

pub(crate) fn consume(reader: &mut Reader, packets: u64) -> u64 {
    let (mut sum, mut seen) = (0_u64, 0_u64);
    while seen < packets {
        let Some(burst) = reader.next_burst() else {
            spin_loop();
            continue;
        };
        seen += burst.len() as u64;
        sum = sum.wrapping_add(traffic::digest_of(&burst));
    }
    sum
}

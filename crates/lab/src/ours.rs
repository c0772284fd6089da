//! Burstline's side of the hand-off figures: uses the log's API as an application would.

use std::hint::spin_loop;
use std::ops::Range;

use burstline_log::{
    Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start, Writer, WriterStatistics,
};
use burstline_sys::memory::{PageChoice, PageKind};

use crate::rivals::{BURST, Run};
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Frames, Traffic};

/// Segment size of the log in every figure; the default.
pub const SEGMENT_BYTES: usize = 256 << 10;

/// A log with its writer and one lossless reader.
pub struct Ours {
    log: Log,
    writer: Apart<Writer>,
    reader: Apart<Reader>,
    burst: usize,
}

/// Data that one thread changes all the time, on cache lines that the other thread does not use.
/// False sharing would halve the speed of both.
#[repr(align(128))]
struct Apart<T>(T);

impl Ours {
    /// Creates a log with `bytes` bytes of packet memory.
    ///
    /// # Errors
    /// Errors of [`Log::create`] and [`Log::attach`], as a sentence.
    pub fn create(bytes: usize, pages: PageChoice) -> Result<Self, String> {
        let (name, segment_bytes) = ("bench".to_owned(), SEGMENT_BYTES);
        let config = LogConfig { name, bytes, segment_bytes, pages, ..LogConfig::default() };
        let (log, writer) = Log::create(config).map_err(|error| error.to_string())?;
        let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
        let reader = log.attach(seat).map_err(|error| error.to_string())?;
        Ok(Self { log, writer: Apart(writer), reader: Apart(reader), burst: BURST })
    }

    /// Publishes this many packets at a time, at least 1.
    pub fn in_bursts(self, burst: usize) -> Self {
        assert!(burst > 0, "a burst has packets");
        Self { burst, ..self }
    }

    /// Returns the page kind of the log.
    pub fn page(&self) -> PageKind {
        self.log.placement().page
    }

    /// Returns the writer's counters.
    pub fn statistics(&self) -> WriterStatistics {
        self.writer.0.statistics()
    }

    /// Returns the writer and the reader.
    pub fn ends(&mut self) -> (&mut Writer, &mut Reader) {
        (&mut self.writer.0, &mut self.reader.0)
    }

    /// Hands over `packets` packets, a multiple of the burst.
    pub fn hand_off(&mut self, cores: Cores, traffic: &Traffic, packets: u64) -> Run {
        let burst = self.burst;
        let (writer, reader) = self.ends();
        let done = run_together(
            cores,
            move || match burst {
                // The usual burst size is a constant, so that the compiler knows it.
                BURST => produce(writer, traffic, 0..packets as u32),
                _ => produce_in_bursts(writer, traffic, 0..packets as u32, burst),
            },
            move || consume(reader, packets),
        );
        Run { seconds: done.seconds, sum: done.consumer }
    }
}

/// Writes and reads on this thread, a burst each in turn. Returns the sum.
pub fn take_turns(ours: &mut Ours, traffic: &Traffic, packets: u64) -> u64 {
    let (writer, reader) = ours.ends();
    (0..packets as u32).step_by(BURST).fold(0, |sum: u64, first| {
        produce(writer, traffic, first..first + BURST as u32);
        sum.wrapping_add(consume(reader, BURST as u64))
    })
}

/// Writes and publishes these packets, a multiple of [`BURST`], built in place.
pub(crate) fn produce(writer: &mut Writer, traffic: &Traffic, packets: Range<u32>) {
    produce_in_bursts(writer, traffic, packets, BURST);
}

/// Like [`produce`], with bursts of this size.
#[inline(always)]
fn produce_in_bursts(writer: &mut Writer, traffic: &Traffic, packets: Range<u32>, burst: usize) {
    produce_by(writer, traffic.length(), packets, burst, |at, counter| {
        // SAFETY: `at` is valid for writes of `length` bytes, and the template is not in the log.
        unsafe { traffic.fill(at, counter) };
    });
}

/// Like [`produce`], but copies each packet from where it was received.
pub(crate) fn copy_in(writer: &mut Writer, received: &Frames, packets: u64) {
    produce_by(writer, received.length(), 0..packets as u32, BURST, |at, counter| {
        // SAFETY: `at` is valid for writes of `length` bytes and does not point into the frames.
        unsafe { received.copy_to(at, counter) };
    });
}

/// Calls `fill` with space for `length` bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_is_copied_in_as_it_is_read() {
        for length in [60, 1514] {
            let traffic = Traffic::new(length);
            let mut ours = Ours::create(4 * SEGMENT_BYTES, PageChoice::Size4K).unwrap();
            let packets = 4 * BURST as u64;
            let received = Frames::new(&traffic, packets);
            let (writer, reader) = ours.ends();
            copy_in(writer, &received, packets);
            assert_eq!(consume(reader, packets), traffic.expected(packets), "{length} bytes");
            assert_eq!(ours.statistics().packets, packets);
        }
    }
}

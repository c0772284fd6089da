//! Several logs with one writer thread, which puts each packet into one of them.
//!
//! Invariant L1: a packet passed to `give` is in a log, or counted as refused by it.

use std::time::Duration;

use burstline_log::{Appended, BUCKETS, Packet, Writer};
use burstline_sys::clock;

use super::LogCounts;
use crate::runtime::Tally;
use crate::runtime::clock::JobClock;

/// Interval between two attempts to append to a full log.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// How long a finished job waits for a log that no reader drains, in ns.
const PATIENCE_NS: u64 = 500_000_000;

/// The result of giving a packet to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// The log has the whole packet.
    Whole,
    /// The log has a truncated packet: no segment has room for its end. Counts the bytes left out,
    /// and a packet if it was whole before. A packet that was not is already counted as truncated.
    Cut(Tally),
    /// The log was full and still is.
    Refused,
}

/// Logs, by their numbers in `[0, count)`.
pub(crate) struct Lanes<'a> {
    writers: Vec<Writer>,
    /// Packets refused by a full log, by log.
    refused: Vec<u64>,
    /// Whether to wait for a full log.
    is_waiting: bool,
    clock: &'a JobClock<'a>,
    /// Until when a finished job waits for each log since it last had room, on the monotonic clock.
    until_ns: Vec<Option<u64>>,
}

impl<'a> Lanes<'a> {
    /// Writes into these logs. If `is_waiting`, waits for a full log, until some time after the job
    /// is over.
    pub(crate) fn new(writers: Vec<Writer>, is_waiting: bool, clock: &'a JobClock<'a>) -> Self {
        let (refused, until_ns) = (vec![0; writers.len()], vec![None; writers.len()]);
        Self { writers, refused, is_waiting, clock, until_ns }
    }

    /// Appends a packet to log `number`.
    #[inline]
    pub(crate) fn give(&mut self, number: usize, packet: &Packet<'_>) -> Given {
        let (bytes, meta) = (packet.bytes(), packet.meta());
        self.put(number, packet, |writer| writer.append(bytes, &meta))
    }

    #[inline]
    fn put(
        &mut self,
        number: usize,
        packet: &Packet<'_>,
        append: impl Fn(&mut Writer) -> Appended,
    ) -> Given {
        match append(&mut self.writers[number]) {
            Appended::Whole => Given::Whole,
            Appended::Truncated => self.cut(number, packet),
            Appended::Full => self.insist(number, packet, append),
        }
    }

    /// Returns the bytes that log `number` has left out of a packet.
    #[cold]
    fn cut(&self, number: usize, packet: &Packet<'_>) -> Given {
        let (here, most) = (packet.length(), self.writers[number].max_packet_bytes());
        let was_whole = here == packet.original_length();
        let (packets, bytes) = (u64::from(was_whole), here.saturating_sub(most) as u64);
        Given::Cut(Tally { packets, bytes, wire_bytes: 0 })
    }

    #[cold]
    #[inline(never)]
    fn insist(
        &mut self,
        number: usize,
        packet: &Packet<'_>,
        append: impl Fn(&mut Writer) -> Appended,
    ) -> Given {
        // Readers must see the packets before they can release them.
        self.publish();
        while self.is_waiting && self.has_patience(number) {
            std::thread::sleep(LOOK_EVERY);
            let appended = append(&mut self.writers[number]);
            if appended != Appended::Full {
                self.until_ns[number] = None;
                return match appended {
                    Appended::Truncated => self.cut(number, packet),
                    Appended::Whole | Appended::Full => Given::Whole,
                };
            }
        }
        self.refused[number] += 1;
        Given::Refused
    }

    fn has_patience(&mut self, number: usize) -> bool {
        let now_ns = clock::monotonic_ns();
        if !self.clock.is_over(now_ns) {
            return true;
        }
        now_ns < *self.until_ns[number].get_or_insert(now_ns + PATIENCE_NS)
    }

    /// Publishes all packets.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.writers.iter_mut().for_each(Writer::publish);
    }

    /// Returns the counts of each log.
    pub(crate) fn written(&self) -> impl Iterator<Item = LogCounts> {
        self.writers.iter().map(Writer::statistics)
    }

    /// Returns the packets of each bucket that log `number` has published, if it counts them.
    pub(crate) fn bucket_counts(&self, number: usize) -> Option<[u64; BUCKETS]> {
        self.writers[number].bucket_counts()
    }

    /// Returns the packets refused by each log.
    pub(crate) fn refused(&self) -> &[u64] {
        &self.refused
    }

    /// Returns the writers, to be finished.
    pub(crate) fn into_writers(self) -> Vec<Writer> {
        self.writers
    }
}

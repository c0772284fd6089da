//! Several logs with one writing thread, which puts each packet into one of them.
//!
//! Invariant L1: a packet that was given is in a log, or counted as refused by it.

use std::time::Duration;

use burstline_log::{Appended, BUCKETS, Packet, Writer};
use burstline_sys::clock;

use super::LogCounts;
use crate::runtime::Tally;
use crate::runtime::clock::JobClock;

/// Between two looks whether a full log has room.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// How long a job that is over waits for a log that nobody reads, in ns.
const PATIENCE_NS: u64 = 500_000_000;

/// What became of a packet that was given to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// It is there.
    Whole,
    /// It is there without its end, which no segment has room for: the bytes left out, of a packet
    /// if it was whole before. One that was not is counted as cut already.
    Cut(Tally),
    /// The log was full, and is.
    Refused,
}

/// Logs, by their numbers in `[0, count)`.
pub(crate) struct Lanes<'a> {
    writers: Vec<Writer>,
    /// Packets that a full log had no room for, by log.
    refused: Vec<u64>,
    /// Whether a full log is waited for.
    is_waiting: bool,
    clock: &'a JobClock<'a>,
    /// Until when a job that is over waits for each log since it last had room: monotonic clock.
    until_ns: Vec<Option<u64>>,
}

impl<'a> Lanes<'a> {
    /// Writes into these logs; where one is full, waits for it if `is_waiting`, until some time
    /// after the job is over.
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

    /// What log `number` has left out of a packet that it holds.
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
        // A reader has to see what there is, in order to let go of it.
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

    /// Makes all packets visible.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.writers.iter_mut().for_each(Writer::publish);
    }

    /// What was written into each log.
    pub(crate) fn written(&self) -> impl Iterator<Item = LogCounts> {
        self.writers.iter().map(Writer::statistics)
    }

    /// Packets of each bucket that log `number` has published, where it counts them.
    pub(crate) fn bucket_counts(&self, number: usize) -> Option<[u64; BUCKETS]> {
        self.writers[number].bucket_counts()
    }

    /// Packets that each log had no room for.
    pub(crate) fn refused(&self) -> &[u64] {
        &self.refused
    }

    /// The writers, to be ended.
    pub(crate) fn into_writers(self) -> Vec<Writer> {
        self.writers
    }
}

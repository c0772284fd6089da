//! Follows an order of several logs' packets: reads them where they are, in that order.
//!
//! ```text
//! order     | chunk: 3 of log 0 from 17, 2 of log 1 from 5; 0 1 0 0 1 | ...
//! log 0     ... | 17 | 18 | 19 | ...            a reader of each log pins its segment
//! log 1     ... | 5 | 6 | ...
//! burst     17  5  18  19  6                    descs only; packets stay where they are
//! ```
//!
//! The follower's own readers hold the packets: a lossless one holds up its log's writer, a lossy
//! one is lapped. So a segment is free as soon as merger and follower have passed it, and no packet
//! needs another to hold it. What an order names was published before, and the follower finds it
//! (edge E7 of `crates/log/src/handover/promise.rs`), unless it was overwritten since.
//!
//! Invariant F1: for each log, packets given + missed = packets that its reader has passed. Missed
//! are those that were overwritten, and those that no chunk names.

use burstline_log::{Burst, Reader, Weave, WeavePart};

use crate::merge::chunk::{self, Row};
use crate::merge::recycle;

/// The state of a follower, beside its readers.
pub(crate) struct Follow {
    /// Reads the chunks.
    order: Reader,
    woven: Woven,
    /// The order has ended, and the logs were read to their end.
    is_over: bool,
}

/// What a follower makes of one chunk.
struct Woven {
    weave: Weave,
    /// One for each log.
    lines: Vec<Line>,
    /// A buffer, empty between two bursts.
    parts: Vec<WeavePart<'static>>,
}

/// The packets of one log that are named in the current chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Those that were not looked for yet.
    named: Row,
    /// Those next in the order that were overwritten.
    gone: u64,
    /// Those that the reader has taken after them.
    taken: usize,
    /// Those of them that were given.
    used: usize,
    /// Packets given, of all chunks.
    given: u64,
}

impl Follow {
    /// `order` is a lossless reader of the chunks, `weave` that of the `logs` logs they are about.
    pub(crate) fn new(order: Reader, weave: Weave, logs: usize) -> Self {
        let woven = Woven { weave, lines: vec![Line::default(); logs], parts: Vec::new() };
        Self { order, woven, is_over: false }
    }

    /// Gives all packets that the next chunks name to `give`, and returns whether there was a
    /// chunk. `readers` are those of the logs.
    pub(crate) fn poll(
        &mut self,
        readers: &mut [Reader],
        mut give: impl FnMut(&Burst<'_>),
    ) -> bool {
        let Some(chunks) = self.order.next_burst() else {
            if self.order.is_finished() && !self.is_over {
                readers.iter_mut().for_each(read_to_end);
                self.is_over = true;
            }
            return false;
        };
        for chunk in chunks.packets() {
            self.woven.follow(chunk.bytes(), readers, &mut give);
        }
        true
    }

    /// Returns whether all chunks were followed, and all logs read to their end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sleeps until there is a chunk, `most_ns` at most. Returns whether there is one.
    pub(crate) fn sleep(&self, most_ns: u64) -> bool {
        self.order.wait(most_ns);
        self.order.lag() > 0
    }

    /// Returns the packets of each log that were passed and not given (F1).
    pub(crate) fn missed(&self, readers: &[Reader]) -> Vec<u64> {
        let missed = |(reader, line): (&Reader, &Line)| {
            let passed = reader.statistics();
            passed.delivered + passed.missed - line.given
        };
        readers.iter().zip(&self.woven.lines).map(missed).collect()
    }
}

/// Passes the packets that no chunk names. The log has ended.
fn read_to_end(reader: &mut Reader) {
    while !reader.is_finished() {
        reader.take_up_to(u64::MAX);
    }
}

impl Woven {
    /// Gives the packets of a chunk. Cost: some twenty instructions a packet.
    fn follow(&mut self, chunk: &[u8], readers: &mut [Reader], give: &mut impl FnMut(&Burst<'_>)) {
        let (rows, mut keys) = chunk::split(chunk, self.lines.len());
        for ((line, named), reader) in self.lines.iter_mut().zip(rows).zip(&mut *readers) {
            line.named = named;
            line.find(reader);
        }
        while let Some((&key, rest)) = keys.split_first() {
            let line = &mut self.lines[usize::from(key)];
            if line.gone > 0 {
                line.gone -= 1;
                keys = rest;
            } else if line.used == line.taken {
                // The rest is in the log's next segment.
                assert!(line.named.packets > 0, "a chunk has more keys of {key} than its row");
                line.find(&mut readers[usize::from(key)]);
            } else {
                keys = &keys[self.give(readers, keys, give)..];
            }
        }
    }

    /// Gives a burst of the packets that come next and are taken. Returns how many.
    fn give(
        &mut self,
        readers: &[Reader],
        keys: &[u8],
        give: &mut impl FnMut(&Burst<'_>),
    ) -> usize {
        let mut parts = recycle(std::mem::take(&mut self.parts), WeavePart::default);
        parts.extend(self.lines.iter().zip(readers).map(|(line, reader)| line.part(reader)));
        let burst = self.weave.weave(&mut parts, keys);
        give(&burst);
        let given = burst.len();
        for (line, part) in self.lines.iter_mut().zip(&parts) {
            if line.gone == 0 {
                let used = line.taken - part.left();
                line.given += (used - line.used) as u64;
                line.used = used;
            }
        }
        self.parts = recycle(parts, WeavePart::default);
        given
    }
}

impl Line {
    /// Makes the reader take the next of the named packets: those in its segment. Packets before
    /// them that nobody named are passed, and those that were overwritten are noted.
    fn find(&mut self, reader: &mut Reader) {
        (self.taken, self.used) = (0, 0);
        while self.named.packets > 0 && self.taken == 0 {
            let taken = reader.take_up_to(self.named.packets.into());
            let Some(first) = reader.taken().map(|burst| burst.first_packet()) else {
                // They were published, so the writer has overwritten what the reader has passed.
                self.lose_before(if reader.is_finished() { u64::MAX } else { reader.position() });
                std::hint::spin_loop(); // the writer may be lapping the reader right now
                continue;
            };
            if let Some(unnamed @ 1..) = self.named.first_packet.checked_sub(first) {
                reader.put_back(taken.saturating_sub(unnamed));
                continue;
            }
            self.lose_before(first);
            let kept = taken.min(self.named.packets.into());
            reader.put_back(taken - kept);
            self.taken = kept as usize;
            self.name_later(kept as u32); // as in `lose_before`
        }
    }

    /// Notes that those of the named packets before number `first` were overwritten.
    fn lose_before(&mut self, first: u64) {
        let gone = first.saturating_sub(self.named.first_packet).min(self.named.packets.into());
        self.gone += gone;
        self.name_later(gone as u32); // at most as many as are named
    }

    /// Removes packets from the start of those that are named.
    fn name_later(&mut self, packets: u32) {
        self.named.first_packet += u64::from(packets);
        self.named.packets -= packets;
    }

    /// Returns the packets that are taken and not given, if they are next in the order.
    fn part<'a>(&self, reader: &'a Reader) -> WeavePart<'a> {
        let taken = reader.taken().filter(|_| self.gone == 0 && self.used < self.taken);
        taken.map_or_else(WeavePart::default, |burst| WeavePart::new(&burst.split_at(self.used).1))
    }
}

//! The merging thread as its own recorder: it reads what it has published and gives it to the sink.
//!
//! For a sink that costs next to nothing, such as one that counts. The reader never holds up the
//! log: it has read everything before the next chunk is copied.

use burstline_log::Reader;
use burstline_port::Sink;

use crate::Progress;
use crate::runtime::clock::JobClock;
use crate::runtime::logs::record::Recorded;

/// A recorder without a thread.
pub(super) struct OwnRecorder<'a> {
    reader: Reader,
    sink: &'a mut dyn Sink,
    recorded: Recorded,
}

impl<'a> OwnRecorder<'a> {
    /// `reader` is lossless: if a chunk is longer than the log, the log is full, and copying
    /// resumes once the chunk's start was read.
    pub(super) fn new(reader: Reader, sink: &'a mut dyn Sink) -> Self {
        Self { reader, sink, recorded: Recorded::new() }
    }

    /// Records all published packets. Cost: a pass over the worklist.
    pub(super) fn catch_up(&mut self, clock: &JobClock<'_>) {
        while let Some(burst) = self.reader.next_burst() {
            self.recorded.record(&burst, self.sink, clock);
        }
    }

    pub(super) fn show(&self, progress: &Progress) {
        if let Some(counter) = progress.recorded.first() {
            counter.store(&self.recorded.total());
        }
    }

    /// Returns what was recorded; call it when everything is published.
    pub(super) fn end(mut self, clock: &JobClock<'_>) -> Recorded {
        self.catch_up(clock);
        self.recorded.missed = vec![self.reader.statistics().missed];
        self.recorded
    }
}

//! The merging thread as the log's reader: what it has published it gives to the sink itself.
//!
//! For a sink that costs next to nothing, as one that counts. The reader never holds the log up:
//! it has read everything before the next chunk is copied.

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
    /// `reader` is a lossless one: a chunk that is longer than the log then finds that full, and
    /// goes on behind what was read.
    pub(super) fn new(reader: Reader, sink: &'a mut dyn Sink) -> Self {
        Self { reader, sink, recorded: Recorded::new() }
    }

    /// Records all that is published. Cost: a pass over the worklist.
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

    /// What it has to tell; to be called when all is published.
    pub(super) fn end(mut self, clock: &JobClock<'_>) -> Recorded {
        self.catch_up(clock);
        self.recorded.missed = vec![self.reader.statistics().missed];
        self.recorded
    }
}

//! Distributes frames from the wire to the queues.

use std::ops::Range;

use burstline_log::Burst;

use super::queue::ReceiveQueue;
use crate::fifo::Frame;
use crate::meter::Meter;
use crate::rss::Spreader;

/// The receivers of arriving frames.
pub(super) struct Arrivals<'a> {
    /// At least one queue.
    pub(super) queues: &'a mut [ReceiveQueue],
    pub(super) spreader: &'a mut Spreader,
    pub(super) meter: &'a mut Meter,
    pub(super) is_hashing: bool,
    /// Whether metadata other than the hash is reported.
    pub(super) has_metadata: bool,
    pub(super) longest: usize,
    /// Numbers of frames for which the link is down; empty if it is up for all of these.
    pub(super) link_down: Range<u64>,
    /// Number of the first frame.
    pub(super) number: u64,
}

impl Arrivals<'_> {
    /// Takes all frames and returns their bytes.
    pub(super) fn take(&mut self, frames: &Burst<'_>) -> u64 {
        // If neither a frame's hash nor its number matters, all frames are treated alike.
        if self.is_hashing || !self.link_down.is_empty() {
            return self.take_each(frames);
        }
        let (mut rest, mut all_bytes) = (*frames, 0);
        while !rest.is_empty() {
            let (packets, bytes) = self.queues[0].arrive_run(&rest, self.longest, self.meter);
            // The frame that ended the run, if any, is handled alone: the reason may be the frame
            // or the buffer.
            let left = rest.split_at(packets).1;
            let (first, more) = left.split_at(left.len().min(1));
            all_bytes += bytes + self.take_each(&first);
            rest = more;
        }
        all_bytes
    }

    fn take_each(&mut self, frames: &Burst<'_>) -> u64 {
        let mut all_bytes = 0;
        for (packet, number) in frames.packets().zip(self.number..) {
            let bytes = packet.bytes();
            let metadata = self.spreader.describe(bytes, self.is_hashing, self.has_metadata);
            let queue = &mut self.queues[self.spreader.queue(metadata.hash)];
            queue.counts.arrived += 1;
            all_bytes += bytes.len() as u64;
            if self.link_down.contains(&number) {
                queue.counts.link_down += 1;
            } else if bytes.len() > self.longest {
                queue.counts.too_long += 1;
            } else {
                queue.arrive(&Frame { bytes, metadata, time_ns: packet.time_ns() }, self.meter);
            }
        }
        all_bytes
    }
}

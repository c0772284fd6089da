//! Decides when a file is full.

use burstline_log::Burst;
use burstline_wire::files::Sketch;

use super::Rotation;

/// Maximum overhead of a packet in a file: a block, padding, its share of worklist and sketch.
const AROUND_BYTES: u64 = 32 + 3 + 4;

/// Further overhead of a packet: options, and the closing block of a segment. The sketch of a file,
/// in its last segment, is extra.
const SPARE_BYTES: u64 = 32 + 152;

/// The contents of the file so far.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Filled {
    pub(in super::super) packets: u64,
    pub(in super::super) bytes: u64,
}

/// Decides which packets still belong to the file.
#[derive(Debug)]
pub(in super::super) struct Rules {
    rotation: Rotation,
    /// The size of a segment; 0 if there are none.
    segment_bytes: u64,
    /// The period of the file, in ns since 1970; set by its first packet.
    begin_ns: u64,
    end_ns: u64,
}

impl Rules {
    /// With `segment_bytes`, files consist of segments of this size; a size limit is then rounded
    /// to whole segments, unless it is below two.
    pub(in super::super) fn new(rotation: &Rotation, segment_bytes: Option<u64>) -> Self {
        let in_segments = |bytes: u64| match segment_bytes {
            Some(segment) if bytes >= 2 * segment => bytes - bytes % segment,
            _ => bytes,
        };
        let rotation = Rotation { bytes: rotation.bytes.map(in_segments), ..*rotation };
        Self { rotation, segment_bytes: segment_bytes.unwrap_or(0), begin_ns: 0, end_ns: 0 }
    }

    /// Returns how many packets at the start of a burst still belong to the file: if 0, it is full.
    /// The first packet of a file always belongs to it. A repeated call may find more room.
    ///
    /// Cost: a check of each packet if files are limited by bytes or time.
    pub(in super::super) fn room(&mut self, burst: &Burst<'_>, filled: Filled) -> usize {
        let most = self.rotation.packets.map_or(u64::MAX, |most| most - filled.packets.min(most));
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(burst.len());
        let is_timed = self.is_timed();
        if self.rotation.bytes.is_none() && !is_timed {
            return most;
        }
        let (mut room, mut bytes, mut longest) = (0, filled.bytes, 0);
        for packet in burst.packets().take(most) {
            let length = packet.length() as u64 + AROUND_BYTES;
            // A segment may end here, with a rest too small for a packet.
            if self.segment_bytes > 0 && bytes - filled.bytes > self.segment_bytes / 2 {
                break;
            }
            (bytes, longest) = (bytes + length, length.max(longest));
            let is_first = filled.packets == 0 && room == 0;
            if is_first {
                self.set_times(packet.time_ns());
            }
            let slack = match self.segment_bytes {
                0 => 0,
                segment => longest + SPARE_BYTES + Sketch::most_bytes(segment),
            };
            let is_full = self.rotation.bytes.is_some_and(|most| bytes + slack > most);
            if !is_first && (is_full || is_timed && self.is_another_time(packet.time_ns())) {
                break;
            }
            room += 1;
        }
        room
    }

    /// Whether files are limited by time.
    pub(in super::super) fn is_timed(&self) -> bool {
        self.rotation.duration_ns.is_some() || self.rotation.interval_ns.is_some()
    }

    /// Whether the time of the file, which has packets, is over.
    pub(in super::super) fn is_over_at(&self, now_ns: u64) -> bool {
        self.is_timed() && now_ns >= self.end_ns
    }

    /// Sets the file's period, from its first packet.
    fn set_times(&mut self, first_ns: u64) {
        self.begin_ns = first_ns;
        self.end_ns =
            self.rotation.duration_ns.map_or(u64::MAX, |span| first_ns.saturating_add(span));
        if let Some(interval) = self.rotation.interval_ns {
            self.begin_ns = first_ns - first_ns % interval;
            self.end_ns = self.end_ns.min(self.begin_ns.saturating_add(interval));
        }
    }

    /// Whether a packet belongs to a later file. A slightly late packet stays; a clock set back by
    /// more than a file's period begins a new one.
    fn is_another_time(&self, time_ns: u64) -> bool {
        let span = self.end_ns.saturating_sub(self.begin_ns);
        time_ns >= self.end_ns || time_ns.saturating_add(span) < self.begin_ns
    }
}

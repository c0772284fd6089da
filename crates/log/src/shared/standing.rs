//! Statistics about a log: how full it is, and how far the readers of its own process are.
//!
//! Reading them affects the writer only by the lock of the seats. The writer tries it once a
//! segment; a read holds it for two loads and a copy of a short list.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::log::Log;
use crate::protocol::Control;
use crate::seat::SeatEntry;

/// The state of a log at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStanding {
    /// Segments that can be read: some reader has not passed them yet, or they are kept.
    pub segments: u64,
    /// Seats taken by readers of this and of other processes.
    pub readers: usize,
    /// Readers of this process.
    pub own: Vec<OwnReader>,
}

/// A reader of the publisher's own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnReader {
    /// The number of its seat.
    pub seat: usize,
    /// Packets published that it has not read yet; of all parts.
    pub lag_packets: u64,
}

impl Log {
    /// Returns how full the log is, and how far its readers of this process are. Cost: two
    /// allocations, and some loads for each reader.
    pub fn standing(&self) -> LogStanding {
        let control = &self.shared.memory.control;
        let mut own: Vec<Arc<SeatEntry>> = Vec::with_capacity(self.shared.config.max_readers);
        let seats = self.shared.lock();
        // These loads order no memory. Under this lock, `oldest` does not change.
        let (oldest, head) = (control.oldest().load(Relaxed), control.head().load(Relaxed));
        let readers = seats.len();
        own.extend(seats.iter().filter(|seat| seat.is_own).cloned());
        drop(seats);
        let own_reader = |seat: Arc<SeatEntry>| {
            // Loaded before the published count, which is therefore not smaller.
            let [_, _, next_packet] = seat.page.said();
            let lag_packets = control.published().saturating_sub(next_packet);
            OwnReader { seat: seat.index, lag_packets }
        };
        LogStanding {
            segments: if oldest > 0 { (head + 1).saturating_sub(oldest) } else { 0 },
            readers,
            own: own.into_iter().map(own_reader).collect(),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::{Appended, Log, LogConfig, Meta, Policy, ReaderConfig, Start};

    #[test]
    fn a_log_says_what_is_held_and_how_far_each_own_reader_is() {
        let config = LogConfig { bytes: 1 << 20, segment_bytes: 64 << 10, ..LogConfig::default() };
        let (log, mut writer) = Log::create(config).unwrap();
        assert_eq!((log.standing().segments, log.standing().own.len()), (0, 0));
        let seat = |start| {
            let config = ReaderConfig { policy: Policy::Lossy, start, ..ReaderConfig::default() };
            log.attach(config).unwrap()
        };
        let (mut quick, _slow) = (seat(Start::Oldest), seat(Start::Oldest));
        let remote = log.attach_remote(ReaderConfig::default()).unwrap();
        let mut packets = 0;
        while log.segments() < 5 {
            let appended = writer.append(&[7; 1000], &Meta::new(1, 1000, 0));
            assert_eq!(appended, Appended::Whole);
            packets += 1;
            writer.publish();
        }
        while quick.next_burst().is_some() {}
        let standing = log.standing();
        let lags: Vec<u64> = standing.own.iter().map(|reader| reader.lag_packets).collect();
        assert_eq!((standing.readers, lags), (3, vec![0, packets]));
        assert_eq!(standing.segments, 5, "the slow one has yet to read all");
        drop(remote);
        assert_eq!(log.standing().readers, 2);
    }
}

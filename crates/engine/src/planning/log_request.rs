//! Derives the shape of a job's log from the user's request.

use burstline_log::{Handoff, LogConfig, MAX_READERS, MIN_SEGMENT_BYTES};
use burstline_port::Address;
use burstline_sys::memory::{NodeId, PageChoice};
use burstline_wire::hash::HashKind;

use crate::Threads;

/// The smallest default memory of one log of several, in bytes.
const LEAST_BYTES: usize = 4 << 20;

/// The size of a segment that holds the longest packets in files, in bytes.
const FILE_SEGMENT_BYTES: usize = 512 << 10;

/// The user's request for a job's log, or for each of its logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// Its packet memory in bytes, or the size of the kernel's ring if there is no log.
    pub bytes: Option<usize>,
    /// Its segment size, in bytes.
    pub segment_bytes: Option<usize>,
    /// The kind of memory pages.
    pub pages: Option<PageChoice>,
    /// How packets are handed off to readers.
    pub handoff: Handoff,
    /// Whether other programs may read it.
    pub is_published: bool,
    /// The number of logs that share the default memory, if they do; at least 1.
    pub divided_by: Option<usize>,
}

impl LogRequest {
    /// The default packet memory of a log, in bytes.
    pub const BYTES: usize = 64 << 20;

    /// Returns the packet memory of each log, in bytes.
    pub fn bytes(&self) -> usize {
        match (self.bytes, self.divided_by) {
            (Some(bytes), _) => bytes,
            (None, None) => Self::BYTES,
            (None, Some(logs)) => (Self::BYTES / logs.max(1)).max(LEAST_BYTES),
        }
    }

    /// Returns whether the user set anything but the size of the log's shape.
    pub fn has_shape(&self) -> bool {
        self.segment_bytes.is_some() || self.pages.is_some() || self.handoff != Handoff::Auto
    }

    /// Returns the log's shape. It has a seat for one reader, plus the default number if published.
    pub fn config(&self, sources: &[Address], hash: HashKind, node: Option<NodeId>) -> LogConfig {
        let default = LogConfig::default();
        let readers = if self.is_published { default.max_readers } else { 0 };
        LogConfig {
            name: "capture".to_owned(),
            bytes: self.bytes(),
            segment_bytes: self.segment_bytes.unwrap_or_else(|| self.segment_for(sources)),
            pages: self.pages.unwrap_or_default(),
            handoff: self.handoff,
            hash_kind: hash.code().into(),
            node,
            max_readers: (readers + 1).min(MAX_READERS),
            ..default
        }
    }

    /// Returns how deep a live source's own queue must be, in bytes, to need no log. This is for
    /// jobs in which one core does all the work, and the user set at most the log's size.
    pub fn queue_bytes(&self, sources: &[Address], threads: &Threads) -> Option<usize> {
        let is_alone = sources.len() == 1 && threads.cores.len() < 2;
        let needs_a_log = self.has_shape() || self.is_published;
        (is_alone && !needs_a_log).then(|| self.bytes())
    }

    /// Returns the size of a segment that holds every packet of these sources. If a job has several
    /// logs, it is smaller when a log would have fewer than four segments.
    fn segment_for(&self, sources: &[Address]) -> usize {
        let has_files = sources.iter().any(Address::is_file);
        let usual = if has_files { FILE_SEGMENT_BYTES } else { LogConfig::default().segment_bytes };
        if self.divided_by.is_none() {
            return usual;
        }
        let quarter = 1 << (self.bytes() / 4).checked_ilog2().unwrap_or(0);
        usual.min(quarter).max(MIN_SEGMENT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(request: LogRequest, source: &str) -> usize {
        request.config(&[source.parse().unwrap()], HashKind::None, None).segment_bytes
    }

    #[test]
    fn several_logs_divide_the_usual_memory_and_have_four_segments_each() {
        let of = |logs| LogRequest { divided_by: Some(logs), ..LogRequest::default() };
        assert_eq!([1, 4, 64].map(|logs| of(logs).bytes() >> 20), [64, 16, 4]);
        assert_eq!(LogRequest::default().bytes(), LogRequest::BYTES);
        assert_eq!(segment(of(4), "gen:"), LogConfig::default().segment_bytes);
        assert_eq!(segment(of(4), "file:x"), FILE_SEGMENT_BYTES);
        let small = LogRequest { bytes: Some(1 << 20), ..of(4) };
        assert_eq!((small.bytes(), segment(small, "file:x")), (1 << 20, 256 << 10));
        let alone = LogRequest { divided_by: None, ..small };
        assert_eq!(segment(alone, "file:x"), FILE_SEGMENT_BYTES, "what does not fit is refused");
    }

    #[test]
    fn a_queue_is_as_deep_as_a_log_where_there_is_none() {
        let (one, threads) = (["afpacket:lo".parse().unwrap()], Threads::default());
        let request = LogRequest { bytes: Some(8 << 20), ..LogRequest::default() };
        assert_eq!(request.queue_bytes(&one, &threads), Some(8 << 20));
        let published = LogRequest { is_published: true, ..request };
        assert_eq!(published.queue_bytes(&one, &threads), None);
        let shaped = LogRequest { segment_bytes: Some(1 << 18), ..request };
        assert_eq!(shaped.queue_bytes(&one, &threads), None);
    }
}

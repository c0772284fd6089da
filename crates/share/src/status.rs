//! A publisher's report about itself and its readers, on request: `doctor logs`.

use std::path::PathBuf;

use burstline_log::Policy;

/// The most logs of one name.
pub(crate) const LOGS_MAX: usize = 64;
/// The most readers that an answer lists.
pub(crate) const READERS_MAX: usize = LOGS_MAX * burstline_log::MAX_READERS;

/// The status of a published name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherStatus {
    /// Its socket.
    pub path: PathBuf,
    /// The number of this publisher of the name: the next one's is larger by one.
    pub epoch: u64,
    /// The publisher's process, according to the publisher.
    pub pid: u32,
    /// The publisher's user, according to the kernel.
    pub uid: u32,
    /// How long it has published, in seconds.
    pub up_s: u64,
    /// Its logs.
    pub logs: Vec<LogStatus>,
    /// Its readers in other processes: one entry for each seat.
    pub readers: Vec<ReaderStatus>,
}

/// The status of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// Packets published since the log began.
    pub published: u64,
    /// The number of its segments.
    pub segments: u64,
    /// The size of one segment, in bytes.
    pub segment_bytes: u64,
    /// Seats taken, including those of the publisher's own threads.
    pub readers: u64,
    /// The number of its seats.
    pub max_readers: u64,
    /// How far back it can be read, in ns; 0 if it keeps no history.
    pub kept_ns: u64,
}

/// The status of a seat of a reader in another process. The publisher knows the process, the user
/// and the connection; the counts are the reader's own claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderStatus {
    /// The number of the log within the name, from 0.
    pub log: u32,
    /// The number of the seat.
    pub seat: u32,
    /// The reader's process; 0 if it is in another process namespace.
    pub pid: u32,
    /// The reader's user.
    pub uid: u32,
    /// The number of segments it may hold.
    pub window: u32,
    /// The number of segments it holds now.
    pub held_segments: u32,
    /// Packets it has read.
    pub delivered: u64,
    /// Packets it has missed.
    pub missed: u64,
    /// Packets published that it has not read yet.
    pub lag_packets: u64,
    /// How long it has been attached, in seconds.
    pub attached_s: u64,
    /// Whether it may hold up the writer.
    pub policy: Policy,
    /// Whether it copies and checks packets, according to the reader.
    pub is_untrusted: bool,
    /// Whether the writer has stopped waiting for it.
    pub is_demoted: bool,
    /// Whether it has mapped the log yet.
    pub is_claimed: bool,
    /// Its command, up to 15 bytes, from `/proc/PID/comm`.
    pub command: String,
}

/// All readers of a publisher's logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Readers so far, each counted once however many logs it reads.
    pub total: u64,
    /// The most readers at a time.
    pub peak: usize,
    /// The seats of the first thousand readers that left, as they were then.
    pub gone: Vec<ReaderStatus>,
    /// Seats of other readers that left.
    pub gone_omitted: u64,
    /// The seats of current readers, at the same moment: no reader is in both lists or in neither.
    pub there: Vec<ReaderStatus>,
}

/// Returns the text up to the first 0 or line feed, with control characters replaced.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0 || byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

//! What a publisher reports about itself and its readers on request: `doctor logs`.

use std::path::PathBuf;

use burstline_log::Policy;

/// The most logs that one name can stand for.
pub(crate) const LOGS_MAX: usize = 64;
/// The most readers that an answer can list.
pub(crate) const READERS_MAX: usize = LOGS_MAX * burstline_log::MAX_READERS;

/// A published name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherStatus {
    /// Its socket.
    pub path: PathBuf,
    /// Which publisher of the name it is: the next one's number is one more.
    pub epoch: u64,
    /// The publisher's process, by its own word.
    pub pid: u32,
    /// The publisher's user, by the kernel's.
    pub uid: u32,
    /// For how long it has published, in seconds.
    pub up_s: u64,
    /// Its logs.
    pub logs: Vec<LogStatus>,
    /// Its readers in other processes: one entry for each seat.
    pub readers: Vec<ReaderStatus>,
}

/// One log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// Packets published since it began.
    pub published: u64,
    /// How many segments it has.
    pub segments: u64,
    /// One segment's size.
    pub segment_bytes: u64,
    /// Seats taken, those of the publisher's own threads included.
    pub readers: u64,
    /// Seats that there are.
    pub max_readers: u64,
    /// How far back it can be read, in ns; 0 where it keeps no past.
    pub kept_ns: u64,
}

/// One seat that a reader of another process sits on. Process, user and what is said of the
/// connection are the publisher's knowledge; the counts are the reader's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Which log of the name, from 0.
    pub log: u32,
    /// The seat's number.
    pub seat: u32,
    /// The reader's process; 0 if it is of another process namespace.
    pub pid: u32,
    /// The reader's user.
    pub uid: u32,
    /// How many segments it may hold.
    pub window: u32,
    /// How many it holds now.
    pub held_segments: u32,
    /// Packets it has read.
    pub delivered: u64,
    /// Packets it has missed.
    pub missed: u64,
    /// Packets published that it has yet to read.
    pub lag_packets: u64,
    /// For how long it has been attached, in seconds.
    pub attached_s: u64,
    /// Whether it may hold the writer up.
    pub policy: Policy,
    /// Whether it copies and checks, by its own word.
    pub is_untrusted: bool,
    /// Whether the writer lost patience with it.
    pub is_demoted: bool,
    /// Whether it has mapped the log yet.
    pub is_claimed: bool,
    /// Its command, up to 15 bytes, from `/proc/PID/comm`.
    pub command: String,
}

/// Everybody who has read a publisher's logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Readers over its life, each counted once however many logs it reads.
    pub total: u64,
    /// The most at a time.
    pub peak: usize,
    /// The seats of those that have gone, as they were then; the first thousand.
    pub gone: Vec<ReaderStatus>,
    /// Seats of others that have gone.
    pub gone_omitted: u64,
    /// The seats of those that are there, at the same moment: no reader is in both lists or in
    /// neither.
    pub there: Vec<ReaderStatus>,
}

/// Text up to the first 0, with nothing in it that could move a terminal's cursor.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0 || byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

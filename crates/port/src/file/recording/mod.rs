//! What keeps a recording: when the next file begins and what it is called, when packets are
//! safe, and what happens to a file afterwards.
//!
//! ```text
//!  recorder     write | write | write | rotate | write | ...        never waits for a disk's cache
//!                  '---marks---.          '--- the closed file ---.
//!  sync         ... fdatasync(file, folder) ... fdatasync, close ... fdatasync ...    [safe]
//!                                                    '--> on-close command, oldest file removed
//! ```
//!
//! - K1. A packet is called safe when a sync that began after it was written has returned.
//! - K2. No file is written over that a rotation finds: a name that is taken gets a number.
//! - K3. Only files that this run made are removed, and only if they are still there under their
//!   name.

mod chores;
mod names;
mod rules;
mod safe;

use burstline_sys::direct::Creation;

pub(super) use chores::Made;
pub(super) use names::Names;
pub(super) use names::with_suffix;
pub use names::{newest_numbered, numbered, rotated};
pub(super) use rules::{Filled, Rules};
pub(super) use safe::{Closed, Mark, PortTally, Safe, Unsafe};

/// How the files are written that packets go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// Mode and owner of a file, and whether a symbolic link is followed.
    pub creation: Creation,
    /// When what was written is synced; `None`: when the kernel likes to.
    pub flush: Option<Flush>,
    /// When a file is followed by the next; `None`: one file.
    pub rotation: Option<Rotation>,
    /// Recording ends before the file system has less room than this many bytes.
    pub least_free_bytes: u64,
    /// A program and its arguments, run for each file that is closed; `{}` is the file's path.
    pub on_close: Vec<String>,
    /// Whether that program keeps the rights of this one.
    pub keeps_privileges: bool,
    /// Whether each link type gets a file.
    pub splits_links: bool,
    /// What the first file goes on from.
    pub resumed: Option<Resumed>,
}

/// A recording that was broken off, and goes on in a next file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The number of the next packet.
    pub first_packet: u64,
    /// What became of it, for the next file's section comment.
    pub comment: String,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self {
            creation: Creation::default(),
            flush: Some(Flush::default()),
            rotation: None,
            least_free_bytes: 0,
            on_close: Vec::new(),
            keeps_privileges: false,
            splits_links: false,
            resumed: None,
        }
    }
}

/// When what was written is synced: as soon as one of these is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// This long after it was written, in ns.
    pub after_ns: Option<u64>,
    /// When this many bytes were written since the last sync.
    pub bytes: Option<u64>,
}

impl Default for Flush {
    /// A second, or 4 MiB.
    fn default() -> Self {
        Self { after_ns: Some(1_000_000_000), bytes: Some(4 << 20) }
    }
}

/// When a file is followed by the next: as soon as one of these is reached. Times are those of
/// packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Packets of a file.
    pub packets: Option<u64>,
    /// Bytes of a file, which no file exceeds unless one packet does.
    pub bytes: Option<u64>,
    /// Time from the first packet of a file on, in ns.
    pub duration_ns: Option<u64>,
    /// A file ends where the time is a multiple of this, in ns since 1970.
    pub interval_ns: Option<u64>,
    /// A ring: the oldest file of this run is removed when there are more.
    pub ring_files: Option<u64>,
    /// The job ends when this many files are full.
    pub most_files: Option<u64>,
    /// What files are called.
    pub naming: FileNaming,
}

/// What the files of a rotation are called, if `-w` says `FILE.ext`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileNaming {
    /// As dumpcap does: `FILE_00001_YYYYMMDDhhmmss.ext`, the local time of the first packet.
    #[default]
    Numbered,
    /// As tcpdump -C does: `FILE.ext`, `FILE.ext1`, `FILE.ext2`. In a ring all have a number, and
    /// numbers go on, so no file of the ring is ever overwritten.
    Counted,
    /// As tcpdump -G does: the name is for strftime(3), with the local time of the first packet.
    Timed,
}

//! Manages recordings: when the next file begins, how it is named, when packets are safe, and what
//! happens to a closed file.
//!
//! ```text
//!  recorder     write | write | write | rotate | write | ...        never waits for a disk's cache
//!                  '---marks---.          '--- the closed file ---.
//!  sync         ... fdatasync(file, folder) ... fdatasync, close ... fdatasync ...    [safe]
//!                                                    '--> on-close command, oldest file removed
//! ```
//!
//! - K1. A packet is called safe when a sync that began after it was written has returned.
//! - K2. No existing file is overwritten by a rotation: if a name is taken, the file gets a further
//!   number, as in `x-2.pcapng`.
//! - K3. Only files created by this run are removed, and only if they still exist under their name.
//!   A command is run for such files only.
//! - K4. Packets of a file that another program removed or replaced while it was written are lost,
//!   and the job ends with an error. A file that was moved has them.

mod before;
mod chores;
mod look;
mod names;
mod rules;
mod runs;
mod safe;
mod whereabouts;

use burstline_sys::direct::Creation;

pub(super) use before::{
    START_BYTES, comment, comment_in_run, packets_before, run_place, run_place_bytes,
};
pub(super) use chores::Made;
pub(super) use names::{Attempts, Names, numbers_behind, with_suffix};
pub use names::{check_rotated, newest_numbered, numbered, rotated, rotated_as, steady_folder};
pub(super) use rules::{Filled, Rules};
pub use runs::{RunGap, RunPiece, RunPlace, run_gaps, unfilled_gaps};
pub(super) use safe::{Closed, Mark, PortTally, Safe, Unsafe};
pub(super) use whereabouts::{Whereabouts, removed};

/// How output files are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// Mode and owner of a file, and whether a symbolic link is followed.
    pub creation: Creation,
    /// When written data is synced; `None` leaves that to the kernel.
    pub flush: Option<Flush>,
    /// When the next file begins; `None` for a single file.
    pub rotation: Option<Rotation>,
    /// Recording ends before the file system has less free space than this many bytes.
    pub least_free_bytes: u64,
    /// A program and its arguments, run for each closed file; `{}` is the file's path.
    pub on_close: Vec<String>,
    /// Whether that program keeps the privileges of this one.
    pub keeps_privileges: bool,
    /// Whether each link type gets its own file.
    pub splits_links: bool,
    /// The recording that the first file continues.
    pub resumed: Option<Resumed>,
}

/// An interrupted recording that continues in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The number of the next packet, from 0: how many packets are in the files before.
    pub first_packet: u64,
    /// What happened to it, for the next file's section comment, behind the number.
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

/// When written data is synced: at the first of these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Time since the write, in ns.
    pub after_ns: Option<u64>,
    /// Bytes written since the last sync.
    pub bytes: Option<u64>,
}

impl Default for Flush {
    /// 1 s, or 4 MiB.
    fn default() -> Self {
        Self { after_ns: Some(1_000_000_000), bytes: Some(4 << 20) }
    }
}

/// When the next file begins: at the first of these limits. Times are packet timestamps. On an idle
/// link this computer's clock ends a file, too, if the packets before were of the present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Packets of a file.
    pub packets: Option<u64>,
    /// Bytes of a file, exceeded only by a file with a single packet.
    pub bytes: Option<u64>,
    /// Time since the first packet of a file, in ns.
    pub duration_ns: Option<u64>,
    /// A file ends when the time is a multiple of this, in ns since 1970.
    pub interval_ns: Option<u64>,
    /// A ring: the oldest file of this run is removed if there are more files than this.
    pub ring_files: Option<u64>,
    /// The job ends when this many files are full.
    pub most_files: Option<u64>,
    /// How files are named.
    pub naming: FileNaming,
}

/// How the files of a rotation are named, if `-w` is `FILE.ext`. A name that is taken gets `-2` and
/// so on before its extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileNaming {
    /// As dumpcap does: `FILE_00001_YYYYMMDDhhmmss.ext`, the local time of the first packet.
    #[default]
    Numbered,
    /// As tcpdump -C does: `FILE.ext`, `FILE.ext1`, `FILE.ext2`. In a ring all files have a number,
    /// and numbers increase, so no file of the ring is ever overwritten.
    Counted,
    /// As tcpdump -G does: the name is a strftime(3) format for the first packet's local time.
    Timed,
}

//! The index beside a plain capture file: offsets, times and flows of runs of packets.
//!
//! ```text
//!  FILE.bidx   header: the file's size, times, inode | run | run | ... | CRC32C of it all
//!  run         offset in FILE, first packet, earliest, latest, is steady    | flow hashes, sorted
//! ```
//!
//! An index is a hint. It is used only if its checksum is correct and it was made of this file, by
//! size, times of modification and change, and inode. An index owned by neither the user, root nor
//! the folder's owner is not trusted: it could hide packets. Packets that it locates are decoded
//! and tested like any others. A run that is not *steady* (it describes an interface, starts a
//! section, or is damaged) is always read.
//!
//! All numbers are little-endian. The header: magic `BurstIdx`, version (4 bytes), runs (4), size,
//! seconds and ns of the last modification and of the last change, inode, device, packets (8 each).
//! A run: offset, end, first packet, earliest, latest (8 each), packets, hashes (4 each; the
//! highest bit of packets: not steady), then 4 for each hash, of kind five-tuple, ascending.

use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use burstline_sys::late;
use burstline_sys::privileges;
use burstline_wire::crc32c;
use burstline_wire::files::{Landmark, Record};
use burstline_wire::hash::{FlowHasher, HashKind};

use super::super::place;
use super::reader::{CaptureReader, Found};
use crate::PortError;
use crate::opened::OpenedFiles;

const MAGIC: &[u8; 8] = b"BurstIdx";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 80;
const RUN_BYTES: usize = 48;
/// The maximum size of an empty index. An index of packets is shorter than its file.
const EMPTY_BYTES: u64 = 4096;
const NOT_STEADY: u32 = 1 << 31;

/// Packets of a run: some hundred KB of a file, which a disk reads at once.
const RUN_PACKETS: u32 = 1024;

/// Numbers of a stamp.
pub(super) const STAMP_NUMBERS: usize = 7;

/// The identity of a file's state. Anybody may set the time of the last modification, but only the
/// kernel sets that of the last change: of the file's bytes, its times, its name or its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) [u64; STAMP_NUMBERS]);

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self([
            metadata.len(),
            metadata.mtime() as u64,
            metadata.mtime_nsec() as u64,
            metadata.ctime() as u64,
            metadata.ctime_nsec() as u64,
            metadata.ino(),
            metadata.dev(),
        ])
    }
}

/// Consecutive packets in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// File offsets of its first byte and of the first byte after it.
    pub(super) bytes: [u64; 2],
    pub(super) first_packet: u64,
    pub(super) packets: u32,
    /// Earliest and latest, in ns since 1970.
    pub(super) times_ns: [u64; 2],
    pub(super) is_steady: bool,
    /// Ascending.
    pub(super) hashes: Vec<u32>,
}

/// A loaded index.
#[derive(Debug)]
pub(super) struct Index {
    stamp: Stamp,
    pub(super) runs: Vec<Run>,
}

/// The result of creating an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Its path.
    pub path: PathBuf,
    /// Packets in the file.
    pub packets: u64,
    /// Runs in the index.
    pub runs: u64,
    /// Bytes of the index.
    pub bytes: u64,
    /// Whether a part of the file could not be decoded.
    pub is_damaged: bool,
}

/// Why a file has no index, if that is not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotIndexed {
    /// Its segments have their own.
    Segmented,
    /// Its packets are not directly accessible.
    Compressed,
    /// The user interrupted it.
    Stopped,
}

/// Returns the path of a file's index.
pub fn index_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".bidx");
    name.into()
}

/// Whether a file has an index of another state of the file, or a damaged one.
pub fn is_index_stale(file: &Path) -> bool {
    let Ok(metadata) = late::metadata(file) else { return false };
    let path = index_path(file);
    late::is_file(&path) && Index::load(file, Stamp::of(&metadata)).is_none()
}

/// Creates the index of a capture file, and replaces an existing one. `progress` gets the number of
/// bytes read, and returns whether to continue.
///
/// # Errors
/// Those of [`CaptureReader::open`]; [`PortError::Io`] if the index cannot be written.
pub fn write_index(
    file: &Path,
    progress: &mut (dyn FnMut(u64) -> bool + Send),
) -> Result<Result<Indexed, NotIndexed>, PortError> {
    let mut reader = CaptureReader::open(&file.to_string_lossy(), &OpenedFiles::default())?;
    let Some(stamp) = reader.stamp() else {
        return Ok(Err(NotIndexed::Compressed));
    };
    let built = reader.without_rights(|reader| build(reader, progress))?;
    let builder = match built {
        Ok(builder) => builder,
        Err(reason) => return Ok(Err(reason)),
    };
    let (packets, is_damaged) = (builder.packets, builder.is_damaged);
    let index = Index { stamp, runs: builder.runs };
    let path = index_path(file);
    let bytes = index.to_bytes();
    replace(&path, &bytes).map_err(|error| PortError::Io {
        action: "write",
        path: path.clone(),
        error,
    })?;
    Ok(Ok(Indexed {
        path,
        packets,
        runs: index.runs.len() as u64,
        bytes: bytes.len() as u64,
        is_damaged,
    }))
}

/// Reads a file from start to end.
fn build(
    reader: &mut CaptureReader,
    progress: &mut (dyn FnMut(u64) -> bool + Send),
) -> Result<Result<Builder, NotIndexed>, PortError> {
    let mut builder = Builder::default();
    loop {
        let found = reader.read_next()?;
        if reader.decoder().is_segmented() {
            return Ok(Err(NotIndexed::Segmented));
        }
        match found {
            Found::Packet(record) => {
                builder.add(reader, &record);
                let is_over = builder.packets.is_multiple_of(u64::from(RUN_PACKETS) * 16)
                    && !progress(reader.bytes_read());
                if is_over {
                    return Ok(Err(NotIndexed::Stopped));
                }
            }
            Found::Damage(_) | Found::Broken(_) => {
                (builder.is_damaged, builder.is_steady) = (true, false);
            }
            Found::End => break,
        }
    }
    builder.close(reader.decoder().file_offset());
    Ok(Ok(builder))
}

/// Writes an index to its path. An existing file that is not an index is kept.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Ok(metadata) = late::symlink_metadata(path) {
        let mut magic = [0; MAGIC.len()];
        let is_index = metadata.is_file()
            && late::open(path)?.read_exact(&mut magic).is_ok()
            && magic == *MAGIC;
        if !is_index {
            return Err(io::Error::other("the existing file is not an index: move it away"));
        }
    }
    place::replace(path, bytes)
}

/// Collects runs.
struct Builder {
    runs: Vec<Run>,
    hasher: FlowHasher,
    hashes: Vec<u32>,
    packets: u64,
    /// Packets in the current run.
    held: u32,
    start: u64,
    end: u64,
    times_ns: [u64; 2],
    is_steady: bool,
    is_damaged: bool,
    landmark: Landmark,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            hasher: FlowHasher::new(HashKind::FiveTuple),
            hashes: Vec::new(),
            packets: 0,
            held: 0,
            start: 0,
            end: 0,
            times_ns: [u64::MAX, 0],
            is_steady: true,
            is_damaged: false,
            landmark: Landmark::default(),
        }
    }
}

impl Builder {
    /// Adds the packet read last.
    fn add(&mut self, reader: &CaptureReader, record: &Record) {
        let (landmark, end) = (reader.decoder().landmark(), reader.decoder().file_offset());
        let time_ns = record.time_ns;
        self.is_steady &= landmark == self.landmark;
        self.landmark = landmark;
        self.hashes.push(self.hasher.hash(record.link, reader.packet(record)));
        self.times_ns = [self.times_ns[0].min(time_ns), self.times_ns[1].max(time_ns)];
        (self.packets, self.held, self.end) = (self.packets + 1, self.held + 1, end);
        if self.held == RUN_PACKETS {
            self.close(end);
        }
    }

    /// Ends the current run at a file offset.
    fn close(&mut self, end: u64) {
        if self.held > 0 || end > self.start {
            self.hashes.sort_unstable();
            self.hashes.dedup();
            self.runs.push(Run {
                bytes: [self.start, end],
                first_packet: self.packets - u64::from(self.held),
                packets: self.held,
                times_ns: self.times_ns,
                // Blocks after the last packet may matter: such a run is always read.
                is_steady: self.is_steady && self.held > 0 && self.end == end,
                hashes: std::mem::take(&mut self.hashes),
            });
        }
        (self.start, self.held, self.times_ns, self.is_steady) = (end, 0, [u64::MAX, 0], true);
    }
}

impl Index {
    /// Loads the index of a file with this `stamp`; `None` if there is no usable one.
    pub(super) fn load(file: &Path, stamp: Stamp) -> Option<Self> {
        let most = stamp.0[0].saturating_add(EMPTY_BYTES);
        let bytes = place::read_hint(&index_path(file), most).ok()?;
        let index = privileges::without_rights(|| Self::parse(&bytes)).ok()??;
        (index.stamp == stamp).then_some(index)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let packets = self.runs.last().map_or(0, |run| run.first_packet + u64::from(run.packets));
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.runs.len() as u32).to_le_bytes());
        for number in self.stamp.0.iter().chain([&packets]) {
            bytes.extend(number.to_le_bytes());
        }
        for run in &self.runs {
            for number in [run.bytes[0], run.bytes[1], run.first_packet] {
                bytes.extend(number.to_le_bytes());
            }
            run.times_ns.iter().for_each(|time_ns| bytes.extend(time_ns.to_le_bytes()));
            let steady = if run.is_steady { 0 } else { NOT_STEADY };
            bytes.extend((run.packets | steady).to_le_bytes());
            bytes.extend((run.hashes.len() as u32).to_le_bytes());
            run.hashes.iter().for_each(|hash| bytes.extend(hash.to_le_bytes()));
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Parses an index. Its bytes are untrusted, so each is checked.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
        let is_sound = crc32c::crc32c(bytes) == u32::from_le_bytes(*checksum);
        let four = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let eight = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if !is_sound || !bytes.starts_with(MAGIC) || four(8)? != VERSION {
            return None;
        }
        let mut stamp = [0; STAMP_NUMBERS];
        for (number, place) in stamp.iter_mut().enumerate() {
            *place = eight(16 + 8 * number)?;
        }
        let (mut runs, mut at, mut packets, mut end) = (Vec::new(), HEADER_BYTES, 0_u64, 0);
        for _ in 0..four(12)? {
            let (held, hashes) = (four(at + 40)?, four(at + 44)? as usize);
            let list = bytes.get(at + RUN_BYTES..)?.get(..4 * hashes)?;
            let run = Run {
                bytes: [eight(at)?, eight(at + 8)?],
                first_packet: eight(at + 16)?,
                packets: held & !NOT_STEADY,
                times_ns: [eight(at + 24)?, eight(at + 32)?],
                is_steady: held & NOT_STEADY == 0,
                hashes: list.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect(),
            };
            let follows = run.bytes[0] == end
                && run.bytes[1] > end
                && run.first_packet == packets
                && run.hashes.is_sorted();
            if !follows {
                return None;
            }
            (packets, end) = (packets.checked_add(run.packets.into())?, run.bytes[1]);
            at += RUN_BYTES + 4 * hashes;
            runs.push(run);
        }
        (at == bytes.len() && end <= stamp[0]).then_some(Self { stamp: Stamp(stamp), runs })
    }
}

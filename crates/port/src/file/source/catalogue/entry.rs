//! Entries of a catalogue in their file format.
//!
//! An entry: the stamp of its file (seven numbers), packets, time of the first, earliest, latest (8
//! bytes each). Then 4-byte words of the sketch (2 bytes), bytes of the name (2), kind (4), name,
//! sketch, and the CRC32C of all that (4).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use burstline_wire::crc32c;

use super::super::index::Stamp;
use super::Summary;

const MAGIC: &[u8; 8] = b"BurstCat";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 12;
const ENTRY_BYTES: usize = 96;

/// The maximum size of a sketch in an entry, in bytes.
pub(super) const MOST_SKETCH_BYTES: usize = 4 * u16::MAX as usize;

/// The kind of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// It is not a capture.
    Foreign,
    /// It is damaged, or not closed.
    Doubtful,
    Sound(Summary),
}

/// A folder's catalogue entry of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) content: Content,
}

/// Returns the valid entries at the start of a catalogue, and whether they are complete. The bytes
/// are untrusted.
pub(super) fn parse(bytes: &[u8]) -> (BTreeMap<OsString, Entry>, bool) {
    let mut entries = BTreeMap::new();
    let Some((header, mut rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return (entries, false);
    };
    if !header.starts_with(MAGIC) || header[8..] != VERSION.to_le_bytes() {
        return (entries, false);
    }
    while let Some(taken) = take(rest) {
        entries.insert(taken.name, taken.entry);
        rest = taken.behind;
    }
    (entries, rest.is_empty())
}

/// Serializes a whole catalogue.
pub(super) fn to_bytes(entries: &BTreeMap<OsString, Entry>) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    entries.iter().for_each(|(name, entry)| put(&mut bytes, name, entry));
    bytes
}

/// An entry, the name of its file, and the bytes after it.
struct Taken<'a> {
    name: OsString,
    entry: Entry,
    behind: &'a [u8],
}

/// Parses the first entry.
fn take(bytes: &[u8]) -> Option<Taken<'_>> {
    let head = bytes.get(..ENTRY_BYTES)?;
    let eight = |at: usize| {
        let word = head.as_chunks::<8>().0.get(at).copied();
        u64::from_le_bytes(word.unwrap_or_default())
    };
    let lengths = eight(11);
    let (words, name_bytes) = (lengths as u16, (lengths >> 16) as u16);
    let (sketch_bytes, name_bytes) = (usize::from(words) * 4, usize::from(name_bytes));
    let end = ENTRY_BYTES + name_bytes + sketch_bytes;
    let (entry, behind) = bytes.split_at_checked(end)?;
    let (stored, behind) = behind.split_first_chunk::<4>()?;
    let name = OsString::from_vec(entry[ENTRY_BYTES..][..name_bytes].to_vec());
    if crc32c::crc32c(entry) != u32::from_le_bytes(*stored) {
        return None;
    }
    let content = match lengths >> 32 {
        0 => Content::Foreign,
        1 => Content::Doubtful,
        2 => Content::Sound(Summary {
            packets: eight(7),
            first_ns: eight(8),
            times_ns: [eight(9), eight(10)],
            sketch: entry[ENTRY_BYTES + name_bytes..].to_vec(),
        }),
        _ => return None,
    };
    let stamp = Stamp(std::array::from_fn(eight));
    Some(Taken { name, entry: Entry { stamp, content }, behind })
}

/// Appends an entry.
fn put(bytes: &mut Vec<u8>, name: &OsStr, entry: &Entry) {
    let start = bytes.len();
    let nothing = Summary::default();
    let (kind, summary) = match &entry.content {
        Content::Foreign => (0, &nothing),
        Content::Doubtful => (1, &nothing),
        Content::Sound(summary) => (2, summary),
    };
    let [earliest_ns, latest_ns] = summary.times_ns;
    let numbers = [summary.packets, summary.first_ns, earliest_ns, latest_ns];
    for number in entry.stamp.0.iter().chain(&numbers) {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(((summary.sketch.len() / 4) as u16).to_le_bytes());
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend(u32::to_le_bytes(kind));
    bytes.extend(name.as_bytes());
    bytes.extend(&summary.sketch);
    let checksum = crc32c::crc32c(&bytes[start..]);
    bytes.extend(checksum.to_le_bytes());
}

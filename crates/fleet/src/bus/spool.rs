//! The spool: messages on disk, written before they are sent and removed once acknowledged.
//!
//! ```text
//! FOLDER/kafka-SENSOR/BOOT-00000000.spool    segments: consecutive messages
//!                     BOOT-00000001.spool    removed once all of their messages are settled
//!                     .journal-SENSOR        locked; records made, and records written here
//! ```
//!
//! A message is a head of [`HEAD`] bytes and its body. One byte of the head, the only one written
//! twice, marks it as settled. On startup the spool finds messages of earlier starts. A message
//! that was being written when its program was killed is incomplete, and is cut off. A damaged one
//! with others after it is found, and lost by name when it is read. If its head is also damaged,
//! the next complete message is searched.
//!
//! Written data survives the program. It is on disk a second later (`sync_data`), so a power loss
//! costs one second.
//!
//! Invariants:
//! - P1: segments plus the next message stay within the requested size.
//! - P2: a message that is read is unchanged, by its checksum.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use burstline_flow::{Journal, LostRecords, Made, NotWritten, Origin, TreeError};
use burstline_sys::inode::open_regular;
use burstline_sys::late::{self, Opening};
use burstline_wire::crc32c;
use bytes::Bytes;

use super::store::{Body, Entry};
use super::{BusError, SpoolPlace};

/// Bytes before a message's body.
const HEAD: usize = 48;
const MAGIC: [u8; 4] = *b"BSPL";
/// Offset in the head of the settled flag: 1.
const SETTLED_AT: u64 = 4;
/// Length of the longest body that is read.
const BODY_MOST: u32 = 1 << 28;
/// Size of a full segment; a small spool has smaller ones.
const SEGMENT: u64 = 8 << 20;
const SEGMENTS_LEAST: u64 = 16;
/// How far after a damaged head the next message is searched: more than a segment.
const SEARCHED_MOST: u64 = 64 << 20;
/// Interval of syncs to disk.
const SYNC: Duration = Duration::from_secs(1);

/// Location of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    segment: u64,
    offset: u64,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    bytes: u64,
    /// Messages that are not settled.
    waiting: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    is_settled: bool,
    number: u64,
    records: u32,
    length: u32,
    packets: u64,
    hour: u64,
    checksum: u32,
}

pub(super) struct Spool {
    folder: PathBuf,
    boot: String,
    size: u64,
    /// Bytes of all segments.
    bytes: u64,
    /// Segments in order of age.
    segments: BTreeMap<u64, Segment>,
    next: u64,
    /// The segment being written, and its file.
    open: Option<(u64, File)>,
    synced: Instant,
    is_dirty: bool,
    journal: Journal,
    left: Vec<Entry>,
    pub(super) last: Option<NotWritten>,
    pub(super) notes: Vec<String>,
}

impl Spool {
    /// Opens the spool of a sensor, and finds messages of earlier starts.
    pub(super) fn open(place: &SpoolPlace, kind: &str, origin: &Origin) -> Result<Self, BusError> {
        let folder = place.folder.join(format!("{kind}-{}", origin.sensor.as_str()));
        let is_there = |what: &str| was_written(&folder, what);
        let (journal, last) = Journal::open(&folder, &origin.sensor, &origin.boot, is_there)?;
        let mut spool = Self {
            boot: origin.boot.as_str().to_owned(),
            size: place.bytes,
            bytes: 0,
            segments: BTreeMap::new(),
            next: 0,
            open: None,
            synced: Instant::now(),
            is_dirty: false,
            journal,
            left: Vec::new(),
            last,
            notes: Vec::new(),
            folder,
        };
        let failed =
            |path: &Path, error| TreeError::Io { action: "read", path: path.into(), error };
        let paths = segments_of(&spool.folder).map_err(|error| failed(&spool.folder, error))?;
        for path in paths {
            spool.find(&path).map_err(|error| failed(&path, error))?;
        }
        Ok(spool)
    }

    /// Finds the messages of a segment.
    fn find(&mut self, path: &Path) -> io::Result<()> {
        let file = Opening::read_and_write().open(path)?;
        let bytes = file.metadata()?.len();
        let boot: Arc<str> = boot_of(path).into();
        let (mut offset, mut waiting) = (0, 0);
        while let Some((begin, head)) = self.next_message(path, &file, offset)? {
            offset = begin;
            if !head.is_settled {
                waiting += 1;
                self.left.push(Entry {
                    boot: Arc::clone(&boot),
                    number: head.number,
                    hour: head.hour,
                    records: head.records.into(),
                    packets: head.packets,
                    length: head.length,
                    is_earlier: true,
                    body: Body::Disk(Place { segment: self.next, offset }),
                });
            }
            offset = head.end(offset);
        }
        if offset < bytes {
            let (name, cut) = (path.display(), bytes - offset);
            self.notes.push(format!("{name}: its last {cut} bytes are not a complete message"));
        }
        if waiting == 0 {
            return late::remove_file(path);
        }
        file.set_len(offset)?;
        self.bytes += offset;
        let path = path.to_owned();
        self.segments.insert(self.next, Segment { path, bytes: offset, waiting });
        self.next += 1;
        Ok(())
    }

    /// Returns the first message from an offset on, and its offset. A single damaged message
    /// counts: its reader loses it by name. `None` if the rest was being written.
    fn next_message(
        &mut self,
        path: &Path,
        file: &File,
        offset: u64,
    ) -> io::Result<Option<(u64, Head)>> {
        let name = path.display();
        if let Some(head) = Head::read(file, offset)? {
            if head.body(file, offset)?.is_some() {
                return Ok(Some((offset, head)));
            }
            if Head::read(file, head.end(offset))?.is_some() {
                let (records, end) = (head.records, if head.records == 1 { "" } else { "s" });
                let what = format!("the message at {offset} is damaged: {records} record{end}");
                self.notes.push(format!("{name}: {what}"));
                return Ok(Some((offset, head)));
            }
        }
        let Some((begin, head)) = next_whole(file, offset + 1)? else { return Ok(None) };
        let lost = begin - offset;
        let what = format!("{lost} bytes at {offset} are damaged; their content is lost");
        self.notes.push(format!("{name}: {what}"));
        Ok(Some((begin, head)))
    }

    /// Returns the messages of earlier starts, oldest first.
    pub(super) fn left(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.left)
    }

    /// Writes a message; `None` if the spool is full.
    pub(super) fn append(
        &mut self,
        number: u64,
        hour: u64,
        [records, packets]: [u64; 2],
        body: &[u8],
    ) -> io::Result<Option<Place>> {
        let bytes = HEAD as u64 + body.len() as u64;
        if self.bytes + bytes > self.size {
            return Ok(None);
        }
        let mut head = Head {
            is_settled: false,
            number,
            records: records as u32,
            length: body.len() as u32,
            packets,
            hour,
            checksum: 0,
        };
        head.checksum = head.sum(body);
        self.journal.announce(&format!("{}/{number}", self.boot), records, packets);
        let written = self.write(&head.encode(), body);
        self.journal.settle(written.is_ok());
        let place = written?;
        self.is_dirty = true;
        self.bytes += bytes;
        Ok(Some(place))
    }

    fn write(&mut self, head: &[u8], body: &[u8]) -> io::Result<Place> {
        let full = SEGMENT.min(self.size / SEGMENTS_LEAST);
        let is_full = |segment: &Segment| segment.bytes >= full;
        if let Some((id, file)) = self.open.take_if(|(id, _)| {
            // A missing segment counts as full.
            self.segments.get(id).is_none_or(is_full)
        }) {
            file.sync_data()?;
            self.remove_settled(id);
        }
        let (id, file) = match &mut self.open {
            Some(open) => open,
            None => {
                let path = self.folder.join(format!("{}-{:08}.spool", self.boot, self.next));
                let file = Opening::read_and_write().create_new().open(&path)?;
                let id = self.next;
                self.next += 1;
                self.segments.insert(id, Segment { path, bytes: 0, waiting: 0 });
                self.open.insert((id, file))
            }
        };
        let Some(segment) = self.segments.get_mut(id) else {
            return Err(ErrorKind::NotFound.into());
        };
        let offset = segment.bytes;
        let written = file
            .write_all_at(head, offset)
            .and_then(|()| file.write_all_at(body, offset + head.len() as u64));
        if let Err(error) = written {
            // If this also fails, the next start cuts off the incomplete message.
            let _ = file.set_len(offset);
            return Err(error);
        }
        segment.bytes += (head.len() + body.len()) as u64;
        segment.waiting += 1;
        Ok(Place { segment: *id, offset })
    }

    /// Returns whether the next start will find a message, judging by file names.
    pub(super) fn has(&self, place: &Place) -> bool {
        self.segments.get(&place.segment).is_some_and(|segment| late::exists(&segment.path))
    }

    /// Reads a message.
    pub(super) fn read(&self, place: &Place) -> io::Result<Bytes> {
        let segment = self.segments.get(&place.segment).ok_or(ErrorKind::NotFound)?;
        let file = late::open(&segment.path)?;
        let damaged = || {
            let path = segment.path.display();
            io::Error::other(format!("{path}: the message at {} is damaged", place.offset))
        };
        let head = Head::read(&file, place.offset)?.ok_or_else(damaged)?;
        let body = head.body(&file, place.offset)?.ok_or_else(damaged)?;
        Ok(body.into())
    }

    pub(super) fn settle(&mut self, place: &Place) {
        let Some(segment) = self.segments.get_mut(&place.segment) else { return };
        segment.waiting -= 1;
        if segment.waiting > 0 || self.open.as_ref().is_some_and(|(id, _)| *id == place.segment) {
            let file = Opening::write().open(&segment.path);
            // If this fails, a start after a crash sends it again under the same name.
            let _ = file.and_then(|file| file.write_all_at(&[1], place.offset + SETTLED_AT));
        } else {
            self.remove_settled(place.segment);
        }
    }

    /// Removes a segment without waiting messages.
    fn remove_settled(&mut self, id: u64) {
        let Some(segment) = self.segments.get(&id).filter(|segment| segment.waiting == 0) else {
            return;
        };
        if late::remove_file(&segment.path).is_ok() {
            self.bytes -= segment.bytes;
            self.segments.remove(&id);
        }
    }

    /// Updates the journal with the job's progress, and syncs written data to disk.
    pub(super) fn tell(&mut self, made: &Made, lost: &LostRecords) {
        self.journal.tell(made, lost);
        if self.is_dirty && self.synced.elapsed() >= SYNC {
            (self.is_dirty, self.synced) = (false, Instant::now());
            if let Some((_, file)) = &self.open {
                // The next message's write reports the error.
                let _ = file.sync_data();
            }
        }
    }

    pub(super) fn close(&mut self) {
        if let Some((id, file)) = self.open.take() {
            let _ = file.sync_data();
            self.remove_settled(id);
        }
        self.journal.end();
    }
}

impl Head {
    fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.is_settled);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.records.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.packets.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[40..].copy_from_slice(&self.hour.to_le_bytes());
        bytes
    }

    /// Returns `None` if there is no head, or the file ends within it.
    fn read(file: &File, offset: u64) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEAD];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let u32_at = |at: usize| bytes[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let head = Self {
            is_settled: bytes[4] == 1,
            number: u64_at(8),
            records: u32_at(16),
            length: u32_at(20),
            packets: u64_at(24),
            hour: u64_at(40),
            checksum: u32_at(32),
        };
        Ok(Some(head).filter(|head| bytes[..4] == MAGIC && head.length <= BODY_MOST))
    }

    /// Returns where the next message starts.
    fn end(&self, offset: u64) -> u64 {
        offset + HEAD as u64 + u64::from(self.length)
    }

    /// Returns `None` if the checksum of the body does not match.
    fn body(&self, file: &File, offset: u64) -> io::Result<Option<Vec<u8>>> {
        if self.end(offset) > file.metadata()?.len() {
            return Ok(None);
        }
        let mut body = vec![0; self.length as usize];
        file.read_exact_at(&mut body, offset + HEAD as u64)?;
        Ok(Some(body).filter(|body| self.sum(body) == self.checksum))
    }

    /// Returns the checksum of everything but the settled flag.
    fn sum(&self, body: &[u8]) -> u32 {
        let head = Self { is_settled: false, checksum: 0, ..*self }.encode();
        crc32c::crc32c_append(crc32c::crc32c(&head), body)
    }
}

/// Returns the segments of a folder, oldest first.
fn segments_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in late::names_in(folder)? {
        let path = folder.join(name);
        if path.extension().is_some_and(|extension| extension == "spool") {
            // Settling a message modifies an older segment later. Not all file systems store
            // creation times.
            let metadata = late::metadata(&path)?;
            found.push((metadata.created().or_else(|_| metadata.modified())?, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn boot_of(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or_default().to_owned()
}

/// Returns whether the message `BOOT/NUMBER` is in a folder of segments.
fn was_written(folder: &Path, what: &str) -> bool {
    let Some((boot, number)) = what.split_once('/') else { return false };
    let paths = segments_of(folder).unwrap_or_default();
    paths.iter().filter(|path| boot_of(path) == boot).any(|path| {
        let Ok(file) = open_regular(path) else { return false };
        let mut offset = 0;
        // Bodies are not read here: startup reads them once, when it finds them.
        while let Ok(Some(head)) = Head::read(&file, offset) {
            if number == head.number.to_string() {
                return matches!(head.body(&file, offset), Ok(Some(_)));
            }
            offset = head.end(offset);
        }
        false
    })
}

/// Returns the first complete message from an offset on, and its offset.
fn next_whole(file: &File, from: u64) -> io::Result<Option<(u64, Head)>> {
    let bytes = file.metadata()?.len().saturating_sub(from).min(SEARCHED_MOST);
    let mut rest = vec![0; bytes as usize];
    file.read_exact_at(&mut rest, from)?;
    for (at, _) in rest.windows(4).enumerate().filter(|(_, bytes)| *bytes == MAGIC) {
        let begin = from + at as u64;
        if let Some(head) = Head::read(file, begin)?
            && head.body(file, begin)?.is_some()
        {
            return Ok(Some((begin, head)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

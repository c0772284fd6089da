//! Segments in one Zstandard frame, and a table of their ends.
//!
//! ```text
//!  | header | segment 0 | segment 1         | ... | block: end 0 | end 1 | ... | foot | end |
//!                       /                   \      \________ uncompressed _______/
//!                       | compressed  | sketch, worklist, trailer: uncompressed |
//! ```
//!
//! Blocks of a segment do not depend on earlier blocks, so a reader may begin at any segment.
//! Sketch and trailer are read without decompression. The table comes last: a file that was not
//! closed lacks it, and is read sequentially. Other programs skip it as a block of an unknown type.
//! (Other formats store such a table in a second frame. Wireshark 4.0 cannot continue after the
//! first frame.)
//!
//! All numbers are little-endian. An end is 8 bytes: the file offset after the segment's blocks.
//! The foot: bytes of a segment (4), segments (4), CRC32C of the ends (4), magic `BurstZst`.
//!
//! A missing table is rebuilt ([`Walk`]). Bytes after the last whole segment are then decompressed
//! as far as possible. The header of the frame is always the same, so a damaged one does no harm;
//! but it is reported, because other programs need it.
//!
//! A table is a hint. It is ignored if its checksum is wrong, or if its ends are closer together
//! than segments can be. It describes its own frame only: it must come right after the last segment
//! and end the file. So a file with other frames is read sequentially. The segments that a table
//! locates are verified as usual.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;

use burstline_wire::crc32c;
use burstline_wire::files::{MAX_NEED, SegmentAhead, TABLE_BLOCK, Trailer};

use super::super::output::Output;
use super::super::pieces::{BLOCK_BYTES, HEADER_BYTES, stored_at};
use super::ZstdReader;
use super::block::BlockHead;
use super::found::{Walk, least_bytes};

const MAGIC: &[u8; 8] = b"BurstZst";
const FOOT_BYTES: usize = 20;

/// Bytes of the block around the ends: type, length, foot, length.
const AROUND_BYTES: usize = 8 + FOOT_BYTES + 4;

/// A file with more segments gets no table, because readers want the block in one piece. With
/// segments of 1 MiB, that file would have 2 TiB.
const MOST_SEGMENTS: usize = (MAX_NEED - AROUND_BYTES) / 8;

/// Segments of one piece that are decompressed; further ones are lost.
pub(super) const MOST_TOGETHER: u64 = 4;

/// The header of every frame: no checksum, a window of 128 KiB.
const HEADER: [u8; HEADER_BYTES] = [0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];

/// The logarithms of windows, less 10, in which a segment can be decompressed: of 128 KiB to 8 MiB.
const WINDOWS: RangeInclusive<u8> = 7..=13;

/// Compresses segments and writes them one after another.
pub(in super::super) struct Packer {
    pub(in super::super) output: Output,
    /// The current segment.
    pub(in super::super) segment: Vec<u8>,
    /// The end of each segment's blocks in the file.
    ends: Vec<u64>,
}

impl Packer {
    pub(in super::super) fn new(output: Output, segment_bytes: usize) -> Self {
        Self { output, segment: vec![0; segment_bytes], ends: Vec::new() }
    }

    /// Writes a segment that its encoder has finished.
    pub(in super::super) fn write(&mut self, segment: &[u8]) -> io::Result<()> {
        let place = SegmentAhead { offset: 0, bytes: segment.len() };
        let trailer = Trailer::parse(&segment[place.tail_offset() as usize..])
            .expect("the encoder has put it there");
        let tail_at = place.summary(&trailer).start as usize;
        self.output.write_with_tail(segment, tail_at)?;
        self.ends.push(self.output.bytes);
        Ok(())
    }

    /// Writes the current segment.
    pub(in super::super) fn write_in_hand(&mut self) -> io::Result<()> {
        let segment = std::mem::take(&mut self.segment);
        let written = self.write(&segment);
        self.segment = segment;
        written
    }

    /// Returns the number of written segments, without the one with the descriptions.
    pub(in super::super) fn written(&self) -> u64 {
        (self.ends.len() as u64).saturating_sub(1)
    }

    /// Continues after the written segments, after an error. They must end within the first `bytes`
    /// of the file.
    pub(in super::super) fn go_on(&mut self, bytes: u64) -> io::Result<()> {
        match self.ends.last() {
            Some(&end) if end <= bytes && end == self.output.whole => self.output.go_on(),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }

    /// Writes the current segment as the last one. Returns the new size of the file.
    pub(in super::super) fn close(&mut self) -> io::Result<u64> {
        self.write_in_hand()?;
        // If there is no room for a table, the file is read sequentially.
        let _ = self.end();
        Ok(self.output.bytes)
    }

    /// Writes the table, and ends the frame.
    pub(in super::super) fn end(&mut self) -> io::Result<()> {
        if self.ends.len() <= MOST_SEGMENTS {
            self.output.write_with_tail(&table(&self.ends, self.segment.len()), 0)?;
        }
        self.output.end()
    }
}

/// Builds the block with the table, from 4-byte numbers.
fn table(ends: &[u64], segment_bytes: usize) -> Vec<u8> {
    let length = (AROUND_BYTES + 8 * ends.len()) as u32;
    let list: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    let foot = [segment_bytes as u32, ends.len() as u32, crc32c::crc32c(&list)];
    let numbers = |numbers: &[u32]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    let (head, foot, tail) = (numbers(&[TABLE_BLOCK, length]), numbers(&foot), numbers(&[length]));
    [&head, &list, &foot, &MAGIC[..], &tail].concat()
}

/// The location of a file's segments.
pub(in super::super) struct Table {
    /// Whether other programs do not read the frame, because its header is damaged.
    is_headless: bool,
    segment_bytes: u64,
    /// Segments with the same end are one piece: the end of the first of them is unknown.
    ends: Vec<u64>,
    /// Decompressed bytes after the last segment, in a file that was not closed.
    rest: Vec<u8>,
    /// Where the bytes begin that belong to no block, if the file ends with such bytes.
    surplus: Option<u64>,
}

impl Table {
    /// Returns the table of a regular file, or rebuilds it. `None` if the file has no segments.
    pub(in super::super) fn of(file: &File) -> Option<Self> {
        Self::load(file).or_else(|| Self::find(file))
    }

    /// Rebuilds the table of a file that has none.
    fn find(file: &File) -> Option<Self> {
        let is_headless = is_headless(file)?;
        let walk = Walk::through(file)?;
        if is_headless && !walk.has_sound_piece() {
            return None;
        }
        let (end, segment_bytes, surplus) = (walk.end(), walk.segment_bytes, walk.surplus);
        let blocks_end = surplus.unwrap_or(file.metadata().ok()?.len());
        let behind = blocks_end.saturating_sub(end).min(2 * segment_bytes);
        let mut rest = unpack(file, end..end + behind, segment_bytes).ok()?;
        if rest.starts_with(&TABLE_BLOCK.to_le_bytes()) {
            rest.clear();
        }
        Some(Self { is_headless, segment_bytes, ends: walk.ends, rest, surplus })
    }

    /// Returns the table of a regular file; `None` if there is no usable one.
    fn load(file: &File) -> Option<Self> {
        let end = file.metadata().ok()?.len().checked_sub(BlockHead::BYTES as u64)?;
        let (mut foot, mut last) = ([0; FOOT_BYTES], [0; BlockHead::BYTES]);
        file.read_exact_at(&mut foot, end.checked_sub(FOOT_BYTES as u64 + 4)?).ok()?;
        file.read_exact_at(&mut last, end).ok()?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| foot[at + byte]));
        let (segment_bytes, segments, checksum) = (number(0), number(4) as usize, number(8));
        let is_usual = (1..=MOST_SEGMENTS).contains(&segments)
            && segment_bytes.is_power_of_two()
            && segment_bytes as usize <= MAX_NEED;
        if foot[12..] != *MAGIC || last != BlockHead::LAST || !is_usual {
            return None;
        }
        let mut list = vec![0; 8 * segments];
        let behind = (list.len() + FOOT_BYTES + 4) as u64;
        read_stored(file, end, behind, &mut list)?;
        let ends = list.as_chunks().0.iter().map(|end| u64::from_le_bytes(*end));
        let ends: Vec<u64> = ends.collect();
        let is_headless = is_headless(file)?;
        let (segment_bytes, last_end) = (segment_bytes.into(), ends[segments - 1]);
        let is_sound = crc32c::crc32c(&list) == checksum
            && are_possible(&ends, segment_bytes)
            && is_right_before_table(last_end, behind, end);
        let rest = Vec::new();
        is_sound.then_some(Self { is_headless, segment_bytes, ends, rest, surplus: None })
    }
}

/// Decompresses blocks of the file, up to `most` bytes, as far as possible.
pub(super) fn unpack(file: &File, place: Range<u64>, most: u64) -> io::Result<Vec<u8>> {
    let mut frame = HEADER.to_vec();
    frame.resize(HEADER_BYTES + (place.end - place.start) as usize, 0);
    file.read_exact_at(&mut frame[HEADER_BYTES..], place.start)?;
    frame.extend(BlockHead::LAST);
    let (unpacked, mut bytes) = (ZstdReader::new(&frame[..], BLOCK_BYTES as u64), Vec::new());
    // Bytes before an error are valid.
    let _ = unpacked.take(most).read_to_end(&mut bytes);
    Ok(bytes)
}

/// Whether the header of the frame is damaged. `None` if the file is shorter.
fn is_headless(file: &File) -> Option<bool> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    let ([magic @ .., window], [same @ .., _]) = (header, HEADER);
    Some(magic != same || !WINDOWS.contains(&(window >> 3)))
}

/// Whether each segment has as many bytes as it needs. Without this, a few bytes of a forged table
/// would stand for megabytes.
fn are_possible(ends: &[u64], segment_bytes: u64) -> bool {
    let (least, mut start) = (least_bytes(segment_bytes), HEADER_BYTES as u64);
    ends.iter().all(|&end| {
        let bytes = end.checked_sub(start);
        start = end;
        bytes.is_some_and(|bytes| bytes >= least)
    })
}

/// Whether the last segment ends where the blocks of the table begin. The first end is `behind`
/// bytes before the end of the table's block, which ends at `end`. This does not hold for the table
/// of a later frame: its ends count from the start of that frame.
fn is_right_before_table(last_end: u64, behind: u64, end: u64) -> bool {
    // The block begins with its type and length. An empty block of the frame precedes it.
    let stored = stored_at(behind + 8).map(|(before, _)| before + 2 * BlockHead::BYTES as u64);
    stored.and_then(|stored| end.checked_sub(stored)) == Some(last_end)
}

/// Reads a file that has a table, segment by segment: damage of one does not affect the others. A
/// segment that cannot be decompressed reads as zeros, which fail every checksum.
pub(in super::super) struct Packed<F> {
    pub(in super::super) file: F,
    table: Table,
    /// The read position in the capture.
    pub(in super::super) position: u64,
    /// The number of the current segment, and its bytes.
    number: Option<u64>,
    segment: Vec<u8>,
}

impl<F: AsRef<File>> Packed<F> {
    /// Reads from the start.
    pub(in super::super) fn new(table: Table, file: F) -> Self {
        Self { file, table, position: 0, number: None, segment: Vec::new() }
    }

    /// Returns the length of the capture.
    pub(in super::super) fn capture_bytes(&self) -> u64 {
        self.table.segment_bytes * self.table.ends.len() as u64 + self.table.rest.len() as u64
    }

    /// Returns how far the file was read.
    pub(in super::super) fn bytes_read(&self) -> u64 {
        let Some(number) = self.number else { return 0 };
        self.end_of(number).or(self.table.ends.last().copied()).unwrap_or(0)
    }

    /// Reads uncompressed bytes from the end of a segment. False if they do not exist. Bytes before
    /// the uncompressed part come out wrong; the caller verifies what it gets.
    pub(in super::super) fn read_at(&self, offset: u64, place: &mut [u8]) -> bool {
        let behind = self.table.segment_bytes - offset % self.table.segment_bytes;
        let end = self.end_of(offset / self.table.segment_bytes);
        end.is_some_and(|end| read_stored(self.file.as_ref(), end, behind, place).is_some())
    }

    /// Returns the end of a segment's blocks.
    fn end_of(&self, number: u64) -> Option<u64> {
        self.table.ends.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the first segment of the piece that ends there, and the start of the piece.
    fn piece(&self, end: u64) -> (u64, u64) {
        let first = self.table.ends.partition_point(|before| *before < end);
        let start = first.checked_sub(1).map_or(HEADER_BYTES as u64, |last| self.table.ends[last]);
        (first as u64, start)
    }

    /// Decompresses a segment, as far as possible.
    fn load(&mut self, number: u64) -> io::Result<()> {
        let bytes = self.table.segment_bytes as usize;
        self.segment.clear();
        self.number = None;
        if let Some(end) = self.end_of(number) {
            let (first, start) = self.piece(end);
            // Bytes of the piece that belong to earlier segments.
            let before = (number - first) * bytes as u64;
            let most = before + bytes as u64;
            // Incompressible data is stored uncompressed.
            if number - first < MOST_TOGETHER && end - start <= 2 * most {
                let file = self.file.as_ref();
                self.segment = unpack(file, start..end, most)?;
                self.segment.drain(..self.segment.len().min(before as usize));
            }
            self.segment.resize(bytes, 0);
        } else {
            self.segment.clone_from(&self.table.rest);
        }
        self.number = Some(number);
        Ok(())
    }
}

impl<F: AsRef<File>> Read for Packed<F> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.capture_bytes() {
            return match self.table.surplus {
                Some(at) => Err(surplus(at)),
                None if self.table.is_headless => Err(headless()),
                None => Ok(0),
            };
        }
        let number = self.position / self.table.segment_bytes;
        if self.number != Some(number) {
            self.load(number)?;
        }
        let mut rest = &self.segment[(self.position % self.table.segment_bytes) as usize..];
        let bytes = rest.read(place)?;
        self.position += bytes as u64;
        Ok(bytes)
    }
}

/// The error after the last segment, if bytes follow that belong to no block.
fn surplus(at: u64) -> io::Error {
    let text = format!("the bytes from file offset {at} on belong to no frame");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The error after the last segment, if the header of the frame is damaged.
fn headless() -> io::Error {
    let text = "the header of its frame is damaged: other programs cannot decompress it";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads uncompressed bytes before `end`; `behind` is the distance from the first of them to the
/// end of the piece. `None` if they do not exist.
fn read_stored(file: &File, end: u64, mut behind: u64, mut place: &mut [u8]) -> Option<()> {
    while !place.is_empty() {
        let (before_end, contiguous) = stored_at(behind)?;
        let (here, rest) = place.split_at_mut(contiguous.min(place.len()));
        file.read_exact_at(here, end.checked_sub(before_end)?).ok()?;
        (behind, place) = (behind - here.len() as u64, rest);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::super::super::naming::Compression;
    use super::super::super::pieces::Pieces;
    use super::*;

    fn load(bytes: &[u8]) -> Option<Vec<u64>> {
        let mut file = File::from(memfd_create("recording", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(bytes).unwrap();
        Table::load(&file).map(|table| table.ends)
    }

    /// Returns a frame of stored bytes up to the last of these ends, and the table.
    fn frame(ends: &[u64], segment_bytes: usize) -> Vec<u8> {
        let mut pieces = Pieces::new(Compression::Zstd);
        let mut front = pieces.next_with_tail(&[7; 4000], 0).unwrap();
        front.resize(ends[ends.len() - 1] as usize, 7);
        let table = pieces.next_with_tail(&table(ends, segment_bytes), 0).unwrap();
        [&front, &table, pieces.end()].concat()
    }

    #[test]
    fn a_table_describes_the_whole_file_or_nothing() {
        // The longer table has two blocks.
        for segments in [4, 20_000] {
            let ends: Vec<u64> = (1..=segments).map(|number| number * 200).collect();
            let whole = frame(&ends, 4096);
            assert_eq!(load(&whole), Some(ends));
            for other in [
                [&whole[..], &whole].concat(),
                [&whole[..], b"x"].concat(),
                [&[0_u8; 3][..], &whole].concat(),
                [&whole[..whole.len() - 1], &[9]].concat(),
                whole[3..].to_vec(),
            ] {
                assert_eq!(load(&other), None, "{segments}: {} bytes", other.len());
            }
        }
    }

    #[test]
    fn no_segment_has_fewer_bytes_than_it_needs() {
        for (ends, segment_bytes, is_possible) in [
            (&[4012, 4012][..], 4096, false),
            (&[3869, 4012], 4096, false),
            (&[3868, 4012], 4096, true),
            (&[149, 4012], 4096, false),
            (&[3000, 2000, 4012], 4096, false),
            (&[3357, 4012], 16 << 20, false),
            (&[3356, 4012], 16 << 20, true),
        ] {
            let found = load(&frame(ends, segment_bytes));
            assert_eq!(found.is_some(), is_possible, "{ends:?}");
        }
    }
}

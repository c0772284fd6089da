//! Reads and decodes a capture file: packets in place, and damage.
//!
//! ```text
//!  input --read--> window --Decoder--> record, damage, end
//! ```
//!
//! The source of a job ([`FileSource`](super::FileSource)) reads a file through this, as do the
//! verbs that check or describe a whole file.

mod again;
mod growing;
mod run;
mod silence;
#[cfg(all(test, not(miri)))]
mod tests;
mod times;
mod writing;

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use burstline_sys::clock;
use burstline_wire::files::{
    Damage, Decoder, FileKind, FormatError, Record, Section, SegmentAhead, Step, Trailer,
};
use burstline_wire::headers::LinkType;

use super::super::input::{Input, Pulled};
use super::super::window::Window;
use super::super::zstd::WINDOW_BYTES;
use super::super::{shown_path, without_rights};
use crate::PortError;
use crate::opened::{OpenedFiles, Use};
pub(super) use growing::{Begin, Growth};
use silence::Silence;
use times::Times;
use writing::size_of;

/// After this many bytes of a file, a decoder has either refused it or never will: the header of a
/// classic file. Source: draft-ietf-opsawg-pcap, section 4.
const LONGEST_HEADER_BYTES: usize = 24;

/// A read that takes longer than this has waited for a disk.
const WAITED_NS: u64 = 50_000;

/// Segments skipped individually before the ends of the following ones are prefetched: a search for
/// a time skips few.
const ASKED_AFTER: u64 = 8;

/// How many segments' ends are prefetched at a time: a disk with parallel reads takes little longer
/// for them than for one.
const ASKED_SEGMENTS: u64 = 256;

/// Bytes of such an end: trailer, worklist and sketch of typical packets.
const ASKED_BYTES: u64 = 16 << 10;

/// The next element of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A packet; [`CaptureReader::packet`] has its bytes.
    Packet(Record),
    /// Invalid bytes, or modified segments.
    Damage(Damage),
    /// A compressed stream ends here because it is broken; the text says at which offset.
    Broken(String),
    /// The end of the file.
    End,
}

/// A capture file, or a pipe with one, plain or compressed.
pub struct CaptureReader {
    path: PathBuf,
    /// Whether others can open this path: not for a pipe or standard input.
    has_name: bool,
    input: Input,
    pub(super) window: Window,
    pub(super) decoder: Decoder,
    /// The compression and the format, once the first bytes are known.
    container: Option<FileKind>,
    kind: Option<FileKind>,
    /// Whether the last byte is in the window.
    is_read: bool,
    /// Contiguous bytes of the decoder's last request.
    pub(super) needed: usize,
    /// Why a compressed stream ended early.
    broken: Option<String>,
    /// Whether it only lacks its end.
    is_cut: bool,
    is_broken_told: bool,
    times: Times,
    /// The size of a regular file when it was opened.
    size: Option<u64>,
    /// Whether a damaged segment stayed as it was: then no recorder writes the file.
    is_at_rest: bool,
    silence: Silence,
    /// What of it is read, while it grows.
    growth: Option<Growth>,
    /// Where reading a file that grows ends.
    end_bytes: Option<u64>,
}

impl CaptureReader {
    /// Opens a file, or standard input for `-`, and registers it as read by the job. A regular file
    /// that is not a capture is refused immediately.
    ///
    /// # Errors
    /// [`PortError::Io`], [`PortError::SameFile`], [`PortError::NotACapture`].
    pub fn open(target: &str, files: &OpenedFiles) -> Result<Self, PortError> {
        Self::open_within(target, WINDOW_BYTES, files)
    }

    /// As [`open`](Self::open), with the maximum window of a zstd stream.
    pub(super) fn open_within(
        target: &str,
        window_bytes: u64,
        files: &OpenedFiles,
    ) -> Result<Self, PortError> {
        let path = shown_path(target, "standard input");
        let fail = |error| PortError::Io { action: "open", path: path.clone(), error };
        let (input, metadata) = Input::open(target, window_bytes).map_err(fail)?;
        files.enter(&path, &metadata, Use::Read)?;
        let mut reader = Self::of(path, input, None)?;
        reader.has_name &= target != "-";
        Ok(reader)
    }

    /// Reads a regular file from its start, as it grows if so; it is open and registered.
    pub(super) fn of_file(
        mut file: File,
        path: &Path,
        growth: Option<Growth>,
    ) -> Result<Self, PortError> {
        let fail = |error| PortError::Io { action: "read", path: path.to_owned(), error };
        file.rewind().map_err(fail)?;
        let (input, _) = Input::of(file, WINDOW_BYTES).map_err(fail)?;
        Self::of(path.to_owned(), input, growth)
    }

    fn of(path: PathBuf, input: Input, growth: Option<Growth>) -> Result<Self, PortError> {
        let fail = |error| PortError::Io { action: "open", path: path.clone(), error };
        let window = Window::new().map_err(fail)?;
        let decoder = if input.is_pipe() { Decoder::live() } else { Decoder::new() };
        let mut reader = Self {
            path,
            has_name: !input.is_pipe(),
            size: size_of(&input),
            input,
            window,
            decoder,
            container: None,
            kind: None,
            is_read: false,
            needed: 0,
            broken: None,
            is_cut: false,
            is_broken_told: false,
            times: Times::default(),
            is_at_rest: false,
            silence: Silence::default(),
            growth,
            end_bytes: None,
        };
        if !reader.input.is_pipe() {
            reader.without_rights(Self::look_ahead)?;
        }
        Ok(reader)
    }

    /// Processes the file without rights, also if the caller has not given up its own.
    pub(super) fn without_rights<T: Send>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, PortError> + Send,
    ) -> Result<T, PortError> {
        let path = self.path.clone();
        without_rights(&path, || work(self))
    }

    /// Duplicates the descriptor of a regular file.
    pub(super) fn share(&self) -> Result<Option<File>, PortError> {
        self.input.share().map_err(|error| self.failed("open", error))
    }

    /// Reads the start of a regular file.
    fn look_ahead(&mut self) -> Result<(), PortError> {
        let is_short = |reader: &Self| reader.window.rest().len() < LONGEST_HEADER_BYTES;
        while !self.is_read && (self.kind.is_none() || is_short(self)) {
            if self.refill()? == Pulled::Nothing {
                break;
            }
        }
        loop {
            let mut decoder = Decoder::new();
            match decoder.next(self.window.rest(), &mut 0, self.is_read) {
                Step::Refused(error) => return Err(self.refused(error)),
                // It may be a recording whose first bytes are damaged. Once it is known to be one,
                // the next segments are not needed.
                Step::NeedMore { bytes }
                    if self.kind == Some(FileKind::Unknown)
                        && decoder.segment_bytes().is_none() =>
                {
                    self.needed = bytes;
                    self.refill()?;
                }
                _ => {
                    if let Some(bytes) = decoder.segment_bytes() {
                        self.read_torn_again(&SegmentAhead { offset: 0, bytes });
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Returns the link types of the interfaces described at the start of a regular file.
    pub(super) fn first_links(&self) -> Vec<LinkType> {
        if self.input.is_pipe() {
            return Vec::new();
        }
        let mut decoder = Decoder::new();
        let _ = decoder.next(self.window.rest(), &mut 0, self.is_read);
        decoder.interfaces().iter().map(|interface| interface.link).collect()
    }

    /// Returns what the first section header of a regular file says, if it is at the file's start.
    pub fn first_section(&self) -> Option<Section> {
        if self.input.is_pipe() { None } else { Section::at_start(self.window.rest()) }
    }

    /// Returns the next element; blocks for it if the file is a pipe.
    ///
    /// # Errors
    /// [`PortError::Io`]; [`PortError::NotACapture`] for a pipe.
    pub fn read_next(&mut self) -> Result<Found, PortError> {
        self.read_next_after(|_| Ok(()))
    }

    /// As [`read_next`](Self::read_next), but calls `before` each time before it reads from the
    /// file: what is not in the window may be skipped then.
    pub(super) fn read_next_after(
        &mut self,
        mut before: impl FnMut(&mut Self) -> Result<(), PortError>,
    ) -> Result<Found, PortError> {
        loop {
            match self.step() {
                Step::Packet(record) => return Ok(Found::Packet(record)),
                Step::Damage(damage) => return Ok(Found::Damage(damage)),
                Step::Refused(error) => return Err(self.refused(error)),
                Step::End => return Ok(self.hear_broken().map_or(Found::End, Found::Broken)),
                Step::NeedMore { .. } => {
                    before(self)?;
                    if self.refill()? == Pulled::Nothing && !self.wait()? {
                        return Ok(Found::End);
                    }
                }
            }
        }
    }

    /// Returns the time of the first packet of an unread file, in ns since 1970. `None` if there is
    /// no packet.
    ///
    /// # Errors
    /// As for [`read_next`](Self::read_next).
    pub fn read_first_time_ns(&mut self) -> Result<Option<u64>, PortError> {
        self.without_rights(|reader| {
            loop {
                match reader.read_next()? {
                    Found::Packet(record) => return Ok(Some(record.time_ns)),
                    Found::Damage(_) => {}
                    Found::Broken(_) | Found::End => return Ok(None),
                }
            }
        })
    }

    /// Decodes the next element of the window.
    pub(super) fn step(&mut self) -> Step {
        let is_last = self.is_read || self.is_at_last_record();
        let (bytes, position) = self.window.split();
        let step = self.decoder.next(bytes, position, is_last);
        if let Step::NeedMore { bytes } = step {
            self.needed = bytes;
        }
        step
    }

    /// Returns the next packet of the window if it needs no special handling.
    #[inline(always)]
    pub(super) fn next_ordinary(&mut self) -> Option<Record> {
        let (bytes, position) = self.window.split();
        self.decoder.next_ordinary(bytes, position)
    }

    /// Reads once. Returns `Nothing` if a pipe has no data now.
    pub(super) fn refill(&mut self) -> Result<Pulled, PortError> {
        let pulled = match self.pull() {
            Ok(pulled) => pulled,
            Err(error) if self.input.is_compressed() => self.break_stream(&error),
            Err(error) => return Err(self.failed("read", error)),
        };
        self.is_read |= pulled == Pulled::End;
        if self.kind.is_none() && (self.is_read || self.window.rest().len() >= 4) {
            let kind = FileKind::detect(self.window.rest());
            if self.container.is_none() && self.decompress(kind) {
                self.window.clear();
                self.is_read = false;
                return self.refill();
            }
            self.kind = Some(kind);
        }
        if let Some(ahead) = self.decoder.segment_ahead() {
            self.read_torn_again(&ahead);
        }
        Ok(pulled)
    }

    /// Switches to decompression if the file is compressed, by its first bytes. Returns whether it
    /// is.
    fn decompress(&mut self, kind: FileKind) -> bool {
        self.container = match kind {
            FileKind::Gzip | FileKind::Zstd => {
                self.input.decompress(kind, self.window.rest());
                Some(kind)
            }
            FileKind::Unknown if self.input.decompress_headless() => Some(FileKind::Zstd),
            _ => None,
        };
        self.container.is_some()
    }

    /// Ends a broken compressed stream; earlier bytes are valid.
    fn break_stream(&mut self, error: &io::Error) -> Pulled {
        let at = self.decoder.file_offset() + self.window.rest().len() as u64;
        self.is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        self.broken =
            Some(format!("compressed data broken after {at} decompressed bytes: {error}"));
        Pulled::End
    }

    /// Returns why a compressed stream ended early, once.
    pub(super) fn hear_broken(&mut self) -> Option<String> {
        let text = self.broken.clone().filter(|_| !self.is_broken_told);
        self.is_broken_told |= text.is_some();
        text
    }

    pub(super) fn refused(&self, error: FormatError) -> PortError {
        let mend = match error {
            FormatError::Empty | FormatError::HeaderCut { .. } => {
                "; the capture may have stopped early"
            }
            _ => "; expected pcap or pcapng, also in gzip or zstd",
        };
        // If a compressed file breaks immediately, report that instead of an empty file.
        let reason = self.broken.clone().unwrap_or_else(|| format!("{error}{mend}"));
        PortError::NotACapture { path: self.path.clone(), reason }
    }

    fn failed(&self, action: &'static str, error: io::Error) -> PortError {
        PortError::Io { action, path: self.path.clone(), error }
    }

    /// Skips segments ahead as long as `is_wanted` rejects their trailers and the summaries of
    /// their flows. The summaries are read on demand. Returns how many packets were skipped.
    /// Nothing is skipped unless any byte of the capture is directly accessible.
    pub(super) fn pass_segments(
        &mut self,
        mut is_wanted: impl FnMut(&Trailer, &dyn Fn() -> Option<Vec<u8>>) -> bool,
    ) -> Result<(u64, u64), PortError> {
        let (mut segments, mut packets) = self.pass_early().unwrap_or_default();
        let (mut in_a_row, mut asked) = (0, 0);
        while let Some(ahead) = self.decoder.segment_ahead() {
            let mut tail = [0; SegmentAhead::TAIL_BYTES];
            let began_ns = clock::monotonic_ns();
            if !self.input.read_at(ahead.tail_offset(), &mut tail) {
                break;
            }
            in_a_row += 1;
            let is_due = in_a_row > ASKED_AFTER && ahead.offset >= asked;
            if is_due && clock::monotonic_ns() - began_ns > WAITED_NS {
                asked = self.ask_for_ends(&ahead);
            }
            // The last segment may have the closing counts after its packets.
            let end = ahead.offset + ahead.bytes as u64;
            let is_last = self.input.capture_bytes().is_none_or(|bytes| end >= bytes);
            let trailer = self.decoder.trailer_ahead(&tail).filter(|_| !is_last);
            let Some(trailer) = trailer else { break };
            let summary = || {
                let place = ahead.summary(&trailer);
                let mut bytes = vec![0; (place.end - place.start) as usize];
                self.input.read_at(place.start, &mut bytes).then_some(bytes)
            };
            if is_wanted(&trailer, &summary) {
                break;
            }
            let (more, of_them) = self.pass_late(&trailer).unwrap_or_else(|| {
                self.decoder.pass_segment(&trailer);
                (1, trailer.packets.into())
            });
            (segments, packets) = (segments + more, packets + of_them);
        }
        if segments > 0 {
            self.go_on()?;
        }
        Ok((segments, packets))
    }

    /// Prefetches the ends of the following segments. Returns the end of the range.
    #[cold]
    fn ask_for_ends(&self, here: &SegmentAhead) -> u64 {
        let segment_bytes = here.bytes as u64;
        for number in 1..=ASKED_SEGMENTS {
            let end = here.offset + (number + 1) * segment_bytes;
            self.input.ask_for(end - ASKED_BYTES.min(segment_bytes)..end);
        }
        here.offset + (ASKED_SEGMENTS + 1) * segment_bytes
    }

    /// Continues at another record of a plain file; false if that is impossible.
    pub(super) fn jump(&mut self, offset: u64) -> Result<bool, PortError> {
        let can_jump = self.input.can_seek() && self.decoder.jump(offset);
        if can_jump {
            // A record that is passed now needed them.
            self.needed = 0;
            self.go_on()?;
        }
        Ok(can_jump)
    }

    /// Continues reading at the decoder's position.
    fn go_on(&mut self) -> Result<(), PortError> {
        self.window.clear();
        self.is_read = false;
        let offset = self.decoder.file_offset();
        self.input.seek(offset).map_err(|error| self.failed("seek in", error))
    }

    /// Returns the bytes of a packet, until the next call of [`read_next`](Self::read_next).
    #[inline(always)]
    pub fn packet(&self, record: &Record) -> &[u8] {
        &self.window.bytes()[record.offset..][..record.captured_length as usize]
    }

    /// Returns the decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Returns the complete, valid segment of the last packet.
    pub fn segment(&self) -> Option<&[u8]> {
        let segment = self.decoder.segment_here()?;
        let behind = (self.decoder.file_offset() - segment.offset) as usize;
        let start = self.window.position.checked_sub(behind)?;
        self.window.bytes().get(start..start + segment.bytes)
    }

    /// Whether others can open its path.
    pub(super) fn has_name(&self) -> bool {
        self.has_name
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its compression, if any.
    pub fn container(&self) -> Option<FileKind> {
        self.container
    }

    /// Returns its format; `None` before its first bytes have been read.
    pub fn kind(&self) -> Option<FileKind> {
        self.kind
    }

    /// Returns its size on disk; `None` for a pipe.
    pub fn file_bytes(&self) -> Option<u64> {
        self.input.file_bytes()
    }

    /// Returns the bytes read from the file so far, before any decompression.
    pub fn bytes_read(&self) -> u64 {
        self.input.bytes_read()
    }

    /// Identifies the file for an index. `None` for a file that cannot have one, because its
    /// packets are not directly accessible.
    pub(super) fn stamp(&self) -> Option<super::index::Stamp> {
        let metadata = self.input.metadata().filter(|_| self.container.is_none())?;
        Some(super::index::Stamp::of(&metadata))
    }

    pub(super) fn input(&self) -> &Input {
        &self.input
    }
}

//! Reads a file completely for its folder's catalogue.

use std::path::Path;

use burstline_wire::files::{Record, SegmentIndex, Sketch, Trailer, Trust};
use burstline_wire::hash::{FlowHasher, HashKind};

use super::super::index::Stamp;
use super::super::reader::{CaptureReader, Found};
use super::entry::{Content, MOST_SKETCH_BYTES};
use super::{Summary, Watch};
use crate::PortError;
use crate::opened::OpenedFiles;

/// The sketch of a file without one has at most 64 KiB: enough for 100,000 flows.
const SKETCH_OF_SEGMENT_BYTES: usize = 1 << 20;

/// Packets between two checks whether to continue.
const LOOK_PACKETS: u64 = 16 << 10;

/// Returns the contents of a file, and the state that they belong to; without a state they must not
/// be saved. `None` if the caller wants to stop.
pub(super) fn survey(path: &Path, watch: &mut Watch<'_>) -> Option<(Content, Option<Stamp>)> {
    if !watch(path, 0) {
        return None;
    }
    let stamp = |reader: &CaptureReader| Some(Stamp::of(&reader.input().metadata()?));
    let mut reader = match CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default()) {
        Ok(reader) => reader,
        Err(PortError::NotACapture { .. }) => {
            let stamp = path.metadata().ok().map(|metadata| Stamp::of(&metadata));
            return Some((Content::Foreign, stamp));
        }
        // Opening it later reports the error.
        Err(_) => return Some((Content::Doubtful, None)),
    };
    let before = stamp(&reader);
    let looked = reader.without_rights(|reader| Survey::new().run(reader, watch));
    let content = match looked {
        Ok(Some(content)) => content,
        Ok(None) => return None,
        Err(_) => return Some((Content::Doubtful, None)),
    };
    // A file that has changed meanwhile has no stamp.
    let stamp = before.filter(|&before| stamp(&reader) == Some(before));
    match stamp {
        Some(stamp) => Some((content, Some(stamp))),
        None => Some((Content::Doubtful, None)),
    }
}

/// The contents of a file read so far.
struct Survey {
    summary: Summary,
    sketch: Sketch,
    hasher: FlowHasher,
    /// Packets of segments of which only the trailers were read.
    passed: u64,
    /// The last trailer read.
    last: Option<Trailer>,
}

impl Survey {
    fn new() -> Self {
        Self {
            summary: Summary { times_ns: [u64::MAX, 0], ..Summary::default() },
            sketch: Sketch::new(SKETCH_OF_SEGMENT_BYTES),
            hasher: FlowHasher::new(HashKind::FiveTuple),
            passed: 0,
            last: None,
        }
    }

    fn run(
        mut self,
        reader: &mut CaptureReader,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Content>, PortError> {
        let path = reader.path().to_owned();
        loop {
            reader.pass_segments(|trailer, _| {
                self.pass(trailer);
                false
            })?;
            match reader.read_next()? {
                Found::Packet(record) => {
                    if reader.decoder().is_segmented() && reader.decoder().trust() != Trust::Checked
                    {
                        return Ok(Some(Content::Doubtful));
                    }
                    self.add(reader, &record);
                    let is_due = self.summary.packets.is_multiple_of(LOOK_PACKETS);
                    if is_due && !watch(&path, reader.bytes_read()) {
                        return Ok(None);
                    }
                }
                Found::Damage(_) | Found::Broken(_) => return Ok(Some(Content::Doubtful)),
                Found::End => break,
            }
        }
        let says = reader.decoder().recorded().packets;
        if reader.decoder().is_segmented() && says != self.summary.packets {
            return Ok(Some(Content::Doubtful));
        }
        let sketch = match self.passed {
            0 => self.sketch.to_file_bytes(),
            _ => self.last.and_then(|last| recorded_sketch(reader, &last)).unwrap_or_default(),
        };
        let is_short = sketch.len() <= MOST_SKETCH_BYTES;
        self.summary.sketch = if is_short { sketch } else { Vec::new() };
        Ok(Some(Content::Sound(self.summary)))
    }

    /// Adds the packets of a segment by its trailer.
    fn pass(&mut self, trailer: &Trailer) {
        self.note(trailer.base_time_ns, trailer.earliest_ns, trailer.latest_ns);
        self.summary.packets += u64::from(trailer.packets);
        self.passed += u64::from(trailer.packets);
        self.last = Some(*trailer);
    }

    fn add(&mut self, reader: &CaptureReader, record: &Record) {
        self.note(record.time_ns, record.time_ns, record.time_ns);
        self.summary.packets += 1;
        self.sketch.insert(self.hasher.hash(record.link, reader.packet(record)));
    }

    /// Records the times of packets that follow.
    fn note(&mut self, first_ns: u64, earliest_ns: u64, latest_ns: u64) {
        if self.summary.packets == 0 {
            self.summary.first_ns = first_ns;
        }
        let [earliest, latest] = self.summary.times_ns;
        self.summary.times_ns = [earliest.min(earliest_ns), latest.max(latest_ns)];
    }
}

/// Returns the sketch of all flows of a recording, from its last segment.
fn recorded_sketch(reader: &CaptureReader, trailer: &Trailer) -> Option<Vec<u8>> {
    let segment_bytes = u64::from(trailer.segment_bytes);
    let last = reader.file_bytes()?.checked_sub(segment_bytes)?;
    let mut segment = vec![0; trailer.segment_bytes as usize];
    if !last.is_multiple_of(segment_bytes) || !reader.input().read_at(last, &mut segment) {
        return None;
    }
    let index = SegmentIndex::parse(&segment).ok()?;
    let is_of_flows = index.trailer().hash_kind == HashKind::FiveTuple;
    index.file_sketch().filter(|_| is_of_flows).map(<[u8]>::to_vec)
}

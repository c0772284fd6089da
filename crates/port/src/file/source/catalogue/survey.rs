//! Looks through a file for its folder's catalogue: a recording by its trailers, any other file
//! completely.

use std::path::Path;

use burstline_wire::files::{Record, SegmentAhead, Sketch, Trailer, Trust};
use burstline_wire::hash::{FlowHasher, HashKind};

use super::super::index::Stamp;
use super::super::reader::{CaptureReader, Found};
use super::entry::{Content, MOST_SKETCH_BYTES};
use super::{Summary, Watch};
use crate::PortError;
use crate::opened::OpenedFiles;

/// The sketch of a file without one has at most 64 KiB: enough for 100,000 flows.
const SKETCH_OF_SEGMENT_BYTES: usize = 1 << 20;

/// Packets, and segments that are skipped, between two checks whether to continue.
const LOOK_PACKETS: u64 = 16 << 10;
const LOOK_SEGMENTS: u64 = 256;

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
    /// Segments of which only the trailers were read, and their packets.
    segments_passed: u64,
    passed: u64,
    /// Whether the caller wants to stop.
    is_stopped: bool,
}

impl Survey {
    fn new() -> Self {
        Self {
            summary: Summary { times_ns: [u64::MAX, 0], ..Summary::default() },
            sketch: Sketch::new(SKETCH_OF_SEGMENT_BYTES),
            hasher: FlowHasher::new(HashKind::FiveTuple),
            segments_passed: 0,
            passed: 0,
            is_stopped: false,
        }
    }

    fn run(
        mut self,
        reader: &mut CaptureReader,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Content>, PortError> {
        let path = reader.path().to_owned();
        loop {
            let found = reader.read_next_after(|reader| self.pass_ahead(reader, &path, watch))?;
            if self.is_stopped {
                return Ok(None);
            }
            match found {
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
        let says = reader.decoder().recorded().packets + self.passed;
        if reader.decoder().is_segmented() && says != self.summary.packets {
            return Ok(Some(Content::Doubtful));
        }
        let sketch = match self.passed {
            0 => self.sketch.to_file_bytes(),
            _ => recorded_sketch(reader).unwrap_or_default(),
        };
        let is_short = sketch.len() <= MOST_SKETCH_BYTES;
        self.summary.sketch = if is_short { sketch } else { Vec::new() };
        Ok(Some(Content::Sound(self.summary)))
    }

    /// Skips the segments ahead, and adds their packets by their trailers.
    fn pass_ahead(
        &mut self,
        reader: &mut CaptureReader,
        path: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<(), PortError> {
        let bytes_read = reader.bytes_read();
        let passed = reader.pass_segments(|trailer, _| {
            self.segments_passed += 1;
            let is_due = self.segments_passed.is_multiple_of(LOOK_SEGMENTS);
            self.is_stopped |= is_due && !watch(path, bytes_read);
            if !self.is_stopped {
                self.pass(trailer);
            }
            self.is_stopped
        });
        passed.map(drop)
    }

    /// Adds the packets of a segment by its trailer.
    fn pass(&mut self, trailer: &Trailer) {
        self.note(trailer.base_time_ns, trailer.earliest_ns, trailer.latest_ns);
        self.summary.packets += u64::from(trailer.packets);
        self.passed += u64::from(trailer.packets);
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

/// Returns the sketch of all flows of a recording, from its last segment, which was read.
fn recorded_sketch(reader: &CaptureReader) -> Option<Vec<u8>> {
    let decoder = reader.decoder();
    // The last segment knows nothing of another section before its own.
    let last = decoder.recorded().last.filter(|_| decoder.landmark().section_start == 0)?;
    let is_of_flows = last.sketch_is_of_file && last.hash_kind == HashKind::FiveTuple;
    let bytes = last.segment_bytes as usize;
    let offset = last.sequence.checked_mul(bytes as u64).filter(|_| is_of_flows)?;
    let place = SegmentAhead { offset, bytes }.summary(&last);
    let mut sketch = vec![0; (place.end - place.start) as usize];
    reader.input().read_at(place.start, &mut sketch).then_some(sketch)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;
    use std::io::Write;

    use burstline_sys::temporary::TemporaryFolder;
    use burstline_wire::files::{
        Counters, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
    };
    use burstline_wire::headers::LinkType;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const S: usize = 4096;
    const PACKETS: u64 = 12_000;
    const FLOWS: u64 = 50;

    /// Returns a UDP packet of a flow, and the hash of the flow.
    fn packet(flow: u64) -> (Vec<u8>, u32) {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 1, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
        bytes.extend([flow as u8, 9, 0, 53, 1, 10, 0, 0]);
        bytes.resize(300, 0);
        let hash = FlowHasher::new(HashKind::FiveTuple).hash(LinkType::ETHERNET, &bytes);
        (bytes, hash)
    }

    /// Returns a closed recording of a thousand segments.
    fn recording() -> Vec<u8> {
        let mut encoder = SegmentEncoder::new(S, LinkType::ETHERNET, 0, HashKind::FiveTuple, 0);
        let (mut segment, mut file) = (vec![0; S], Vec::new());
        let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
        encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
        let mut next = |encoder: &mut SegmentEncoder, segment: &mut [u8]| {
            encoder.finish(segment, &[0; 8]);
            file.extend_from_slice(segment);
            encoder.advance();
        };
        next(&mut encoder, &mut segment);
        let packets: Vec<_> = (0..FLOWS).map(packet).collect();
        for number in 0..PACKETS {
            let (bytes, hash) = &packets[(number % FLOWS) as usize];
            let packet = PacketToWrite::new(bytes, 1000 + 10 * number);
            let packet = PacketToWrite { hash: Some(*hash), ..packet };
            if !encoder.push(&mut segment, &packet).unwrap() {
                next(&mut encoder, &mut segment);
                assert!(encoder.push(&mut segment, &packet).unwrap());
            }
        }
        encoder.close();
        while !encoder.push_statistics(&mut segment, 0, 1, &Counters::default()).unwrap() {
            next(&mut encoder, &mut segment);
        }
        next(&mut encoder, &mut segment);
        file
    }

    /// Returns the contents of a file, and how many of its bytes were read for them.
    fn look(path: &Path, watch: &mut Watch<'_>) -> (Option<Content>, u64) {
        let path = path.to_string_lossy();
        let mut reader = CaptureReader::open(&path, &OpenedFiles::default()).unwrap();
        (Survey::new().run(&mut reader, watch).unwrap(), reader.bytes_read())
    }

    fn sound(content: Option<Content>) -> Summary {
        match content {
            Some(Content::Sound(summary)) => summary,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_recording_is_known_by_its_trailers_as_if_it_were_read() {
        let folder = TemporaryFolder::create("burstline-survey-").unwrap();
        let [path, packed] = ["x.pcapng", "x.pcapng.gz"].map(|name| folder.path().join(name));
        let file = recording();
        fs::write(&path, &file).unwrap();
        // A compressed stream has no trailers that could be read alone.
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&file).unwrap();
        fs::write(&packed, gzip.finish().unwrap()).unwrap();
        let (by_trailers, bytes_read) = look(&path, &mut |_, _| true);
        assert!(bytes_read < file.len() as u64 / 4, "{bytes_read} of {} bytes", file.len());
        let by_trailers = sound(by_trailers);
        let whole = sound(look(&packed, &mut |_, _| true).0);
        assert_eq!(by_trailers.packets, PACKETS);
        assert_eq!(by_trailers.times_ns, [1000, 1000 + 10 * (PACKETS - 1)]);
        for summary in [&by_trailers, &whole] {
            let rest = Summary { sketch: Vec::new(), ..summary.clone() };
            assert_eq!(rest, Summary { sketch: Vec::new(), ..by_trailers.clone() });
            assert!(!summary.sketch.is_empty());
            for flow in 0..FLOWS {
                assert!(Sketch::may_hold(&summary.sketch, packet(flow).1), "{flow}");
            }
            let others = (0..1000).filter(|&other| Sketch::may_hold(&summary.sketch, other));
            assert!(others.count() < 100);
        }
        // Who waits can stop it, though no packet is read.
        let (content, bytes_read) = look(&path, &mut |_, _| false);
        assert!(content.is_none() && bytes_read < file.len() as u64 / 4, "{bytes_read}");
    }

    #[test]
    fn the_last_segment_does_not_speak_for_another_recording_before_its_own() {
        let folder = TemporaryFolder::create("burstline-survey-").unwrap();
        let path = folder.path().join("two.pcapng");
        let file = recording();
        fs::write(&path, [&file[..], &file].concat()).unwrap();
        let content = look(&path, &mut |_, _| true).0;
        let hides = matches!(&content, Some(Content::Sound(all)) if !all.sketch.is_empty());
        assert!(!hides, "{content:?}");
    }
}

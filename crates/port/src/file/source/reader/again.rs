//! Reads a segment again that its recorder wrote while it was read.
//!
//! ```text
//!  recorder   | blocks 1      | trailer 1 |             | blocks 1, 2     | trailer 2 |
//!  reader                                   | blocks 1   ................ | trailer 2 |   torn
//!                                                            again: | blocks 1, 2 | trailer 2 |
//! ```
//!
//! A recorder writes its open segment in place, again and again, and a reader gets it in pieces. So
//! it may have blocks of one write and the trailer of the next. Their checksum does not hold, but
//! the file is intact. Therefore the last segments of a recording are read again if their checksum
//! does not hold, before the decoder sees them. If one stays as it is, it is damaged, and the
//! reader looks at no other twice: a damaged file costs two pauses at most.

use std::thread;
use std::time::Duration;

use burstline_wire::files::{SegmentAhead, SegmentIndex};

use super::super::super::segmented::slots::under_way_bytes;
use super::CaptureReader;

/// How often a segment is read again, and how long a write may take meanwhile. Nobody writes while
/// a fuzzer reads.
const TRIES: u32 = 3;
/// The same while a recorder has the file locked: half a second, for a disk that is busy.
const TRIES_WHILE_WRITTEN: u32 = if cfg!(fuzzing) { TRIES } else { 100 };
const PAUSE: Duration = Duration::from_millis(if cfg!(fuzzing) { 0 } else { 5 });

impl CaptureReader {
    /// Reads torn segments again that are in the window and may still be written. The first segment
    /// in the window is `ahead`.
    pub(super) fn read_torn_again(&mut self, ahead: &SegmentAhead) {
        let Self { input, window, is_at_rest, .. } = self;
        if *is_at_rest || !input.can_seek() {
            return;
        }
        let Some(file_bytes) = input.capture_bytes() else { return };
        let written = under_way_bytes(ahead.bytes) as u64;
        let mut offset = ahead.offset;
        for segment in window.rest_mut().chunks_exact_mut(ahead.bytes) {
            let (start, end) = (offset, offset + ahead.bytes as u64);
            offset = end;
            if end + written < file_bytes || SegmentIndex::parse(segment).is_ok() {
                continue;
            }
            let tries = if input.is_locked() { TRIES_WHILE_WRITTEN } else { TRIES };
            if !read_until_whole(segment, tries, |place| input.read_at(start, place)) {
                *is_at_rest = true;
                return;
            }
        }
    }
}

/// Reads a segment until its checksum holds, and replaces `segment` by it. False, and nothing is
/// replaced, if no try succeeds.
fn read_until_whole(
    segment: &mut [u8],
    tries: u32,
    mut read: impl FnMut(&mut [u8]) -> bool,
) -> bool {
    let mut again = vec![0; segment.len()];
    for number in 0..tries {
        if number > 0 {
            thread::sleep(PAUSE);
        }
        if !read(&mut again) {
            return false;
        }
        if SegmentIndex::parse(&again).is_ok() {
            segment.copy_from_slice(&again);
            return true;
        }
    }
    false
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use burstline_sys::temporary::TemporaryFolder;
    use burstline_wire::files::{
        DamageKind, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder, Step,
        Trust,
    };
    use burstline_wire::hash::HashKind;
    use burstline_wire::headers::LinkType;

    use super::*;
    use crate::{Found, OpenedFiles};

    const PACKET: [u8; 1000] = [7; 1000];

    /// Two writes of the same open segment, behind the segment with the descriptions.
    struct Writes {
        header: Vec<u8>,
        first: Vec<u8>,
        second: Vec<u8>,
        /// Packets in the second write.
        packets: u64,
    }

    /// Fills a segment up to these bytes of blocks, for each write.
    fn writes(segment_bytes: usize, ends: [usize; 2]) -> Writes {
        let mut encoder =
            SegmentEncoder::new(segment_bytes, LinkType::ETHERNET, 0, HashKind::None, 0);
        let mut header = vec![0; segment_bytes];
        let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
        encoder.header(&mut header, &SectionDescription::default(), &[interface]).unwrap();
        encoder.advance();
        let (mut segment, mut packets) = (vec![0; segment_bytes], 0);
        let [first, second] = ends.map(|end| {
            while encoder.blocks_end() < end {
                let packet = PacketToWrite::new(&PACKET, packets);
                assert!(encoder.push(&mut segment, &packet).unwrap());
                packets += 1;
            }
            encoder.finish(&mut segment, &[0; 8]);
            segment.clone()
        });
        Writes { header, first, second, packets }
    }

    fn open(path: &Path) -> CaptureReader {
        CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default()).unwrap()
    }

    /// Returns the sound packets of the rest of a file, and how many are said to be corrupt.
    fn count(reader: &mut CaptureReader) -> (u64, u64) {
        let (mut packets, mut corrupt) = (0, 0);
        loop {
            match reader.read_next().unwrap() {
                Found::Packet(_) if reader.decoder().trust() == Trust::Doubtful => {}
                Found::Packet(record) => {
                    assert_eq!(reader.packet(&record), PACKET);
                    packets += 1;
                }
                Found::Damage(damage) => {
                    if let DamageKind::Corrupt { packets, .. } = damage.kind {
                        corrupt += packets;
                    }
                }
                Found::Broken(reason) => panic!("{reason}"),
                Found::End => return (packets, corrupt),
            }
        }
    }

    #[test]
    fn a_segment_that_is_rewritten_between_two_reads_is_intact() {
        let size = 512 << 10;
        let Writes { header, first, second, packets } = writes(size, [100_000, 400_000]);
        let folder = TemporaryFolder::create("burstline-again-").unwrap();
        let path = folder.path().join("x.pcapng");
        fs::write(&path, [&header[..], &first[..]].concat()).unwrap();
        let mut reader = open(&path);
        // Read on until a part of the open segment is in the window.
        while reader.decoder.segment_ahead().is_none() || reader.window.rest().is_empty() {
            assert!(matches!(reader.step(), Step::NeedMore { .. }));
            reader.refill().unwrap();
        }
        let ahead = reader.decoder.segment_ahead().unwrap();
        let held = reader.window.rest().len();
        assert!(ahead.offset == size as u64 && held < size, "{held} bytes of it");
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(&second, size as u64)
            .unwrap();
        assert_eq!(count(&mut reader), (packets, 0));
    }

    #[test]
    fn a_segment_that_stays_torn_is_damaged() {
        let size = 64 << 10;
        let Writes { header, first, mut second, .. } = writes(size, [10_000, 40_000]);
        second[..4096].copy_from_slice(&[0; 4096]);
        second[20_000..30_000].copy_from_slice(&first[20_000..30_000]);
        let folder = TemporaryFolder::create("burstline-again-").unwrap();
        let path = folder.path().join("x.pcapng");
        fs::write(&path, [&header[..], &second[..]].concat()).unwrap();
        let mut reader = open(&path);
        assert!(reader.is_at_rest);
        assert!(count(&mut reader).1 > 0);
    }

    #[test]
    fn a_torn_segment_is_read_until_it_is_whole() {
        let Writes { first, second, .. } = writes(64 << 10, [10_000, 40_000]);
        let torn = [&first[..32 << 10], &second[32 << 10..]].concat();
        for whole in 1..=TRIES + 1 {
            let (mut segment, mut reads) = (torn.clone(), 0);
            let is_whole = read_until_whole(&mut segment, TRIES, |place| {
                reads += 1;
                place.copy_from_slice(if reads == whole { &second } else { &torn });
                true
            });
            assert_eq!((is_whole, reads), (whole <= TRIES, whole.min(TRIES)));
            assert_eq!(segment, if is_whole { second.clone() } else { torn.clone() });
        }
        let mut segment = torn.clone();
        assert!(!read_until_whole(&mut segment, TRIES, |_| false));
        assert_eq!(segment, torn);
    }
}

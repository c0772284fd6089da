//! Scans a file in one pass.
//!
//! A packet's number counts from 1 over the packets that the file had when it was written, as far
//! as the file tells. Packets in broken and missing segments keep their numbers.

use std::fmt;
use std::path::PathBuf;

use burstline_port::{CaptureReader, Found};
use burstline_wire::files::{
    Damage, DamageKind, FileKind, Interface, LostPackets, PacketOptions, Record, Recorded,
    SegmentIndex, Trust,
};

use crate::EngineError;

/// The most faults kept for a file; further ones are only counted.
const FAULTS_MAX: usize = 1000;

/// Packets between two calls of the watch; damage calls it, too.
const LOOK_PACKETS: u64 = 16 << 10;

/// Receives the number of bytes read so far, and returns whether to go on.
pub type Watch<'a> = dyn FnMut(u64) -> bool + Send + 'a;

/// A fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes that cannot be parsed, or segments that differ from how they were written.
    Damage {
        /// Place and kind of the damage.
        damage: Damage,
        /// Number of the first lost packet, or of the next one if no loss is known.
        packet: u64,
        /// How many packets are lost, as far as known.
        packets: u64,
    },
    /// A compressed stream ends early.
    Broken {
        /// Place and cause.
        reason: String,
        /// Number of the packet that would come next.
        packet: u64,
    },
    /// A worklist contradicts the blocks beside it, though the checksum holds.
    Worklist {
        /// Number of the segment.
        sequence: u64,
        /// Number of the packet.
        packet: u64,
    },
    /// Sound segments have a different number of packets than their trailers say.
    Counts {
        /// Packets by their trailers.
        says: u64,
        /// Packets in their blocks.
        has: u64,
    },
    /// The closing counts of an interface disagree with the packets in the file.
    Delivered {
        /// Name of the interface.
        interface: String,
        /// Packets by `isb_usrdeliv`.
        says: u64,
        /// Packets in the file.
        has: u64,
    },
    /// No damage: the file is being written, and its end is still to come.
    Unfinished,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage { damage, packet, packets: 0 } => {
                write!(f, "{damage}; before packet {packet}")
            }
            Self::Damage { damage, packet, packets: 1 } => write!(f, "{damage}; packet {packet}"),
            Self::Damage { damage, packet, packets } => {
                write!(f, "{damage}; packets {packet} to {}", packet + packets - 1)
            }
            Self::Broken { reason, packet } => write!(f, "{reason}; before packet {packet}"),
            Self::Worklist { sequence, packet } => {
                write!(
                    f,
                    "segment {sequence}: the worklist contradicts the block of packet {packet}"
                )
            }
            Self::Counts { says, has } => {
                write!(f, "intact segments declare {says} packets, but contain {has}")
            }
            Self::Delivered { interface, says, has } => write!(
                f,
                "the closing counts of {interface} say {says} packets, the file has {has}"
            ),
            Self::Unfinished => write!(f, "the file is being written"),
        }
    }
}

impl Fault {
    /// Returns the fault's offset in the file, if it is at one place.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Damage { damage, .. } => match damage.kind {
                DamageKind::Corrupt { from, .. } => Some(from),
                _ => Some(damage.offset),
            },
            _ => None,
        }
    }

    /// Returns the numbers of the lost packets: the first, and how many; `None` if unknown.
    pub fn packets(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Damage { packet, packets, .. } => Some((packet, packets)),
            Self::Broken { packet, .. } | Self::Worklist { packet, .. } => Some((packet, 0)),
            Self::Counts { .. } | Self::Delivered { .. } | Self::Unfinished => None,
        }
    }
}

/// The outcome of a scan.
#[derive(Clone, Debug, Default)]
pub struct Scanned {
    /// Path of the file.
    pub path: PathBuf,
    /// Its compression, if any.
    pub container: Option<FileKind>,
    /// Its file format.
    pub kind: Option<FileKind>,
    /// Size of its segments, if it has any.
    pub segment_bytes: Option<u64>,
    /// Size of the file in bytes; for a pipe, the bytes received.
    pub bytes: u64,
    /// Sound packets.
    pub packets: u64,
    /// Sound packets covered by a checksum.
    pub checked: u64,
    /// Packets lost to damage.
    pub lost: LostPackets,
    /// Faults, in the order of the file; bounded. See [`damage`](Self::damage).
    pub faults: Vec<Fault>,
    /// Faults beyond the bound.
    pub faults_omitted: u64,
    /// The interfaces that the file describes, with their closing counts.
    pub interfaces: Vec<Interface>,
    /// Sound packets of each interface.
    pub interface_packets: Vec<u64>,
    /// Sum of the trailers of sound segments.
    pub recorded: Recorded,
    /// Packets that are older than their predecessor.
    pub disordered: u64,
    /// Whether the scan was stopped before the end of the file.
    pub is_stopped: bool,
}

/// A sound packet, as passed to a visitor.
pub(super) struct Seen<'a> {
    pub(super) record: &'a Record,
    pub(super) bytes: &'a [u8],
    /// Its interface.
    pub(super) interface: &'a Interface,
    /// Its options; all `None` if it has none.
    pub(super) options: PacketOptions,
    /// Packets of the file lost between the previous sound packet and this one.
    pub(super) missing_before: u64,
}

impl Scanned {
    /// Returns whether the file is as it was written, as far as it is.
    pub fn is_sound(&self) -> bool {
        self.damage().next().is_none()
    }

    /// Returns the faults of the file as far as it is.
    pub fn damage(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(|fault| **fault != Fault::Unfinished)
    }

    /// Returns whether the file was being written while it was read.
    pub fn is_being_written(&self) -> bool {
        self.faults.contains(&Fault::Unfinished)
    }

    /// Returns how many packets the file had, as far as it tells.
    pub(super) fn offered(&self) -> u64 {
        self.packets + self.lost.total()
    }

    /// Returns the number of the next packet.
    fn next_packet(&self) -> u64 {
        self.offered() + 1
    }

    fn fault(&mut self, fault: Fault) {
        match self.faults.len() < FAULTS_MAX {
            true => self.faults.push(fault),
            false => self.faults_omitted += 1,
        }
    }

    /// Counts a sound packet of an interface.
    fn count(&mut self, interface: usize, trust: Trust) {
        if self.interface_packets.len() <= interface {
            self.interface_packets.resize(interface + 1, 0);
        }
        self.interface_packets[interface] += 1;
        self.packets += 1;
        self.checked += u64::from(trust == Trust::Checked);
    }

    fn note_unfinished(&mut self) {
        if !self.is_being_written() {
            self.faults.push(Fault::Unfinished); // also beyond the bound
        }
    }

    /// Notes damage, and how many packets it cost. That a file which is being written has no end is
    /// no fault.
    fn note_damage(&mut self, damage: Damage, reader: &CaptureReader) {
        let packet = self.next_packet();
        let packets = self.lost.count(&damage.kind);
        match reader.is_end_to_come(&damage) {
            true => self.note_unfinished(),
            false => self.fault(Fault::Damage { damage, packet, packets }),
        }
    }

    /// Notes that a compressed stream ended early, unless it goes on later.
    fn broken(&mut self, reason: String, reader: &CaptureReader) {
        let packet = self.next_packet();
        match reader.is_stream_end_to_come() {
            true => self.note_unfinished(),
            false => self.fault(Fault::Broken { reason, packet }),
        }
    }

    /// Compares a sound segment's worklist with its blocks.
    fn compare(&mut self, segment: &[u8]) {
        let Ok(index) = SegmentIndex::parse(segment) else { return };
        if let Some(number) = index.contradiction() {
            let sequence = index.trailer().sequence;
            let packet = index.trailer().first_packet + u64::from(number) + 1;
            self.fault(Fault::Worklist { sequence, packet });
        }
    }

    /// Takes what the reader knows of the file at the end.
    fn end(&mut self, reader: &CaptureReader) {
        self.is_stopped |= reader.was_stopped();
        let decoder = reader.decoder();
        self.interfaces = decoder.interfaces().to_vec();
        self.interface_packets.resize(self.interfaces.len(), 0);
        self.recorded = *decoder.recorded();
        (self.container, self.kind) = (reader.container(), reader.kind());
        if reader.is_being_written() {
            self.note_unfinished();
        }
        self.bytes = reader.file_bytes().unwrap_or(reader.bytes_read());
        if !self.is_stopped {
            self.close(decoder.is_segmented());
        }
    }

    /// Compares the counted packets with the counts in the file.
    fn close(&mut self, is_segmented: bool) {
        if !is_segmented {
            return;
        }
        let (says, has) = (self.recorded.packets, self.checked);
        if says != has {
            self.fault(Fault::Counts { says, has });
        }
        // If packets are missing, the counts differ anyway.
        if !self.is_sound() {
            return;
        }
        let counted = self.interfaces.iter().zip(&self.interface_packets);
        let differs: Vec<Fault> = counted
            .filter_map(|(interface, &has)| {
                let says = interface.counters.delivered.filter(|says| *says != has)?;
                Some(Fault::Delivered { interface: interface.name.clone(), says, has })
            })
            .collect();
        differs.into_iter().for_each(|fault| self.fault(fault));
    }
}

/// Reads a file from start to end, calls `visit` for each sound packet, and finds all faults.
pub(super) fn scan(
    mut reader: CaptureReader,
    watch: &mut Watch<'_>,
    mut visit: impl FnMut(&Seen<'_>) -> Result<(), EngineError>,
) -> Result<Scanned, EngineError> {
    let mut scanned = Scanned { path: reader.path().to_owned(), ..Scanned::default() };
    let (mut latest_ns, mut segments, mut told) = (0, 0, 0);
    loop {
        let record = match reader.read_next()? {
            Found::Packet(record) => record,
            Found::Damage(damage) => {
                scanned.note_damage(damage, &reader);
                // A broken segment may take as long as many packets.
                scanned.is_stopped = !watch(reader.bytes_read());
                if scanned.is_stopped {
                    break;
                }
                continue;
            }
            Found::Broken(reason) => {
                scanned.broken(reason, &reader);
                continue;
            }
            Found::End => break,
        };
        let decoder = reader.decoder();
        let trust = decoder.trust();
        if trust == Trust::Doubtful {
            continue;
        }
        if decoder.recorded().segments != segments {
            segments = decoder.recorded().segments;
            if let Some(segment) = reader.segment() {
                scanned.segment_bytes = Some(segment.len() as u64);
                scanned.compare(segment);
            }
        }
        let number = record.interface as usize;
        let options =
            if record.has_options { *decoder.options() } else { PacketOptions::default() };
        let missing = scanned.lost.total();
        visit(&Seen {
            record: &record,
            bytes: reader.packet(&record),
            interface: &decoder.interfaces()[number],
            options,
            missing_before: missing.saturating_sub(told),
        })?;
        told = missing;
        scanned.count(number, trust);
        scanned.disordered += u64::from(record.timed && record.time_ns < latest_ns);
        latest_ns = record.time_ns;
        if scanned.packets.is_multiple_of(LOOK_PACKETS) && !watch(reader.bytes_read()) {
            scanned.is_stopped = true;
            break;
        }
    }
    watch(reader.bytes_read());
    scanned.end(&reader);
    Ok(scanned)
}

/// Checks a file: checksums, sequence, worklists, counts, and that its bytes can be parsed.
///
/// # Errors
/// Returns [`EngineError::Port`] if the file cannot be read. Faults in the file are not errors.
pub fn check(reader: CaptureReader, watch: &mut Watch<'_>) -> Result<Scanned, EngineError> {
    scan(reader, watch, |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use burstline_port::OpenedFiles;
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    fn block(kind: u32, body: &[u32]) -> Vec<u8> {
        let length = 12 + 4 * body.len() as u32;
        let words = [&[kind, length][..], body, &[length]].concat();
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn a_file_of_damage_can_be_left() {
        let folder = TemporaryFolder::create("burstline-scan-").unwrap();
        let path = folder.file("x.pcapng");
        let section = block(0x0A0D_0D0A, &[0x1A2B_3C4D, 1, u32::MAX, u32::MAX]);
        let packet_and_rubbish = [block(6, &[0, 0, 0, 4, 4, 0]), vec![0xEE; 64]].concat();
        let file = [section, block(1, &[1, 0]), packet_and_rubbish.repeat(3)].concat();
        fs::write(&path, file).unwrap();
        for (goes_on, packets, faults) in [(true, 3, 3), (false, 1, 1)] {
            let reader = CaptureReader::open(&path, &OpenedFiles::default()).unwrap();
            let scanned = check(reader, &mut |_| goes_on).unwrap();
            assert_eq!(scanned.is_stopped, !goes_on);
            assert_eq!((scanned.packets, scanned.faults.len()), (packets, faults));
        }
    }
}

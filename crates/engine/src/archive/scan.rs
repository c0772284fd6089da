//! One pass over one file.
//!
//! A packet's number counts from 1 over the packets that the file had when it was written, as far
//! as the file tells. Packets in broken and missing segments keep theirs.

use std::fmt;
use std::path::PathBuf;

use burstline_port::{CaptureReader, Found};
use burstline_wire::files::{
    Damage, DamageKind, FileKind, Interface, LostPackets, PacketOptions, Record, Recorded,
    SegmentIndex, Trust,
};

use crate::EngineError;

/// Faults of a file that are kept; further ones are counted.
const FAULTS_MAX: usize = 1000;

/// Packets between two looks at whether to go on.
const LOOK_PACKETS: u64 = 16 << 10;

/// Gets how many bytes of a file have been read, and returns whether to go on.
pub type Watch<'a> = dyn FnMut(u64) -> bool + Send + 'a;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes that make no sense, or segments that are not as they were written.
    Damage {
        /// Where and what.
        damage: Damage,
        /// Number of the first packet that is lost, or of the next one where none is known to be.
        packet: u64,
        /// How many packets are lost, as far as that is known.
        packets: u64,
    },
    /// A compressed stream ends early.
    Broken {
        /// Where and why.
        reason: String,
        /// Number of the next packet that there would be.
        packet: u64,
    },
    /// A worklist says something else than the blocks beside it, though the checksum holds.
    Worklist {
        /// Number of the segment.
        sequence: u64,
        /// Number of the packet.
        packet: u64,
    },
    /// Sound segments have another number of packets than they say.
    Counts {
        /// By their trailers.
        says: u64,
        /// In their blocks.
        has: u64,
    },
    /// The closing counts of an interface have another number of packets than the file.
    Delivered {
        /// Name of the interface.
        interface: String,
        /// `isb_usrdeliv`.
        says: u64,
        /// In the file.
        has: u64,
    },
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
                write!(f, "sound segments declare {says} packets, and have {has}")
            }
            Self::Delivered { interface, says, has } => write!(
                f,
                "the closing counts of {interface} say {says} packets, the file has {has}"
            ),
        }
    }
}

impl Fault {
    /// Where in the file it is, where it is at one place.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Damage { damage, .. } => match damage.kind {
                DamageKind::Corrupt { from, .. } => Some(from),
                _ => Some(damage.offset),
            },
            _ => None,
        }
    }

    /// The numbers of the packets lost: the first, and how many; none where that is not known.
    pub fn packets(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Damage { packet, packets, .. } => Some((packet, packets)),
            Self::Broken { packet, .. } | Self::Worklist { packet, .. } => Some((packet, 0)),
            Self::Counts { .. } | Self::Delivered { .. } => None,
        }
    }
}

/// What a pass over a file found.
#[derive(Clone, Debug, Default)]
pub struct Scanned {
    /// Its path.
    pub path: PathBuf,
    /// How it is compressed, if it is.
    pub container: Option<FileKind>,
    /// What it is.
    pub kind: Option<FileKind>,
    /// Bytes of its segments, if it has any.
    pub segment_bytes: Option<u64>,
    /// Its bytes, as it lies there; those that came where it is a pipe.
    pub bytes: u64,
    /// Sound packets.
    pub packets: u64,
    /// Those of them that a checksum vouches for.
    pub checked: u64,
    /// Packets that damage has cost it.
    pub lost: LostPackets,
    /// What is wrong, in the order of the file; bounded.
    pub faults: Vec<Fault>,
    /// Faults beyond the bound.
    pub faults_omitted: u64,
    /// The interfaces that the file describes, with their closing counts.
    pub interfaces: Vec<Interface>,
    /// Sound packets of each of them.
    pub interface_packets: Vec<u64>,
    /// What the trailers of sound segments say in sum.
    pub recorded: Recorded,
    /// Packets that are older than the one before.
    pub disordered: u64,
    /// Whether the pass was ended before the end of the file.
    pub is_stopped: bool,
}

/// A sound packet, as a visitor sees it.
pub(super) struct Seen<'a> {
    pub(super) record: &'a Record,
    pub(super) bytes: &'a [u8],
    /// Its interface.
    pub(super) interface: &'a Interface,
    /// Its options; all `None` where it has none.
    pub(super) options: PacketOptions,
    /// The packets of the file that were lost between the sound packet before and this one.
    pub(super) missing_before: u64,
}

impl Scanned {
    /// Whether the file is as it was written.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// Packets that the file had, as far as it tells.
    pub(super) fn offered(&self) -> u64 {
        self.packets + self.lost.total()
    }

    /// Number of the packet that comes next.
    fn next_packet(&self) -> u64 {
        self.offered() + 1
    }

    fn fault(&mut self, fault: Fault) {
        match self.faults.len() < FAULTS_MAX {
            true => self.faults.push(fault),
            false => self.faults_omitted += 1,
        }
    }

    /// Notes damage, and how many packets it cost.
    fn damage(&mut self, damage: Damage) {
        let packet = self.next_packet();
        let packets = self.lost.count(&damage.kind);
        self.fault(Fault::Damage { damage, packet, packets });
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

    /// Compares what was counted with what the file says of it.
    fn close(&mut self, is_segmented: bool) {
        if !is_segmented {
            return;
        }
        let (says, has) = (self.recorded.packets, self.checked);
        if says != has {
            self.fault(Fault::Counts { says, has });
        }
        // Of a file that lacks packets it is known already.
        if !self.faults.is_empty() {
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

/// Reads a file from start to end, has each sound packet visited, and finds all that is wrong.
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
                scanned.damage(damage);
                continue;
            }
            Found::Broken(reason) => {
                let packet = scanned.next_packet();
                scanned.fault(Fault::Broken { reason, packet });
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
        if scanned.interface_packets.len() <= number {
            scanned.interface_packets.resize(number + 1, 0);
        }
        scanned.interface_packets[number] += 1;
        scanned.packets += 1;
        scanned.checked += u64::from(trust == Trust::Checked);
        scanned.disordered += u64::from(record.timed && record.time_ns < latest_ns);
        latest_ns = record.time_ns;
        if scanned.packets.is_multiple_of(LOOK_PACKETS) && !watch(reader.bytes_read()) {
            scanned.is_stopped = true;
            break;
        }
    }
    watch(reader.bytes_read());
    let decoder = reader.decoder();
    scanned.interfaces = decoder.interfaces().to_vec();
    scanned.interface_packets.resize(scanned.interfaces.len(), 0);
    scanned.recorded = *decoder.recorded();
    (scanned.container, scanned.kind) = (reader.container(), reader.kind());
    scanned.bytes = reader.file_bytes().unwrap_or(reader.bytes_read());
    if !scanned.is_stopped {
        scanned.close(decoder.is_segmented());
    }
    Ok(scanned)
}

/// Checks a file: checksums, sequence, worklists, counts; and that its bytes make sense.
///
/// # Errors
/// [`EngineError::Port`]: it cannot be read. What is wrong in it is not an error.
pub fn check(reader: CaptureReader, watch: &mut Watch<'_>) -> Result<Scanned, EngineError> {
    scan(reader, watch, |_| Ok(()))
}

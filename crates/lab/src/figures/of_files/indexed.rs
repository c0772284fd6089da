//! Measures what checksum and index cost a recorder: the same packets in segments with both, and
//! with neither.
//!
//! ```text
//!  ours   flow hash | block | worklist, sketch, checksum |  1 MiB to the disk
//!  peer               block                                 1 MiB to the disk
//! ```
//!
//! Both sides write by the recorder's own queue. What else a recorder does for a packet, such as
//! taking it from its log, is in neither: the share of a whole recorder is smaller.

use std::path::Path;

use burstline_sys::clock;
use burstline_sys::direct::{Creation, OutputFile, WriteQueue};
use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::files::{
    InterfaceDescription, LOSS_CAUSES, PacketToWrite, PcapngEncoder, PlainItem, SectionDescription,
    SegmentEncoder, SegmentIndex,
};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::instructions;
use crate::live::udp_frame;

const SEGMENT_BYTES: usize = 1 << 20;
/// Writes in progress, as a recorder's.
const WRITES: usize = 4;
const PACKET_BYTES: usize = 1000;
const FLOWS: u16 = 1024;
/// Packets handed over together.
const BURST: usize = 64;

/// Where segments go.
enum To<'a> {
    Disk(&'a mut OutputFile, &'a mut WriteQueue),
    /// Nowhere: only the processor's work counts.
    Memory(&'a mut [u8]),
}

impl To<'_> {
    fn segment(&mut self) -> &mut [u8] {
        match self {
            Self::Disk(_, queue) => queue.bytes_mut(),
            Self::Memory(bytes) => bytes,
        }
    }

    fn write(&mut self, number: u64) -> Result<(), String> {
        let Self::Disk(file, queue) = self else { return Ok(()) };
        queue.submit(file, number * SEGMENT_BYTES as u64).map_err(|error| error.to_string())
    }
}

/// `record-index`.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    let packets: u64 = if context.smoke { 8192 } else { 1 << 20 };
    let folder = TemporaryFolder::create("burstline-indexed-").map_err(|e| e.to_string())?;
    let (path, frames) = (folder.path().join("x.pcapng"), frames());
    let comparison = context.begin();
    let rounds = context.alternate(
        context.runs,
        || on_disk(&path, packets, |to| indexed(to, &frames, packets)),
        || on_disk(&path, packets, |to| bare(to, &frames, packets)),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let (ours, peer) = rounds.medians();
    let details = vec![
        format!(
            "checksum and index take {:.1} % of the time with them, by medians",
            (ours - peer) / ours * 100.0
        ),
        format!("ours: {packets} packets of {PACKET_BYTES} bytes, {FLOWS} flows, to a disk"),
        "peer: the same without flow hash, worklist, sketch and checksum".to_owned(),
        "processor time of the writing thread; a recorder takes packets from its log, too".into(),
        counted(),
    ];
    Ok(comparison.outcome("ns a packet", Better::Lower, rounds, details))
}

/// Runs one side alone, [`FLOWS`] packets a round, to no disk.
pub(crate) fn do_rounds(is_ours: bool, rounds: u64) -> Result<(), String> {
    let (mut memory, frames) = (vec![0; SEGMENT_BYTES], frames());
    let (mut to, packets) = (To::Memory(&mut memory), rounds * u64::from(FLOWS));
    if is_ours { indexed(&mut to, &frames, packets) } else { bare(&mut to, &frames, packets) }
}

/// Describes callgrind's counts of both sides.
fn counted() -> String {
    let of = |piece| instructions::of_a_packet(piece, FLOWS.into());
    match (of("record-indexed"), of("record-bare")) {
        (Some(ours), Some(bare)) => {
            format!("instructions a packet without the writes: ours {ours:.0}, peer {bare:.0}")
        }
        _ => instructions::NOT_COUNTED.to_owned(),
    }
}

/// Returns the ns of this thread for each packet that `record` writes to a new file.
fn on_disk(
    path: &Path,
    packets: u64,
    record: impl FnOnce(&mut To<'_>) -> Result<(), String>,
) -> Result<f64, String> {
    let _ = std::fs::remove_file(path); // at first it does not exist
    let mut file = OutputFile::create(path, &Creation::default()).map_err(|e| e.to_string())?;
    let mut queue = WriteQueue::new(WRITES, SEGMENT_BYTES).map_err(|error| error.to_string())?;
    let start_ns = clock::thread_cpu_ns();
    record(&mut To::Disk(&mut file, &mut queue))?;
    queue.wait_all(&mut file).map_err(|error| error.to_string())?;
    Ok((clock::thread_cpu_ns() - start_ns) as f64 / packets as f64)
}

/// Encodes packets as a recorder does.
fn indexed(to: &mut To<'_>, frames: &[Vec<u8>], packets: u64) -> Result<(), String> {
    let (link, kind) = (LinkType::ETHERNET, HashKind::FiveTuple);
    let mut encoder = SegmentEncoder::new(SEGMENT_BYTES, link, 0, kind, 0);
    let mut hasher = FlowHasher::new(kind);
    let interfaces = [InterfaceDescription::new(link, "eth0")];
    let header = encoder.header(to.segment(), &SectionDescription::default(), &interfaces);
    header.map_err(|error| error.to_string())?;
    to.write(0)?;
    encoder.advance();
    let (mut items, mut number) = (Vec::with_capacity(BURST), 0);
    while number < packets {
        items.clear();
        for time_ns in number..packets.min(number + BURST as u64) {
            let bytes = &frames[time_ns as usize % frames.len()][..];
            items.push(PlainItem { bytes, time_ns, hash: hasher.hash(link, bytes) });
        }
        number += items.len() as u64;
        let mut rest = &items[..];
        while let Some(first) = rest.first() {
            let mut taken = encoder.push_plain(to.segment(), 0, rest.iter().copied()).packets;
            if taken == 0 {
                let mut packet = PacketToWrite::new(first.bytes, first.time_ns);
                packet.hash = Some(first.hash);
                let pushed = encoder.push(to.segment(), &packet).map_err(|e| e.to_string())?;
                taken = usize::from(pushed);
            }
            rest = &rest[taken..];
            if taken == 0 {
                end_segment(&mut encoder, to)?;
            }
        }
    }
    end_segment(&mut encoder, to)
}

fn end_segment(encoder: &mut SegmentEncoder, to: &mut To<'_>) -> Result<(), String> {
    let number = encoder.file_offset() / SEGMENT_BYTES as u64;
    encoder.finish(to.segment(), &[0; LOSS_CAUSES]);
    debug_assert!(SegmentIndex::parse(to.segment()).is_ok(), "it has a checksum that holds");
    to.write(number)?;
    encoder.advance();
    Ok(())
}

/// Encodes packets without anything that a reader checks or searches.
fn bare(to: &mut To<'_>, frames: &[Vec<u8>], packets: u64) -> Result<(), String> {
    let link = LinkType::ETHERNET;
    let mut encoder = PcapngEncoder::new(link, 0);
    let section = encoder.section(to.segment(), &SectionDescription::default());
    let mut filled = section.map_err(|error| error.to_string())?;
    let described = InterfaceDescription::new(link, "eth0");
    let interface = encoder.interface(&mut to.segment()[filled..], &described);
    filled += interface.map_err(|error| error.to_string())?;
    let (mut segment, mut time_ns) = (0, 0);
    while time_ns < packets {
        let bytes = &frames[time_ns as usize % frames.len()][..];
        let item = PlainItem { bytes, time_ns, hash: 0 };
        match encoder.plain(&mut to.segment()[filled..], 0, &item) {
            0 => {
                to.segment()[filled..].fill(0);
                to.write(segment)?;
                (segment, filled) = (segment + 1, 0);
            }
            block => (filled, time_ns) = (filled + block, time_ns + 1),
        }
    }
    to.segment()[filled..].fill(0);
    to.write(segment)
}

/// Packets of IPv4 UDP, one of each flow: the last bytes of its source address.
fn frames() -> Vec<Vec<u8>> {
    let frame = |flow: u16| {
        let mut frame = udp_frame(PACKET_BYTES);
        frame[28..30].copy_from_slice(&flow.to_be_bytes());
        frame
    };
    (0..FLOWS).map(frame).collect()
}

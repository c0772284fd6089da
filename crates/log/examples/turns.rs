//! Runs both ends of a log in turns on one thread, for counting instructions: `turns WORK PACKETS`.
//!
//! ```text
//! place    each packet is filled in place in the log    writer, then reader, a burst each
//! copy     each packet is copied from a receive buffer
//! gather   packets of two bursts are moved into the log in turns, one of each
//! run      the same, 32 packets of each in turns
//! bare     the same packets made and read in one buffer, without a log
//! ```
//!
//! Packets have 60 bytes. The reader does the work of a flow classifier, and reads length, hash and
//! time. `tests/turns.rs` counts the instructions of each under callgrind, and compares them.

use std::env;
use std::process::ExitCode;

use burstline_log::{
    Appended, Handoff, Log, LogConfig, Meta, PlainPacket, Policy, Reader, ReaderConfig, Scratch,
    Start, Strand, Writer,
};

const BURST: usize = 64;
const LENGTH: usize = 60;
const START_NS: u64 = 1_700_000_000_000_000_000;

/// Room for one packet: a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

/// Received packets with their lengths.
type Received = [(Line, usize); BURST];

fn meta_of(counter: u32, length: usize) -> Meta {
    let mut meta = Meta::new(START_NS + u64::from(counter), length as u32, 0);
    meta.hash = counter.wrapping_mul(2_654_435_761);
    meta
}

#[inline]
fn digest(packet: PlainPacket<'_>) -> u64 {
    let known = (packet.bytes.len() as u64)
        .wrapping_add(packet.desc.hash().into())
        .wrapping_add(packet.time_ns);
    known.wrapping_add(looked_at(packet.bytes))
}

#[inline]
fn looked_at(packet: &[u8]) -> u64 {
    let Some(head) = packet.first_chunk::<55>() else { return 0 };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let words = word(26) ^ word(30) ^ word(34);
    u64::from(words).wrapping_add((head[23] ^ head[54]).into())
}

#[inline(never)]
fn place(writer: &mut Writer, template: &Line, first: u32) {
    let template = *template;
    let filled = writer.batch().fill(BURST, LENGTH, move |number, room| {
        let counter = first + number as u32;
        room.write_array(0, &template.0);
        room.write_array(26, &counter.to_le_bytes());
        meta_of(counter, LENGTH)
    });
    assert!(filled == BURST, "the reader keeps up");
    writer.publish();
}

#[inline(never)]
fn copy(writer: &mut Writer, received: &Received, first: u32) {
    let mut batch = writer.batch();
    for (counter, (bytes, length)) in (first..).zip(received) {
        let packet = &bytes.0[..*length];
        let appended = batch.append(packet, &meta_of(counter, packet.len()));
        assert!(appended == Appended::Whole, "the reader keeps up");
    }
    drop(batch);
    writer.publish();
}

/// The packets of two sources, back to back, and their descs.
struct Sources {
    bytes: Vec<u8>,
    scratch: [Scratch; 2],
    order: Vec<u64>,
}

impl Sources {
    /// `are_runs`: each source has one half of the packets; otherwise each has every second one.
    fn new(are_runs: bool) -> Self {
        let mut scratch = [Scratch::new(), Scratch::new()];
        for (counter, number) in (0..).zip(0..BURST) {
            let meta = meta_of(counter, LENGTH);
            let (source, at) = match are_runs {
                true => (number / (BURST / 2), number % (BURST / 2)),
                false => (number % 2, number / 2),
            };
            scratch[source].push((at * 64) as u32, LENGTH as u32, &meta);
        }
        let order = (0..BURST as u64).map(|number| number % 2).collect();
        Self { bytes: vec![7; BURST / 2 * 64], scratch, order }
    }

    /// Returns the strands as they are after `first` packets.
    fn strands(&self, first: u32) -> [Strand<'_>; 2] {
        self.scratch.each_ref().map(|scratch| {
            let burst = scratch.burst(&self.bytes, 0);
            Strand::new(&burst, 0, BURST / 2, first.into()).expect("all are plain")
        })
    }
}

#[inline(never)]
fn gather(writer: &mut Writer, sources: &Sources, first: u32) {
    let gathered = writer.gather(&mut sources.strands(first), &sources.order);
    assert!(gathered == BURST, "the reader keeps up");
    writer.publish();
}

#[inline(never)]
fn gather_runs(writer: &mut Writer, sources: &Sources, first: u32) {
    for mut strand in sources.strands(first) {
        let gathered = writer.gather_run(&mut strand, BURST / 2);
        assert!(gathered == BURST / 2, "the reader keeps up");
    }
    writer.publish();
}

#[inline(never)]
fn read(reader: &mut Reader) -> u64 {
    let (mut sum, mut seen) = (0_u64, 0);
    while seen < BURST {
        let burst = reader.next_burst().expect("a burst was published");
        seen += burst.len();
        sum = burst.plain_packets().fold(sum, |sum, packet| sum.wrapping_add(digest(packet)));
    }
    sum
}

#[inline(never)]
fn make(buffer: &mut [Line; BURST], template: &Line, first: u32) {
    let template = *template;
    for (counter, line) in (first..).zip(buffer) {
        *line = template;
        line.0[26..30].copy_from_slice(&counter.to_le_bytes());
    }
}

#[inline(never)]
fn look(buffer: &[Line; BURST], first: u32) -> u64 {
    (first..).zip(buffer).fold(0, |sum: u64, (counter, line)| {
        let meta = meta_of(counter, LENGTH);
        let known = (LENGTH as u64).wrapping_add(meta.hash.into()).wrapping_add(meta.time_ns);
        sum.wrapping_add(known).wrapping_add(looked_at(&line.0[..LENGTH]))
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [work, packets] = &arguments[..] else {
        eprintln!("turns place|copy|gather|run|bare PACKETS");
        return ExitCode::from(2);
    };
    let packets: u32 = packets.parse().expect("a number of packets");
    let config = LogConfig { bytes: 2 << 20, handoff: Handoff::Near, ..LogConfig::default() };
    let (log, mut writer) = Log::create(config).expect("a log of 2 MiB");
    let seat = ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Now };
    let mut reader = log.attach(seat).expect("a seat");
    let template = Line([7; 64]);
    let (mut buffer, received) = ([template; BURST], [(template, LENGTH); BURST]);
    let sources = Sources::new(work == "run");
    let mut sum = 0_u64;
    for first in (0..packets).step_by(BURST) {
        let read = match work.as_str() {
            "place" => {
                place(&mut writer, &template, first);
                read(&mut reader)
            }
            "copy" => {
                copy(&mut writer, &received, first);
                read(&mut reader)
            }
            "gather" => {
                gather(&mut writer, &sources, first);
                read(&mut reader)
            }
            "run" => {
                gather_runs(&mut writer, &sources, first);
                read(&mut reader)
            }
            _ => {
                make(&mut buffer, &template, first);
                look(&buffer, first)
            }
        };
        sum = sum.wrapping_add(read);
    }
    println!("{sum}");
    ExitCode::SUCCESS
}

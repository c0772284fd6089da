//! Measures the cost of a flow hash in an append: the same packets and log, with and without it.
//!
//! One core and no reader, so that segments stay in the cache: the difference is the hash alone.
//! The target is that hash and distribution together add less than 15 ns a packet at 64 bytes.

use std::time::Instant;

use burstline_engine::worker_of;
use burstline_log::{Appended, CreateError, Log, LogConfig, Meta, Writer};
use burstline_sys::affinity;
use burstline_sys::memory::PageChoice;
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::instructions;
use crate::ours::SEGMENT_BYTES;
use crate::pages;
use crate::rivals::BURST;
use crate::traffic;

const LOG_BYTES: usize = 2 << 20;
/// A 64-byte frame without its FCS.
const PACKET_BYTES: usize = 60;
/// Number of flows: their packets fill an L2 cache and no more.
const FLOWS: u16 = 1024;

type Packet = [u8; PACKET_BYTES];

/// Workers of `balance-hash-64`.
const WORKERS: usize = 4;

/// `hash-64` with five-tuple, `hash-64-KIND` with another.
pub(crate) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let kind = name.strip_prefix("hash-64-").unwrap_or("five-tuple");
    let kind: HashKind = kind.parse().map_err(|error| format!("{error}"))?;
    compare(context, name, kind, 1)
}

/// `balance-hash-64`: packets hashed and spread over the logs of four workers, all on one core.
pub(crate) fn spread(context: &Context, name: &str) -> Result<Outcome, String> {
    compare(context, name, HashKind::FiveTuple, WORKERS)
}

/// Compares appends with a hash, to `logs` logs, with appends to one log without a hash.
fn compare(context: &Context, name: &str, kind: HashKind, logs: usize) -> Result<Outcome, String> {
    let packets: u64 = if context.smoke { 8192 } else { 8 << 20 };
    let made = pages::with_best(LOG_BYTES * logs, |pages| {
        (0..logs).map(|_| create(pages)).collect::<Result<Vec<_>, _>>()
    })
    .map_err(|error| error.to_string())?;
    let page = made.first().map(|(log, _)| log.placement().page).ok_or("no logs")?;
    let mut writers: Vec<Writer> = made.into_iter().map(|(_, writer)| writer).collect();
    let frames: Vec<Packet> = (0..FLOWS).map(frame).collect();
    let mut hasher = FlowHasher::new(kind);
    let expected = a_round(&mut hasher, &frames) * (packets / u64::from(FLOWS));
    // Both sides write on this core. If pinning fails, the kernel chooses the core.
    let _ = affinity::pin_to(context.cores.producer);
    let comparison = context.begin();
    let writers = std::cell::RefCell::new(&mut writers[..]);
    let rounds = context.alternate(
        context.runs,
        || {
            let mut choose = |frame: &Packet| choose(&mut hasher, frame, logs);
            ns_a_packet(&mut writers.borrow_mut(), &frames, packets, expected, &mut choose)
        },
        || ns_a_packet(&mut writers.borrow_mut()[..1], &frames, packets, 0, &mut |_| (0, 0)),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let (hashed, bare) = rounds.medians();
    let mut details = vec![
        format!("{kind} adds {:.1} ns to a bare append, by medians", hashed - bare),
        format!(
            "ours: {packets} packets a run of {PACKET_BYTES} bytes, {FLOWS} flows of IPv4 UDP, \
             published every {BURST}"
        ),
        format!(
            "{logs} logs of {} KiB, segments {} KiB, no reader",
            LOG_BYTES >> 10,
            SEGMENT_BYTES >> 10,
        ),
        "peer: into one log, without a hash".to_owned(),
    ];
    details.push(match name {
        "balance-hash-64" => instructions(),
        _ => {
            "instructions: cargo test --release -p burstline-wire --test flow cost:: -- --ignored \
              --nocapture"
                .to_owned()
        }
    });
    Ok(comparison.outcome("ns", Better::Lower, rounds, details).in_pages([page; 2]))
}

/// Returns a packet's hash and the index of its log.
#[inline]
fn choose(hasher: &mut FlowHasher, frame: &Packet, logs: usize) -> (u32, usize) {
    let hash = hasher.hash(LinkType::ETHERNET, frame);
    (hash, worker_of(hash, logs))
}

/// Describes callgrind's counts of both sides of `balance-hash-64`.
fn instructions() -> String {
    let of_a_packet = |piece| instructions::of_a_packet(piece, FLOWS.into());
    match (of_a_packet("spread"), of_a_packet("append")) {
        (Some(ours), Some(bare)) => format!(
            "instructions a packet: ours {ours:.0}, a bare append {bare:.0}; hash and distribution \
             are {:.0}",
            ours - bare
        ),
        _ => instructions::NOT_COUNTED.to_owned(),
    }
}

/// Runs one side of `balance-hash-64` alone, [`FLOWS`] packets a round.
pub(crate) fn do_rounds(is_ours: bool, rounds: u64) -> Result<(), String> {
    let logs = if is_ours { WORKERS } else { 1 };
    let create = |_| create(PageChoice::Size4K).map(|(_, writer)| writer);
    let mut writers: Vec<Writer> =
        (0..logs).map(create).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let frames: Vec<Packet> = (0..FLOWS).map(frame).collect();
    let mut hasher = FlowHasher::new(HashKind::FiveTuple);
    let packets = rounds * u64::from(FLOWS);
    match is_ours {
        true => {
            let expected = a_round(&mut hasher, &frames) * rounds;
            let mut choose = |frame: &Packet| choose(&mut hasher, frame, logs);
            ns_a_packet(&mut writers, &frames, packets, expected, &mut choose)
        }
        false => ns_a_packet(&mut writers, &frames, packets, 0, &mut |_| (0, 0)),
    }
    .map(|_| ())
}

fn create(pages: PageChoice) -> Result<(Log, Writer), CreateError> {
    let (name, segment_bytes) = ("hash".to_owned(), SEGMENT_BYTES);
    Log::create(LogConfig { name, bytes: LOG_BYTES, segment_bytes, pages, ..LogConfig::default() })
}

/// Returns the sum of the hashes of all frames.
fn a_round(hasher: &mut FlowHasher, frames: &[Packet]) -> u64 {
    frames.iter().map(|frame| u64::from(hasher.hash(LinkType::ETHERNET, frame))).sum()
}

/// Times appends of all packets, with the hash and log that `choose` returns.
///
/// # Errors
/// If the hashes do not add up to `expected`, or the log did not accept every packet.
fn ns_a_packet(
    writers: &mut [Writer],
    frames: &[Packet],
    packets: u64,
    expected: u64,
    choose: &mut impl FnMut(&Packet) -> (u32, usize),
) -> Result<f64, String> {
    let stored = |writers: &[Writer]| -> u64 {
        writers.iter().map(|writer| writer.statistics().packets).sum()
    };
    let (before, mut sum, mut counter) = (stored(writers), 0_u64, 0_u32);
    let start = Instant::now();
    for _ in 0..packets / u64::from(FLOWS) {
        for burst in frames.chunks(BURST) {
            for frame in burst {
                let mut meta = Meta::new(traffic::time_of(counter), PACKET_BYTES as u32, 0);
                let (hash, worker) = choose(frame);
                meta.hash = hash;
                sum += u64::from(hash);
                counter += u32::from(writers[worker].append(frame, &meta) == Appended::Whole);
            }
            writers.iter_mut().for_each(Writer::publish);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let stored = stored(writers) - before;
    if (sum, stored) != (expected, packets) {
        return Err(format!("{stored} of {packets} packets, hashes {sum:#x} not {expected:#x}"));
    }
    Ok(seconds * 1e9 / packets as f64)
}

/// Returns an Ethernet frame of IPv4 and UDP, with the flow as its source port.
fn frame(flow: u16) -> Packet {
    let mut frame = [0; PACKET_BYTES];
    frame[12..24].copy_from_slice(&[0x08, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 53, 0, 26]);
    frame
}

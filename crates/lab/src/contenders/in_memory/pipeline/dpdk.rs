//! DPDK's mbufs, pool and ring in this process, and its drivers, below the ring or below our log.

use burstline_log::Writer;
use burstline_port::{PortState, Source};
use burstline_sys::memory::PageChoice;

use super::{Kind, LOG_BYTES, LOGS, Sample, Turn, described};
use crate::contenders;
use crate::contenders::shapes::{Key, Pool, best};
use crate::ours::{self, Ours};
use crate::pages;
use crate::rivals::dpdk::{self, Hint, Pipeline, Shape};
use crate::rivals::{BURST, Run};
use crate::threads::run_together;
use crate::traffic::Traffic;

/// Mbufs per pool, cache size of a core, and the consumer's prefetch modes.
const POOLS: [u32; 4] = [2047, 4095, 8191, 16_383];
const CACHES: [u32; 3] = [0, 256, 512];
const HINTS: [Hint; 3] = [Hint::T0, Hint::T1, Hint::None];

/// Packets per poll of our port.
const POLL: u64 = 256;

/// Device numbers: the rival's, and ours.
const RIVALS_DEVICE: u32 = 8;
const OUR_DEVICE: u32 = 9;

fn device(number: u32, length: usize) -> String {
    format!("net_null{number},size={length}")
}

/// Runs a turn of DPDK's hand-off, or of ours with one of DPDK's drivers.
pub(super) fn measure(kind: Kind, turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    dpdk::start()?;
    if kind == Kind::LogByDriver {
        return log(turn, key);
    }
    let is_by_driver = kind == Kind::MbufsByDriver;
    let make = |pool: Pool| {
        let mut rival = Pipeline::new(pool.shape())?.in_bursts(turn.burst as u32);
        if is_by_driver {
            rival.open(&device(RIVALS_DEVICE, turn.traffic.length()))?;
        }
        Ok::<_, String>(rival)
    };
    let run = |rival: &Pipeline, packets, hint| match is_by_driver {
        true => (rival.hand_on(turn.cores, packets, hint), packets),
        false => (rival.hand_off(turn.cores, &turn.traffic, packets, hint), packets),
    };
    let pool = best(key, &Pool::of_each(&POOLS, &CACHES, true), |pool| {
        let rival = make(pool)?;
        let rate = turn.tried(|packets| Ok(run(&rival, packets, Hint::T0)))?;
        rival.end().map(|()| rate)
    })?;
    let rival = make(pool)?;
    let hint = best(&key.and("prefetch"), &HINTS, |hint| {
        turn.tried(|packets| Ok(run(&rival, packets, hint)))
    })?;
    let mut sample = turn.measure(|packets| Ok(run(&rival, packets, hint)))?;
    let is_huge = rival.is_huge();
    rival.end()?;
    pool.describe(&mut sample);
    sample.set("prefetch", "hint: 0 none, 1 prefetch0, 2 prefetch1", f64::from(hint as u8));
    sample.lies_in(dpdk::page(is_huge));
    Ok(sample)
}

/// Receives from a DPDK device into our log.
fn log(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    let mut port = open(&device(OUR_DEVICE, turn.traffic.length()))?;
    let make = |bytes| pages::with_best(bytes, |pages| Ours::create(bytes, pages));
    let mut run = |log: &mut Ours, packets| {
        let (writer, reader) = log.ends();
        let port = &mut *port;
        let done = run_together(
            turn.cores,
            move || take(port, writer, packets),
            move || ours::consume(reader, packets),
        );
        done.producer?;
        Ok((Run { seconds: done.seconds, sum: done.consumer }, packets))
    };
    let bytes = best(key, &LOGS, |bytes| {
        let mut log = make(bytes)?;
        turn.tried(|packets| run(&mut log, packets))
    })?;
    let mut log = make(bytes)?;
    let mut sample = turn.measure(|packets| run(&mut log, packets))?;
    described(&log, bytes, &mut sample);
    Ok(sample)
}

/// Opens our port for a device.
fn open(device: &str) -> Result<Box<dyn Source>, String> {
    contenders::open(&format!("dpdk:{device}?burst={BURST}"))
}

fn take(port: &mut dyn Source, writer: &mut Writer, packets: u64) -> Result<(), String> {
    let mut left = packets;
    while left > 0 {
        let received = port.receive(writer, left.min(POLL)).map_err(|error| error.to_string())?;
        writer.publish();
        left -= received.packets;
        if received.packets == 0 && received.state == PortState::Blocked {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// See [`do_rounds`](super::do_rounds); names of pieces end with the packet length.
pub(super) fn do_rounds(piece: &str, packets: u64) -> Option<Result<(), String>> {
    let (side, length) = piece.rsplit_once('-')?;
    let length = length.parse().ok().filter(|bytes| (60..=2048).contains(bytes))?;
    let traffic = Traffic::new(length);
    let log = || Ours::create(LOG_BYTES, PageChoice::Size4K);
    let rival = || {
        dpdk::start_to_count()?;
        Pipeline::new(Shape::COUNTED)
    };
    Some(match side {
        "log-turns" => log().map(|mut log| {
            ours::take_turns(&mut log, &traffic, packets);
        }),
        "log-driver-turns" => log()
            .and_then(|mut log| receive_in_turns(&mut log, &device(OUR_DEVICE, length), packets)),
        "mbuf-turns" => rival().and_then(|mut rival| {
            rival.take_turns(&traffic, packets, Hint::T0);
            rival.end()
        }),
        "mbuf-driver-turns" => rival().and_then(|mut rival| {
            rival.open(&device(RIVALS_DEVICE, length))?;
            rival.take_turns_on(packets);
            rival.end()
        }),
        _ => return None,
    })
}

fn receive_in_turns(log: &mut Ours, device: &str, packets: u64) -> Result<(), String> {
    dpdk::start_to_count()?;
    let mut port = open(device)?;
    let (writer, reader) = log.ends();
    let (mut taken, mut sum) = (0, 0);
    while taken < packets {
        taken += super::live::burst(&mut *port, writer, reader, &mut sum)?;
    }
    std::hint::black_box(sum);
    Ok(())
}

//! Measures the time from `append` to the reader on the other core: half a ping-pong over two logs.
//!
//! The rival is a single cache line that moves between the cores: nothing can be faster. The target
//! is at most four times its latency (a ratio of 0.25 or more).

use std::hint::spin_loop;
use std::time::Duration;

use burstline_log::{Appended, Meta, Reader, Writer};
use burstline_sys::{clock, distance};

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::ours::{Ours, SEGMENT_BYTES};
use crate::pages;
use crate::statistics::Quartiles;
use crate::threads::{Cores, run_together};

const LOG_BYTES: usize = 2 << 20;
const PACKET_BYTES: usize = 60;
/// Round trips timed together, so that reading the clock adds little.
const TOGETHER: u64 = distance::ROUND_TRIPS;

/// `append-latency`.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    if !context.cores.are_two() {
        return Ok(Outcome::NotHere("it takes two cores".to_owned()));
    }
    let samples = if context.smoke { 20 } else { 10_000 };
    let (mut forth, mut back) = pages::with_best(2 * LOG_BYTES, |pages| {
        Ok::<_, String>((Ours::create(LOG_BYTES, pages)?, Ours::create(LOG_BYTES, pages)?))
    })?;
    let comparison = context.begin();
    let rounds = context.alternate(
        context.runs,
        || over_logs(context.cores, &mut forth, &mut back, samples),
        || over_lines(context.cores, samples),
    )?;
    let details = vec![
        format!(
            "{samples} medians of {TOGETHER} round trips a run, halved; packets of \
                 {PACKET_BYTES} bytes, one appended and published at a time"
        ),
        format!(
            "ours: two logs of {} KiB, segments {} KiB, working set {} segments each, pages {}",
            LOG_BYTES >> 10,
            SEGMENT_BYTES >> 10,
            forth.statistics().segments_high_water,
            forth.page()
        ),
        "peer: two cache lines, a store and a spinning load each way".to_owned(),
    ];
    let pages = [Some(forth.page().to_string()), None];
    Ok(comparison.outcome("ns", Better::Lower, rounds, details).in_known_pages(pages).here())
}

/// `core-distance`: the distance of the two cores, measured as `doctor` and the bench do, and by a
/// longer measurement.
pub(crate) fn distance(context: &Context) -> Result<Outcome, String> {
    let Cores { producer, consumer } = context.cores;
    if !context.cores.are_two() {
        return Ok(Outcome::NotHere("it takes two cores".to_owned()));
    }
    let samples = if context.smoke { 20 } else { 10_000 };
    let comparison = context.begin();
    let rounds = context.alternate(
        context.runs,
        || distance::one_way_ns(producer, consumer).ok_or("it takes two cores".to_owned()),
        || over_lines(context.cores, samples),
    )?;
    let details = vec![
        format!("two cores are far apart from {} ns on", distance::FAR_NS),
        format!("peer: {samples} medians of {TOGETHER} round trips a run, halved"),
    ];
    Ok(comparison.outcome("ns", Better::Lower, rounds, details).here())
}

/// Returns the median one-way time in ns, from `samples` measurements of several round trips.
fn one_way_ns(samples: u64, mut round_trip: impl FnMut(u64)) -> f64 {
    let mut times = Vec::with_capacity(samples as usize);
    for sample in 0..samples {
        let start_ns = clock::monotonic_ns();
        for trip in 0..TOGETHER {
            round_trip(sample * TOGETHER + trip + 1);
        }
        times.push((clock::monotonic_ns() - start_ns) as f64 / (2 * TOGETHER) as f64);
    }
    Quartiles::of(&times).median
}

/// Measures the rival: [`distance`], whose minimum is the lower limit for any method.
fn over_lines(cores: Cores, samples: u64) -> Result<f64, String> {
    let ways = distance::ways_ns(cores.producer, cores.consumer, samples as usize, Duration::MAX);
    let ways = ways.ok_or("it takes two cores")?;
    Ok(Quartiles::of(&ways).median)
}

fn over_logs(cores: Cores, forth: &mut Ours, back: &mut Ours, samples: u64) -> Result<f64, String> {
    let (writer, far_reader) = forth.ends();
    let (far_writer, reader) = back.ends();
    let done = run_together(
        cores,
        move || {
            let mut wrong = 0_u64;
            let one_way = one_way_ns(samples, |trip| {
                send(writer, trip);
                wrong += u64::from(receive(reader) != trip);
            });
            (one_way, wrong)
        },
        move || {
            for _ in 0..samples * TOGETHER {
                let trip = receive(far_reader);
                send(far_writer, trip);
            }
        },
    );
    match done.producer {
        (one_way, 0) => Ok(one_way),
        (_, wrong) => Err(format!("{wrong} packets came back changed or out of order")),
    }
}

fn send(writer: &mut Writer, trip: u64) {
    let mut packet = [0x55_u8; PACKET_BYTES];
    packet[26..34].copy_from_slice(&trip.to_le_bytes());
    let meta = Meta::new(trip, PACKET_BYTES as u32, 0);
    while writer.append(&packet, &meta) == Appended::Full {
        spin_loop();
    }
    writer.publish();
}

fn receive(reader: &mut Reader) -> u64 {
    loop {
        if let Some(burst) = reader.next_burst() {
            let bytes = burst.packet(0).bytes();
            let word = bytes.get(26..34).and_then(<[u8]>::first_chunk);
            return word.map_or(0, |word| u64::from_le_bytes(*word));
        }
        spin_loop();
    }
}

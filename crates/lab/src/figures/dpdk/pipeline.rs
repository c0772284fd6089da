//! Packets from core to core: the log against DPDK's mbufs and rings, both in this process.

use std::cell::Cell;

use burstline_log::{Reader, Writer};
use burstline_port::{OpenOptions, Port, PortState, open_source};
use burstline_sys::memory::PageChoice;

use super::super::Context;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::{Rounds, alternate};
use crate::instructions;
use crate::ours::{self, Ours, SEGMENT_BYTES};
use crate::rivals::dpdk::{self, Hint, Pipeline, SLOTS, Shape};
use crate::rivals::{BURST, Run};
use crate::threads::{Cores, run_together};
use crate::traffic::{self, Traffic};

/// Bytes of the log of the other figures of DPDK.
pub(super) const LOG_BYTES: usize = 2 << 20;
/// Of the logs that are tried here, as the rival's pools are.
const LOGS: [usize; 4] = [768 << 10, 1 << 20, 2 << 20, 4 << 20];
const POOLS: [u32; 4] = [2047, 4095, 8191, 16_383];
const CACHES: [u32; 3] = [0, 256, 512];
/// Of a shape in the search, and of a variant.
const TRIES: usize = 3;
/// Packets of a round whose instructions are counted.
const ROUND: u64 = 8192;
/// Packets of a poll of our port.
const POLL: u64 = 256;

/// What both sides do.
struct Work<'c> {
    context: &'c Context,
    traffic: Traffic,
    packets: u64,
    is_by_driver: bool,
}

impl Work<'_> {
    fn search_packets(&self) -> u64 {
        (self.packets / 8).next_multiple_of(BURST as u64)
    }

    /// Mpps, if the sum is right. What a driver brings has no sum.
    fn rate(&self, side: &str, run: Run, packets: u64) -> Result<f64, String> {
        let expected = if self.is_by_driver { run.sum } else { self.traffic.expected(packets) };
        if run.sum != expected {
            return Err(format!("{side} summed up {:#x}, not {expected:#x}", run.sum));
        }
        Ok(packets as f64 / run.seconds / 1e6)
    }

    fn device(&self, number: usize) -> String {
        format!("net_null{number},size={}", self.traffic.length())
    }

    /// The rival in a shape.
    fn rival(&self, shape: Shape) -> Result<Pipeline, String> {
        let mut rival = Pipeline::new(shape)?;
        if self.is_by_driver {
            rival.open(&self.device(8))?;
        }
        Ok(rival)
    }

    fn peer(&self, rival: &Pipeline, packets: u64, hint: Hint) -> Result<f64, String> {
        let cores = self.context.cores;
        let run = match self.is_by_driver {
            true => rival.hand_on(cores, packets, hint),
            false => rival.hand_off(cores, &self.traffic, packets, hint),
        };
        self.rate("DPDK", run, packets)
    }

    fn ours(
        &self,
        log: &mut Ours,
        port: &mut Option<Box<dyn Port>>,
        packets: u64,
    ) -> Result<f64, String> {
        let cores = self.context.cores;
        let run = match port {
            Some(port) => receive(log, &mut **port, cores, packets)?,
            None => log.hand_off(cores, &self.traffic, packets),
        };
        self.rate("ours", run, packets)
    }

    /// The best of some runs.
    fn best(&self, rival: &Pipeline, hint: Hint) -> Result<f64, String> {
        self.best_of(|packets| self.peer(rival, packets, hint))
    }

    fn best_of(&self, mut run: impl FnMut(u64) -> Result<f64, String>) -> Result<f64, String> {
        let tries = if self.context.smoke { 1 } else { TRIES };
        let packets = self.search_packets();
        (0..tries).try_fold(0_f64, |best, _| Ok(best.max(run(packets)?)))
    }
}

/// `dpdk-pipeline-N` and `dpdk-pipeline-N-pmd`.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let is_by_driver = name.ends_with("-pmd");
    let length = if name.contains("1514") { 1514 } else { 60 };
    let packets = match (context.smoke, length) {
        (true, _) => 8192,
        (false, 60) => 4 << 20,
        (false, _) => 1 << 20,
    };
    let work = Work { context, traffic: Traffic::new(length), packets, is_by_driver };
    dpdk::start()?;
    let conditions = Conditions::watch(context.cores);
    let (best, tried) = search(&work)?;
    let rival = work.rival(best)?;
    let mut port = is_by_driver.then(|| open(&work.device(9))).transpose()?;
    let (log_bytes, logs_tried) = search_logs(&work, &mut port)?;
    let mut log = Ours::create(log_bytes, PageChoice::Transparent)?;
    let full = Cell::new(0);
    let rounds = alternate(
        context.runs,
        &context.stop,
        || {
            let rate = work.ours(&mut log, &mut port, packets)?;
            full.set(log.statistics().full);
            Ok(rate)
        },
        || work.peer(&rival, packets, Hint::T0),
    )?;
    let mut hints = Vec::new();
    for (name, hint) in [("none", Hint::None), ("t0", Hint::T0), ("t1", Hint::T1)] {
        hints.push(format!("{name} {:.2}", work.best(&rival, hint)?));
    }
    let is_huge = rival.is_huge();
    drop(port);
    rival.end()?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let (unit, better) = ("Mpps", Better::Higher);
    let mut details = describe(&work, best, &rounds);
    details.push(format!("peer by prefetch, best of {TRIES}, Mpps: {}", hints.join(", ")));
    details.extend(tried);
    details.push(logs_tried);
    details.push(format!(
        "ours: log {} KiB, segments {} KiB, full {} times, pages {}; peer's pool {}",
        log_bytes >> 10,
        SEGMENT_BYTES >> 10,
        full.get(),
        log.page(),
        dpdk::pages_of_pool(is_huge)
    ));
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

fn describe(work: &Work<'_>, best: Shape, rounds: &Rounds) -> Vec<String> {
    let (length, packets) = (work.traffic.length(), work.packets);
    let feed = match work.is_by_driver {
        true => "received from net_null by both: ours copies into the log",
        false => "filled in place by both",
    };
    let median = |values: &[f64]| crate::statistics::Quartiles::of(values).median;
    // Both cores are busy all the time, on both sides.
    let rho = |rate: f64| 200.0 / (rate * length as f64 * 8.0 / 1e3);
    let (ours, peer) = (median(&rounds.ours), median(&rounds.peer));
    let mut details = vec![
        format!("{packets} packets a run of {length} bytes, {feed}; the same work on each"),
        format!(
            "peer: mbufs of {} bytes of room, pool of {}, cache {}, {} rings of {SLOTS} pointers, \
             bursts of {BURST}, bulk calls, prefetch0 4 ahead, rte_memcpy",
            2048,
            best.objects,
            best.cache,
            best.rings()
        ),
        format!("rho, CPU % per Gbit/s: ours {:.2}, peer {:.2}", rho(ours), rho(peer)),
    ];
    if !work.context.smoke {
        let of = |piece| instructions::of_a_packet(&format!("{piece}-{length}"), ROUND);
        let [ours, peer] = match work.is_by_driver {
            true => ["log-driver-turns", "mbuf-driver-turns"],
            false => ["log-turns", "mbuf-turns"],
        };
        details.push(match (of(ours), of(peer)) {
            (Some(ours), Some(peer)) => format!(
                "instructions a packet, both ends, in turns on one core: ours {ours:.0}, peer \
                 {peer:.0}"
            ),
            _ => instructions::NOT_COUNTED.to_owned(),
        });
    }
    details
}

/// Tries every shape, and says which is best.
fn search(work: &Work<'_>) -> Result<(Shape, Vec<String>), String> {
    let mut found: Vec<(Shape, f64)> = Vec::new();
    let mut lines = Vec::new();
    for is_single in [1, 0] {
        for cache in CACHES {
            let pools = POOLS.into_iter().filter(|objects| cache * 3 / 2 <= *objects);
            let mut rates = Vec::new();
            let shape_of = |objects| Shape { objects, cache, slots: SLOTS, is_single };
            for objects in pools {
                let shape = shape_of(objects);
                let rival = work.rival(shape)?;
                let rate = work.best(&rival, Hint::T0)?;
                rival.end()?;
                rates.push(format!("{objects}: {rate:.1}"));
                found.push((shape, rate));
            }
            let rings = shape_of(0).rings();
            lines.push(format!("tried {rings}, cache {cache}, Mpps by pool {}", rates.join(", ")));
        }
    }
    let best = found.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are shapes").0;
    Ok((best, lines))
}

/// Tries every size of our log, and says which is best, in bytes.
fn search_logs(
    work: &Work<'_>,
    port: &mut Option<Box<dyn Port>>,
) -> Result<(usize, String), String> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    for bytes in LOGS {
        let mut log = Ours::create(bytes, PageChoice::Transparent)?;
        found.push((bytes, work.best_of(|packets| work.ours(&mut log, port, packets))?));
    }
    let best = found.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are sizes").0;
    let rates = found.iter().map(|(bytes, rate)| format!("{} KiB: {rate:.1}", bytes >> 10));
    let tried = format!("tried of ours, Mpps by log {}", rates.collect::<Vec<_>>().join(", "));
    Ok((best, tried))
}

/// Our port of a device.
fn open(device: &str) -> Result<Box<dyn Port>, String> {
    let address = format!("dpdk:{device}?burst={BURST}").parse();
    let address = address.map_err(|error| format!("{error}"))?;
    open_source(&address, &OpenOptions::default()).map_err(|error| error.to_string())
}

/// Receives into the log on one core, and reads on the other.
fn receive(
    ours: &mut Ours,
    port: &mut dyn Port,
    cores: Cores,
    packets: u64,
) -> Result<Run, String> {
    let (writer, reader) = ours.ends();
    let done = run_together(
        cores,
        move || take(port, writer, packets),
        move || ours::consume(reader, packets),
    );
    done.producer?;
    Ok(Run { seconds: done.seconds, sum: done.consumer })
}

fn take(port: &mut dyn Port, writer: &mut Writer, packets: u64) -> Result<(), String> {
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

/// A side of `dpdk-pipeline-N` or `dpdk-pipeline-N-pmd` in turns on one core, 8,192 packets a
/// round.
pub(super) fn do_rounds(piece: &str, rounds: u64) -> Option<Result<(), String>> {
    let (side, length) = piece.rsplit_once('-')?;
    let length = length.parse().ok().filter(|bytes| (60..=2048).contains(bytes))?;
    let (traffic, packets) = (Traffic::new(length), rounds * ROUND);
    let device = |number| format!("net_null{number},size={length}");
    let log = || Ours::create(LOG_BYTES, PageChoice::Size4K);
    let rival = || {
        dpdk::start_to_count()?;
        Pipeline::new(Shape::COUNTED)
    };
    Some(match side {
        "log-turns" => log().map(|mut log| {
            ours::take_turns(&mut log, &traffic, packets);
        }),
        "log-driver-turns" => {
            log().and_then(|mut log| receive_in_turns(&mut log, &device(9), packets))
        }
        "mbuf-turns" => rival().and_then(|mut rival| {
            rival.take_turns(&traffic, packets, Hint::T0);
            rival.end()
        }),
        "mbuf-driver-turns" => rival().and_then(|mut rival| {
            rival.open(&device(8))?;
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
        taken += turn(&mut *port, writer, reader, &mut sum)?;
    }
    std::hint::black_box(sum);
    Ok(())
}

/// Receives a burst into the log, and reads it. Returns how many packets came.
pub(super) fn turn(
    port: &mut dyn Port,
    writer: &mut Writer,
    reader: &mut Reader,
    sum: &mut u64,
) -> Result<u64, String> {
    let received = port.receive(writer, BURST as u64).map_err(|error| error.to_string())?;
    if received.packets == 0 {
        return Ok(0);
    }
    writer.publish();
    while let Some(burst) = reader.next_burst() {
        *sum = sum.wrapping_add(traffic::digest_of(&burst));
    }
    Ok(received.packets)
}

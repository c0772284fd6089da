//! Whole programs on one core and the same driver: `burstline` against `dpdk-testpmd`, over
//! net_null, which makes packets and takes them.
//!
//! What testpmd's rxonly does with a packet is to free it; ours counts packets and bytes and knows
//! a time of each. Rates are by each program's own clock: ours of the whole job, testpmd's of the
//! last second. Instructions are the difference of a short run and a longer one under callgrind,
//! for each packet between.

use std::process::Command;

use burstline_log::{Log, LogConfig, Scratch};
use burstline_port::{OpenOptions, open_source};
use burstline_sys::affinity;
use burstline_sys::clock;
use burstline_sys::memory::PageChoice;
use serde_json::Value;

use super::super::Context;
use super::super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::live::missing;
use crate::ours::SEGMENT_BYTES;
use crate::programs::{Device, Memory, Mode, Testpmd, Totals};
use crate::rivals::dpdk;
use crate::threads::Cores;

/// Bytes of net_null's packets where nobody says otherwise.
const BYTES: usize = 64;
const SECONDS: u32 = 3;
const SIZES: [usize; 3] = [64, 256, 1514];
const LOG_BYTES: usize = 2 << 20;

/// How testpmd is run, and with which arguments: packets of a burst, and what an mbuf has room for.
/// Without huge pages no mbuf crosses a page that it fits into, so that its default has all of them
/// in the same few sets of the first cache; one that is a line longer than a page has them apart.
const SHAPES: [(&str, &str); 3] = [
    ("bursts of 32, its default", "--burst=32"),
    ("bursts of 32, mbufs a line longer than a page", "--burst=32 --mbuf-size=3968"),
    ("bursts of 64, mbufs a line longer than a page", "--burst=64 --mbuf-size=3968"),
];

/// What counts instructions.
const VALGRIND: &str = "valgrind --tool=callgrind --callgrind-out-file=/dev/null";

/// What is run on both sides.
struct Pair {
    /// Without the time it runs for.
    ours: String,
    mode: Mode,
    devices: usize,
}

/// `dpdk-rtc-64`.
pub(super) fn run_to_completion(context: &Context, _: &str) -> Result<Outcome, String> {
    let ours = "count dpdk:net_null0?huge=no".to_owned();
    compare(context, &Pair { ours, mode: Mode::Receive, devices: 1 })
}

/// `dpdk-bounce-64`.
pub(super) fn bounce(context: &Context, _: &str) -> Result<Outcome, String> {
    let ours = "bounce dpdk:net_null0?huge=no dpdk:net_null1?huge=no --both".to_owned();
    compare(context, &Pair { ours, mode: Mode::Forward, devices: 2 })
}

fn compare(context: &Context, pair: &Pair) -> Result<Outcome, String> {
    if let Some(why) = missing(Testpmd::needs()) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?.display().to_string();
    let core = context.cores.consumer;
    let seconds = if context.smoke { 1 } else { SECONDS };
    let ours = format!("{program} {} --poll busy --cores {core} --json", pair.ours);
    let ours_for = |seconds: u32| format!("{ours} --duration {seconds}s");
    let peer = |shape: &str| testpmd(pair, context.cores, shape);
    let rate_of = |shape: &str| {
        let rate = peer(shape).rate_after(seconds as usize, Memory::Small, "Rx-pps:")?;
        Ok::<_, String>(rate / 1e6)
    };
    if let Some(why) = lacks_dpdk(&program) {
        // A lab that has DPDK is to be built with a program that has it, too.
        return if cfg!(feature = "dpdk") { Err(why) } else { Ok(Outcome::NotHere(why)) };
    }
    let conditions = Conditions::watch(context.cores);
    let mut tried = Vec::new();
    for (name, shape) in SHAPES {
        tried.push((rate_of(shape)?, name, shape));
    }
    let best = tried.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("some were tried");
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || our_rate(&run(&ours_for(seconds))?),
        || rate_of(best.2),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let (unit, better) = ("Mpps", Better::Higher);
    let (our_rate, their_rate) = rounds.medians();
    // One core is busy all the time, on both sides.
    let rho = |rate: f64| 100.0 / (rate * BYTES as f64 * 8.0 / 1e3);
    let shown = tried.iter().map(|(rate, name, _)| format!("{name} {rate:.1}"));
    let shown: Vec<_> = shown.collect();
    let mut details = vec![
        format!("net_null, {BYTES} bytes that it does not fill, for {seconds} s; one core"),
        format!("ours: burstline {}, bursts of 64, one thread", pair.ours),
        format!(
            "peer: dpdk-testpmd {}, {}; both without huge pages; one run each, Mpps: {}",
            pair.mode.word(),
            best.1,
            shown.join("; ")
        ),
        format!("rho, CPU % per Gbit/s: ours {:.3}, peer {:.3}", rho(our_rate), rho(their_rate)),
        instructions(&ours, &peer(best.2)),
    ];
    if pair.mode == Mode::Receive {
        details.push(into_a_log(context)?);
    }
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

/// testpmd with pools as large as ours.
fn testpmd(pair: &Pair, cores: Cores, shape: &str) -> Testpmd {
    Testpmd {
        main: cores.producer,
        cores: vec![cores.consumer],
        ports: vec![Device::Null; pair.devices],
        mode: pair.mode,
        has_rates: true,
        more: format!("{shape} --total-num-mbufs=8191"),
    }
}

/// What it wrote, to both streams.
fn run(command: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-c", &format!("exec {command} 2>&1")]).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why this build of our program cannot take part.
fn lacks_dpdk(program: &str) -> Option<String> {
    let said = run(&format!("{program} count 'dpdk:net_null0?huge=no' --packets 1")).ok()?;
    let is_built_in = said.contains("net_null0") && !said.contains("make dpdk");
    (!is_built_in).then(|| format!("{program} has no DPDK in it: make dpdk"))
}

fn our_rate(said: &str) -> Result<f64, String> {
    let last = said.lines().next_back().unwrap_or_default();
    let json: Value = serde_json::from_str(last).map_err(|_| format!("no report: {said}"))?;
    if json["total"]["unaccounted"].as_i64() != Some(0) {
        return Err(format!("packets unaccounted for: {last}"));
    }
    let number = |value: &Value| value.as_f64().ok_or_else(|| format!("no rate: {last}"));
    Ok(number(&json["total"]["delivered"])? / number(&json["elapsed_s"])? / 1e6)
}

/// Instructions of each packet, on both sides.
fn instructions(ours: &str, peer: &Testpmd) -> String {
    let ours = slope([2_000_000, 10_000_000].map(|packets| {
        let said = run(&format!("{VALGRIND} {ours} --packets {packets}")).ok()?;
        Some((instructions_of(&said)?, packets as f64))
    }));
    let peer = slope([6, 16].map(|seconds| {
        let said = peer.run_for(seconds, Memory::Small, VALGRIND).ok()?;
        Some((instructions_of(&said)?, Totals::parse(&said).ok()?.received as f64))
    }));
    match (ours, peer) {
        (Some(ours), Some(peer)) => {
            format!("instructions a packet, driver included: ours {ours:.0}, peer {peer:.0}")
        }
        _ => "instructions are not counted: valgrind is not installed, or does not run this".into(),
    }
}

fn slope([few, more]: [Option<(f64, f64)>; 2]) -> Option<f64> {
    let (few, more) = (few?, more?);
    (more.1 > few.1).then(|| (more.0 - few.0) / (more.1 - few.1))
}

fn instructions_of(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// What the copy into a log costs, per size, on one core and without a reader.
fn into_a_log(context: &Context) -> Result<String, String> {
    dpdk::start()?;
    // If the core cannot be had, it runs where the kernel puts it.
    let _ = affinity::pin_to(context.cores.consumer);
    let mut said = Vec::new();
    for (number, bytes) in SIZES.into_iter().enumerate() {
        let address = format!("dpdk:net_null{},size={bytes}", 16 + number).parse();
        let address = address.map_err(|error| format!("{error}"))?;
        let opened = open_source(&address, &OpenOptions::default());
        let mut port = opened.map_err(|error| error.to_string())?;
        let config = LogConfig {
            name: "rtc".to_owned(),
            bytes: LOG_BYTES,
            segment_bytes: SEGMENT_BYTES,
            pages: PageChoice::Transparent,
            ..LogConfig::default()
        };
        let (_log, mut writer) = Log::create(config).map_err(|error| error.to_string())?;
        let mut scratch = Scratch::new();
        let mut lent = || Ok(port.lend(&mut scratch, 64)?.burst.len() as u64);
        let lent_ns = ns_a_packet(&mut lent)?;
        let mut copy = || {
            let received = port.receive(&mut writer, 64)?;
            writer.publish();
            Ok(received.packets)
        };
        let copied_ns = ns_a_packet(&mut copy)?;
        said.push(format!("{bytes} bytes {lent_ns:.1} and {copied_ns:.1}"));
    }
    Ok(format!("ns a packet, lent and received into a log: {}", said.join(", ")))
}

fn ns_a_packet(
    poll: &mut dyn FnMut() -> Result<u64, burstline_port::PortError>,
) -> Result<f64, String> {
    const PACKETS: u64 = 8 << 20;
    let (start_ns, mut packets) = (clock::monotonic_ns(), 0);
    while packets < PACKETS {
        packets += poll().map_err(|error| error.to_string())?;
    }
    Ok((clock::monotonic_ns() - start_ns) as f64 / packets as f64)
}

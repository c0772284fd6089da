//! `gen:` into a log that stays in the cache, against `dpdk-testpmd` that makes packets for a
//! device that takes everything. Both with 64-byte frames, FCS included.

use std::thread;

use burstline_log::{Log, LogConfig, Writer};
use burstline_port::{Address, OpenOptions, Port, open_source};
use burstline_sys::affinity;
use burstline_sys::clock;

use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::figures::Context;
use crate::live::{PAGES, missing};
use crate::ours::SEGMENT_BYTES;
use crate::pages::{self, Reservation};
use crate::programs::{Device, Memory, Mode, Testpmd};

/// Packets of one call of the port, after which they are published.
const BURST: u64 = 256;

/// Packets of a run of ours.
const PACKETS: u64 = 40_000_000;
const SMOKE_PACKETS: u64 = 20_000;

/// What testpmd sends, without FCS, and after how many seconds of it its rate is taken.
const BYTES: usize = 60;
const SECONDS: usize = 7;
const SMOKE_SECONDS: usize = 1;

/// Headers that stay the same: every packet has a mark with sequence, time and check, and a UDP
/// checksum over it.
const FIXED: &str = "gen:?flows=1&size=64";

/// As many flows as testpmd has, in 5-tuples that are drawn.
const VARIED: &str = "gen:?flows=256&size=64";

/// `generate-log-64`: one flow.
pub(in crate::figures) fn fixed(context: &Context, _: &str) -> Result<Outcome, String> {
    measure(context, FIXED, "")
}

/// `generate-log-64-flows`: 256 flows.
pub(in crate::figures) fn varied(context: &Context, _: &str) -> Result<Outcome, String> {
    measure(context, VARIED, "--txonly-multi-flow")
}

fn measure(context: &Context, recipe: &str, flags: &str) -> Result<Outcome, String> {
    let packets = if context.smoke { SMOKE_PACKETS } else { PACKETS };
    let mut ours = Ours::new(recipe, context)?;
    if let Some(why) = missing(Testpmd::needs()) {
        return Ok(Outcome::NotHere(why));
    }
    let conditions = Conditions::watch(context.cores);
    let rounds = alternate(
        context.process_runs().min(5),
        &context.stop,
        || ours.run(packets),
        || testpmd(context, flags),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let used = ours.writer.statistics().segments_high_water as usize * SEGMENT_BYTES;
    let mut details = vec![
        format!(
            "ours: {recipe} into a log without readers, {packets} packets a run, a publish \
                 each {BURST}, {} KiB in use; each packet with sequence, time, check, checksums",
            used >> 10
        ),
        format!(
            "peer: dpdk-testpmd --forward-mode=txonly {} over net_null, the same packet over \
                 and over but for the source address",
            flags
        ),
        "both on one core".to_owned(),
    ];
    details.extend(conditions.report());
    let (better, unit) = (Better::Higher, "Mpps");
    Ok(Outcome::Measured(Compared::of(unit, better, rounds, details)))
}

/// A generator and a log.
struct Ours<'c> {
    context: &'c Context,
    port: Box<dyn Port>,
    writer: Writer,
    _log: Log,
}

impl<'c> Ours<'c> {
    fn new(recipe: &str, context: &'c Context) -> Result<Self, String> {
        let bytes = 8 * SEGMENT_BYTES;
        let (log, writer) = pages::with_best(bytes, |pages| {
            Log::create(LogConfig { bytes, pages, ..LogConfig::default() })
        })
        .map_err(|error| error.to_string())?;
        let address: Address = recipe.parse().map_err(|error| format!("{error}"))?;
        let port = open_source(&address, &OpenOptions::default());
        Ok(Self { context, port: port.map_err(|error| error.to_string())?, writer, _log: log })
    }

    /// Millions of packets a second.
    fn run(&mut self, packets: u64) -> Result<f64, String> {
        let core = self.context.cores.consumer;
        let before = self.writer.statistics().packets;
        let done = thread::scope(|scope| {
            let work = || {
                let _ = affinity::pin_to(core);
                let start_ns = clock::monotonic_ns();
                let mut left = packets;
                while left > 0 {
                    let received = self.port.receive(&mut self.writer, left.min(BURST))?;
                    left -= received.packets;
                    self.writer.publish();
                }
                Ok::<_, burstline_port::PortError>(clock::monotonic_ns() - start_ns)
            };
            scope.spawn(work).join().expect("the generator does not panic")
        });
        let elapsed_ns = done.map_err(|error| error.to_string())?;
        let written = self.writer.statistics().packets - before;
        match written == packets {
            true => Ok(packets as f64 * 1e3 / elapsed_ns as f64),
            false => Err(format!("{written} of {packets} packets are in the log")),
        }
    }
}

/// Millions of packets a second, by its own count of its last whole second.
fn testpmd(context: &Context, flags: &str) -> Result<f64, String> {
    let testpmd = Testpmd {
        main: context.cores.producer,
        cores: vec![context.cores.consumer],
        ports: vec![Device::Null],
        mode: Mode::Send(BYTES),
        has_rates: true,
        more: flags.to_owned(),
    };
    let _pages = Reservation::take(PAGES);
    let seconds = if context.smoke { SMOKE_SECONDS } else { SECONDS };
    Ok(testpmd.rate_after(seconds, Memory::now(), "Tx-pps:")? / 1e6)
}

//! `suricata-inline`: Suricata 7 in line behind `burstline bounce --inline`, by our libpcap,
//! against its own AF_PACKET in line.
//!
//! ```text
//!   ours:   tcpreplay --> v0 ==== v1 --> bounce --inline ips --> w1 ==== w0   what came out
//!                                          log |  ^ verdicts
//!                                   Suricata --pcap=burst:ips?verdict=pass&drops=FILE
//!   peer:   tcpreplay --> v0 ==== v1 --> Suricata, copy-mode: ips --> w1 ==== w0
//! ```
//!
//! Both get the same packets at the same rate, and have the same rules, which drop. What is
//! compared is all that either side takes of a processor: ours has a second program. A turn in
//! which another number of packets comes out is an error.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use super::processor_ns;
use super::suricata::{
    MATCH_EVERY, RULES, SETTLE, SMOKE_PACKETS, Suricata, alerts, lacks, pcap, replay, rules_file,
};
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contenders::Sample;
use crate::contest::alternate;
use crate::figures::Context;
use crate::figures::count_file::our_program;
use crate::live::{Contender, OUT, Road};
use crate::programs::{Ours, Report};
use crate::rivals::contents;

const PACKETS: usize = 60_000;
/// What either side passes on without a loss, with all of it on one core.
const RATE_PPS: u64 = 20_000;
const MTU: u32 = 1500;

/// ns of processors for each packet.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = lacks()? {
        return Ok(Outcome::NotHere(why));
    }
    let packets = if context.smoke { SMOKE_PACKETS } else { PACKETS };
    let rules = contents::rules(RULES);
    let packets = contents::packets(packets, &rules, Some(MATCH_EVERY));
    let sides = Sides { context, rules: rules_file("drop", &rules), packets: &packets };
    let conditions = Conditions::watch(context.cores);
    let before = RefCell::new(None);
    let side = |is_ours| {
        let turn = sides.run(is_ours)?;
        let found = (turn.came_out, turn.alerts.clone());
        match before.replace(Some(found.clone())) {
            Some(other) if other != found => Err(format!(
                "{} packets came out with {} alerts; in the turn before {} with {}",
                found.0,
                found.1.len(),
                other.0,
                other.1.len()
            )),
            _ => Ok(turn.sample(packets.len())),
        }
    };
    let runs = context.process_runs();
    let rounds = alternate(runs, &context.stop, || side(true), || side(false))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let (came_out, drops) = before.into_inner().unwrap_or_default();
    let mut details = vec![
        format!(
            "{} packets of UDP, 68 to 256 bytes at random, 1024 flows, {RATE_PPS} a second by \
             tcpreplay; {RULES} content rules that drop, {} packets dropped by them, {came_out} \
             came out in every turn: none lost",
            packets.len(),
            drops.len()
        ),
        "ours: burstline bounce v1 w1 --both --inline ips, and suricata --simulate-ips \
         --runmode=single --pcap='burst:ips?verdict=pass&drops=FILE'; peer: suricata --af-packet, \
         copy-mode ips between v1 and w1, a worker each, rings of 65,536; both sides on one core"
            .to_owned(),
        "ns: time of all threads of either side by schedstat, for each packet; bounce_ns: of the \
         bounce. The kernel's copy of what comes in is on the sender's core, in neither"
            .to_owned(),
    ];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of_samples("ns", Better::Lower, rounds, details)))
}

/// What both sides have in common.
struct Sides<'a> {
    context: &'a Context,
    rules: String,
    packets: &'a [Vec<u8>],
}

/// One side's turn.
struct Turn {
    came_out: u64,
    suricata_ns: u64,
    bounce_ns: u64,
    alerts: Vec<String>,
}

impl Turn {
    fn sample(&self, packets: usize) -> Sample {
        let mut sample = Sample::default();
        let each = |ns: u64| ns as f64 / packets.max(1) as f64;
        sample.set("ns", "ns", each(self.suricata_ns + self.bounce_ns));
        sample.set("bounce_ns", "ns", each(self.bounce_ns));
        sample
    }
}

impl Sides<'_> {
    fn run(&self, is_ours: bool) -> Result<Turn, String> {
        let (context, stop) = (self.context, &self.context.stop);
        let road = Road::new(context.cores)?;
        road.bed().connect("w0", OUT, MTU).map_err(|error| error.to_string())?;
        let core = context.cores.consumer.0.to_string();
        let [log, rules, file, name] =
            ["log", "rules", "packets.pcap", "ips"].map(|n| road.file(n));
        let write = |path: &str, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))
        };
        fs::create_dir(&log).map_err(|error| format!("{log}: {error}"))?;
        write(&rules, self.rules.as_bytes())?;
        write(&file, &pcap(self.packets))?;
        let bounce = match is_ours {
            true => Some(Contender::start(&road, &core, &bounce(&our_program()?, &name), stop)?),
            false => None,
        };
        let words = if is_ours { behind_bounce(&name, &log) } else { between_interfaces() };
        let launch = Suricata::new(&log, &rules, &words, is_ours)?;
        let suricata = Contender::start(&road, &core, &launch, stop)?;
        let came_out = || road.bed().near.counts("w0").received;
        let spent = || -> Result<_, String> {
            let own = |of: &Contender<'_>| processor_ns(of.process_id());
            Ok((own(&suricata)?, bounce.as_ref().map_or(Ok(0), own)?))
        };
        let (before, out_before) = (spent()?, came_out());
        replay(&road, context.cores, RATE_PPS, &file)?;
        std::thread::sleep(SETTLE);
        let (after, out_after) = (spent()?, came_out());
        // Before its worker: what is still on its way would be lost.
        if let Some(bounce) = bounce {
            Report::of_its_own(&bounce.end()?.0)?;
        }
        suricata.end()?;
        let (came_out, alerts) = (out_after - out_before, alerts(Path::new(&log))?);
        let (whole, found) = (self.packets.len(), came_out as usize + alerts.len());
        if found != whole {
            let dropped = alerts.len();
            return Err(format!("of {whole} packets {came_out} came out, {dropped} were dropped"));
        }
        let (suricata_ns, bounce_ns) = (after.0 - before.0, after.1 - before.1);
        Ok(Turn { came_out, suricata_ns, bounce_ns, alerts })
    }
}

/// Verdicts may take as long as a core that both share may.
fn bounce(program: &Path, name: &str) -> Ours {
    Ours::new(program, &format!("bounce v1 {OUT} --both --inline '{name}?deadline=1s'"))
}

fn behind_bounce(name: &str, log: &str) -> String {
    let outputs = outputs();
    let outputs = outputs.display();
    format!(
        "--simulate-ips --include {outputs} --runmode=single \
         '--pcap=burst:{name}?verdict=pass&drops={log}/drops.json'"
    )
}

/// Its outputs in line, as `make install-pcap` installs them.
fn outputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcap/suricata-in-line.yaml")
}

/// A thread on each interface, which sends by the other.
fn between_interfaces() -> String {
    let ways = [("v1", OUT, 99), (OUT, "v1", 98)];
    let settings = ways.iter().enumerate().map(|(at, (from, to, cluster))| {
        let settings = [
            format!("interface={from}"),
            format!("copy-iface={to}"),
            format!("cluster-id={cluster}"),
            "threads=1".to_owned(),
            "copy-mode=ips".to_owned(),
            "ring-size=65536".to_owned(),
            "defrag=no".to_owned(),
        ];
        settings.map(|setting| format!(" --set af-packet.{at}.{setting}")).concat()
    });
    let outputs = outputs();
    let outputs = outputs.display();
    format!("--af-packet --include {outputs} --runmode=workers{}", settings.collect::<String>())
}

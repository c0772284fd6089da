//! `suricata-afpacket`: Suricata 7 on a log, by our libpcap, against its own AF_PACKET capture.
//!
//! ```text
//!   tcpreplay --> v0 ==== v1 --> burstline count --publish tap --> Suricata --pcap=burst:tap
//!                         v1 --> Suricata --af-packet=v1
//! ```
//!
//! Both get the same packets at the same rate, and have the same rules, one worker, and the
//! configuration that Suricata comes with. A turn in which one lost packets is an error: what is
//! not looked at would look cheap.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::captures::publish;
use super::our_library;
use super::work::{RULES, Spent, Turn, Work, turns};
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contenders::Sample;
use crate::figures::Context;
use crate::figures::count_file::{our_program, target};
use crate::live::{Contender, Need, Road, missing};
use crate::programs::{self, Launch, Memory, Ready, Report};

pub(super) const NEEDS: [Need; 1] = [Need { program: "tcpreplay", package: "tcpreplay" }];
/// What fetches it.
const MEND: &str = "Suricata is not installed: sudo scripts/setup sensors";
const PACKETS: usize = 300_000;
/// What either side takes without a loss on one core.
const RATE_PPS: u64 = 100_000;

/// Why there is no Suricata to measure; `None`: there is one.
pub(super) fn lacks() -> Result<Option<String>, String> {
    match target()?.join("suricata/usr/bin/suricata").is_file() {
        true => Ok(missing(&NEEDS)),
        false => Ok(Some(MEND.to_owned())),
    }
}

/// Gbit/s for each core that Suricata keeps busy.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = lacks()? {
        return Ok(Outcome::NotHere(why));
    }
    let work = Work::new(context, PACKETS, "alert");
    let conditions = Conditions::watch(context.cores);
    let (rounds, alerts) = turns(
        context,
        |has_log| turn(context, &work, has_log),
        |alerts| format!("{} alerts", alerts.len()),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!(
            "{} packets of UDP, 68 to 256 bytes at random, 1024 flows, {RATE_PPS} a second by \
             tcpreplay; {RULES} content rules, {} alerts, the same in every turn; no losses; \
             aim: 1.15 times",
            work.packets.len(),
            alerts.len()
        ),
        "ours: suricata --pcap=burst:tap --runmode=single by our libpcap, beside burstline count \
         xdp:v1 --publish tap; peer: suricata --af-packet=v1 --runmode=single, a ring of 65,536; \
         both on one core"
            .to_owned(),
        "bits of packets for each second that Suricata's threads had of processors, from when its \
         engine was started; publisher_ns: of the publisher, for each packet. The kernel's copy \
         into the peer's ring is on the sender's core, in neither"
            .to_owned(),
    ];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of_samples("gbps", Better::Higher, rounds, details)))
}

/// As it says itself; empty where it is not there.
pub(crate) fn version() -> String {
    // Where there is no target folder, there is no Suricata either.
    let target = target().unwrap_or_default().display().to_string();
    let target = format!("CARGO_TARGET_DIR={target}");
    let script = script().display().to_string();
    programs::first_line("env", &[&target, &script, "-V"])
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/suricata")
}

/// A Suricata.
pub(super) struct Suricata {
    target: PathBuf,
    /// Where it writes, and where its rules are.
    log: String,
    rules: String,
    /// Where its packets come from, and who looks at them.
    words: String,
    library: Option<PathBuf>,
    ready: Ready,
}

impl Suricata {
    pub(super) fn new(log: &str, rules: &str, words: &str, has_log: bool) -> Result<Self, String> {
        Ok(Self {
            target: target()?,
            log: log.to_owned(),
            rules: rules.to_owned(),
            words: words.to_owned(),
            library: has_log.then(our_library).transpose()?,
            ready: Ready::line("Engine started"),
        })
    }
}

impl Launch for Suricata {
    fn command(&self, _: Memory) -> String {
        let Self { log, rules, words, .. } = self;
        let (script, target) = (script(), self.target.display());
        let script = script.display();
        // Nothing else is preloaded there: it has its own C library.
        let library = self.library.as_ref().map(|path| path.display().to_string());
        let library = library.unwrap_or_default();
        format!(
            "env CARGO_TARGET_DIR={target} LD_PRELOAD={library} {script} -S {rules} -l {log} \
             {words}"
        )
    }

    fn ready(&self) -> Ready {
        self.ready.clone()
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// One side's turn. It finds the alerts, without their times, in order.
fn turn(context: &Context, work: &Work, has_log: bool) -> Result<Turn<Vec<String>>, String> {
    let stop = &context.stop;
    let road = Road::new(context.cores)?;
    let core = context.cores.consumer.0.to_string();
    let (files, name) = (work.write(&road)?, road.file("tap"));
    let publisher = match has_log {
        true => Some(Contender::start(&road, &core, &publish(&our_program()?, &name), stop)?),
        false => None,
    };
    let source = if has_log { format!("--pcap=burst:{name}") } else { on_interface() };
    let words = format!("{source} --runmode=single");
    let launch = Suricata::new(&files.log, &files.rules, &words, has_log)?;
    let suricata = Contender::start(&road, &core, &launch, stop)?;
    let before = Spent::so_far(&suricata, publisher.as_ref())?;
    files.replay(&road, context.cores, RATE_PPS)?;
    let spent = Spent::so_far(&suricata, publisher.as_ref())?.since(before);
    let (said, _) = suricata.end()?;
    if let Some(publisher) = publisher {
        Report::of_its_own(&publisher.end()?.0)?;
    }
    let log = Path::new(&files.log);
    let counted = |key| counter(log, key).map_err(|why| format!("{why}: {said}"));
    let (packets, bytes) = (counted("decoder.pkts")?, counted("decoder.bytes")?);
    if packets != work.packets.len() as u64 {
        return Err(format!("Suricata saw {packets} of {} packets", work.packets.len()));
    }
    let mut sample = Sample::default();
    let gbps = (bytes * 8) as f64 / spent.suricata_ns.max(1) as f64;
    sample.set_on("gbps", "Gbit/s", "without FCS", gbps);
    let each = |ns: u64| ns as f64 / packets.max(1) as f64;
    sample.set("suricata_ns", "ns", each(spent.suricata_ns));
    sample.set("publisher_ns", "ns", each(spent.beside_ns));
    Ok(Turn { sample, found: alerts(log)? })
}

/// One thread on the interface, with room for more than half a second.
fn on_interface() -> String {
    let settings = ["interface=v1", "threads=1", "ring-size=65536"];
    let settings = settings.map(|setting| format!(" --set af-packet.0.{setting}"));
    format!("--af-packet=v1{}", settings.concat())
}

/// A counter of Suricata's, as it stands last in its statistics.
fn counter(log: &Path, key: &str) -> Result<u64, String> {
    let said = fs::read_to_string(log.join("stats.log")).unwrap_or_default();
    let line = said.lines().rev().find(|line| line.split_whitespace().next() == Some(key));
    let value = line.and_then(|line| line.split_whitespace().next_back()?.parse().ok());
    value.ok_or_else(|| format!("Suricata's stats.log has no {key}"))
}

/// The lines of `fast.log` behind their times, sorted.
pub(super) fn alerts(log: &Path) -> Result<Vec<String>, String> {
    let path = log.join("fast.log");
    let said = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let behind_time = |line: &str| line.split_once("[**]").map(|(_, rest)| rest.to_owned());
    let mut alerts: Vec<String> = said.lines().filter_map(behind_time).collect();
    alerts.sort_unstable();
    match alerts.is_empty() {
        true => Err("Suricata alerted nothing".to_owned()),
        false => Ok(alerts),
    }
}

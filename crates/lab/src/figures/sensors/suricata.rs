//! `suricata-afpacket`: Suricata 7 on a log, by our libpcap, against its own AF_PACKET capture.
//! `suricata-fanout`: the same with two workers, on a log each, against two in a fanout group.
//!
//! ```text
//!   tcpreplay --> v0 ==== v1 --> burstline count --publish tap --> Suricata --pcap=burst:tap
//!                         v1 --> Suricata --af-packet=v1
//!
//!                         v1 --> burstline balance --publish tap --+--> tap@0: worker   of one
//!                                                                  +--> tap@1: worker   Suricata
//!                         v1 --> cluster_flow --+--> ring: worker   of one
//!                                               +--> ring: worker   Suricata
//! ```
//!
//! Both get the same packets at the same rate and have the same rules, number of workers and
//! default configuration. A turn with a packet loss is an error, because packets that are not
//! scanned cost less. So is a turn in which two workers saw the same flow.

use std::path::Path;

use super::turns::{RULES, Turn, turns, work};
use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::figures::Context;
use crate::live::{Contender, Road, pages_of};
use crate::programs::Report;
use crate::programs::our_program;
use crate::sensors::{
    Flows, Replayed, Spent, Suricata, Work, Workers, alerts, counter, flows, lacks, publish,
};

const PACKETS: usize = 300_000;
/// A rate that either side sustains without a loss on one core.
const RATE_PPS: u64 = 100_000;
const METRIC: &str = "gbit_per_busy_s";

/// Measures Gbit/s per core that Suricata keeps busy, with this many workers.
pub(crate) fn measure(context: &Context, workers: usize) -> Result<Outcome, String> {
    if let Some(why) = lacks()? {
        return Ok(Outcome::NotHere(why));
    }
    let work = work(context, PACKETS, "alert");
    let comparison = context.begin();
    let workers = Workers(workers);
    let (rounds, found) = turns(
        context,
        |has_log| turn(context, &work, workers, has_log),
        |found| format!("{} alerts, {} flows", found.alerts.len(), found.flows),
    )?;
    let mut details = vec![
        format!(
            "{} packets of UDP, 68 to 256 bytes at random, {} flows, {RATE_PPS} a second by \
             tcpreplay; {RULES} content rules, {} alerts, the same in every turn; no losses; \
             aim: 1.15 times",
            work.packets.len(),
            found.flows,
            found.alerts.len()
        ),
        workers.about(),
        "bits of packets for each second of processor time of Suricata's threads and the \
         publisher, from the start of Suricata's engine; gbit_per_suricata_s: without the \
         publisher, whose time for each packet is publisher_ns. The kernel's copy into the peer's \
         ring is on the sender's core, in neither"
            .to_owned(),
    ];
    if workers.0 > 1 {
        details.push(format!(
            "each flow has one record in Suricata's events, and one worker raised its alerts: {} \
             flows alerted more than once",
            found.several_alerts
        ));
    }
    Ok(comparison.outcome_of_samples(METRIC, Better::Higher, rounds, details))
}

/// Suricata's findings.
#[derive(Clone, Default, PartialEq)]
struct Found {
    alerts: Vec<String>,
    flows: usize,
    /// Number of flows that alerted more than once.
    several_alerts: usize,
}

/// Runs one side's turn.
fn turn(
    context: &Context,
    work: &Work,
    workers: Workers,
    has_log: bool,
) -> Result<Turn<Found>, String> {
    let stop = &context.stop;
    let road = Road::new(context.cores)?;
    let core = context.cores.consumer.0.to_string();
    let (files, name) = (work.write(&road)?, road.file("tap"));
    let publisher = match has_log {
        true => {
            let publish = publish(&our_program()?, &workers.publisher(), &name);
            Some(Contender::start(&road, &core, &publish, stop)?)
        }
        false => None,
    };
    let words = if has_log { workers.on_log(&name) } else { workers.on_interface() };
    let launch = Suricata::new(&files.log, &files.rules, &words, has_log)?;
    let suricata = Contender::start(&road, &core, &launch, stop)?;
    let before = Spent::so_far(&suricata, publisher.as_ref())?;
    let Replayed { sent, interfaces } = files.replay(&road, context.cores, RATE_PPS)?;
    let spent = Spent::so_far(&suricata, publisher.as_ref())?.since(before);
    let pages = pages_of(std::iter::once(&suricata).chain(&publisher).map(Contender::process_id));
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
    let Flows { all: flows, several_alerts, workers: alerted } = flows(log)?;
    // A few alerts may all belong to one worker's flows.
    if alerted != workers.0 && !context.smoke {
        return Err(format!("{alerted} of {} workers alerted", workers.0));
    }
    let mut sample = Sample { interfaces, pages: Some(pages), ..Sample::default() };
    let gbps = |ns: u64| (bytes * 8) as f64 / ns.max(1) as f64;
    let sent_ns = (sent.seconds * 1e9) as u64;
    let all_ns = spent.suricata_ns + spent.beside_ns;
    sample.set_on(METRIC, "Gbit/busy s", "without FCS", gbps(all_ns));
    sample.set_on("gbit_per_suricata_s", "Gbit/busy s", "without FCS", gbps(spent.suricata_ns));
    sample.set_on("gbps", "Gbit/s", "without FCS", gbps(sent_ns));
    let each = |ns: u64| ns as f64 / packets.max(1) as f64;
    sample.set("suricata_ns", "ns", each(spent.suricata_ns));
    sample.set("publisher_ns", "ns", each(spent.beside_ns));
    Ok(Turn { sample, found: Found { alerts: alerts(log)?, flows, several_alerts } })
}

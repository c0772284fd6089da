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
//! Both get the same packets at the same rate and have the same rules, which drop. The figure
//! compares the total CPU time of either side; ours has a second program. A turn in which a
//! different number of packets comes out is an error.

use std::path::Path;

use super::turns::{RULES, Turn, turns, work};
use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::figures::Context;
use crate::live::{Contender, OUT, Road, pages_of};
use crate::programs::Report;
use crate::programs::our_program;
use crate::sensors::{
    Replayed, Spent, Suricata, Work, alerts, behind_bounce, between_interfaces, bounce, lacks,
};

const PACKETS: usize = 60_000;
/// A rate that either side forwards without a loss, all on one core.
const RATE_PPS: u64 = 20_000;
const MTU: u32 = 1500;

/// Measures the CPU time per packet, in ns.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = lacks()? {
        return Ok(Outcome::NotHere(why));
    }
    let work = work(context, PACKETS, "drop");
    let comparison = context.begin();
    let (rounds, found) = turns(
        context,
        |is_ours| turn(context, &work, is_ours),
        |found| format!("{} packets came out, {} alerts", found.came_out, found.alerts.len()),
    )?;
    let details = vec![
        format!(
            "{} packets of UDP, 68 to 256 bytes at random, 1024 flows, {RATE_PPS} a second by \
             tcpreplay; {RULES} content rules that drop, {} packets dropped by them, {} came out \
             in every turn: none lost",
            work.packets.len(),
            found.alerts.len(),
            found.came_out
        ),
        "ours: burstline bounce v1 w1 --both --inline ips, and suricata --simulate-ips \
         --runmode=single --pcap='burst:ips?verdict=pass&drops=FILE'; peer: suricata --af-packet, \
         copy-mode ips between v1 and w1, a worker each, rings of 65,536; both sides on one core"
            .to_owned(),
        "ns: time of all threads of either side by schedstat, for each packet; bounce_ns: of the \
         bounce; mpps: packets a second by tcpreplay's clock, none lost. The kernel's copy of what \
         comes in is on the sender's core, in neither"
            .to_owned(),
    ];
    Ok(comparison.outcome_of_samples("ns", Better::Lower, rounds, details))
}

/// The outcome for the packets.
#[derive(Clone, Default, PartialEq)]
struct Found {
    came_out: u64,
    /// One for each packet that a rule dropped.
    alerts: Vec<String>,
}

/// Runs one side's turn.
fn turn(context: &Context, work: &Work, is_ours: bool) -> Result<Turn<Found>, String> {
    let stop = &context.stop;
    let road = Road::new(context.cores)?;
    road.bed().connect("w0", OUT, MTU).map_err(|error| error.to_string())?;
    let core = context.cores.consumer.0.to_string();
    let (files, name) = (work.write(&road)?, road.file("ips"));
    let bounce = match is_ours {
        true => Some(Contender::start(&road, &core, &bounce(&our_program()?, &name), stop)?),
        false => None,
    };
    let words = if is_ours { behind_bounce(&name, &files.log) } else { between_interfaces() };
    let launch = Suricata::new(&files.log, &files.rules, &words, is_ours)?;
    let suricata = Contender::start(&road, &core, &launch, stop)?;
    let received = || road.bed().near.counts("w0").received;
    let (before, received_before) = (Spent::so_far(&suricata, bounce.as_ref())?, received());
    let Replayed { sent, interfaces } = files.replay(&road, context.cores, RATE_PPS)?;
    let spent = Spent::so_far(&suricata, bounce.as_ref())?.since(before);
    let pages = pages_of(std::iter::once(&suricata).chain(&bounce).map(Contender::process_id));
    let came_out = received() - received_before;
    // End it before Suricata's worker, or packets in flight would be lost.
    if let Some(bounce) = bounce {
        Report::of_its_own(&bounce.end()?.0)?;
    }
    suricata.end()?;
    let alerts = alerts(Path::new(&files.log))?;
    let (whole, dropped) = (work.packets.len(), alerts.len());
    if came_out as usize + dropped != whole {
        return Err(format!("of {whole} packets {came_out} came out, {dropped} were dropped"));
    }
    let mut sample = Sample { interfaces, pages: Some(pages), ..Sample::default() };
    let each = |ns: u64| ns as f64 / whole.max(1) as f64;
    sample.set("ns", "ns", each(spent.suricata_ns + spent.beside_ns));
    sample.set("bounce_ns", "ns", each(spent.beside_ns));
    sample.set("mpps", "Mpps", whole as f64 / sent.seconds.max(1e-9) / 1e6);
    Ok(Turn { sample, found: Found { came_out, alerts } })
}

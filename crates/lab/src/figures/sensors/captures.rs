//! Measures tcpdump, one and four at a time, on a log and on a packet socket.

use std::path::Path;
use std::time::Duration;

use burstline_testbed::{Amount, FAR, Target};

use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::figures::Context;
use crate::live::{Contender, Load, Road, missing, pages_of};
use crate::programs::{Capture, Launch, Memory, Ready, Report, TCPDUMP, TCPDUMP_BUFFER};
use crate::programs::{our_program, tcpdump};
use crate::record::{Interface, Pages};
use crate::scenario::machine::{Served, on_hosts};
use crate::sensors::{our_library, processor_ns, publish};

/// How long frames arrive.
const TIME: Duration = Duration::from_secs(3);
const SMOKE_FRAMES: u64 = 500;
/// A rate at which one tcpdump on a packet socket loses nothing.
const ONE_PPS: u64 = 300_000;
/// A rate at which four of them lose much, on one core.
const FOUR_PPS: u64 = 1_500_000;

/// tcpdump that writes to /dev/null, on a packet socket or on a log.
struct ToNowhere {
    command: String,
    ready: Ready,
}

impl ToNowhere {
    /// With the real libpcap, on the interface, with a ring of 64 MiB.
    fn on_socket() -> Self {
        let command = tcpdump(FAR, TCPDUMP_BUFFER, "/dev/null");
        Self { command, ready: TCPDUMP.ready() }
    }

    /// With ours, on the log of that name.
    fn on_log(library: &Path, name: &str) -> Self {
        let library = library.display();
        let tcpdump = tcpdump(&format!("burst:{name}"), "", "/dev/null");
        let command = format!("env LD_PRELOAD={library} {tcpdump}");
        Self { command, ready: Ready::line("listening on") }
    }
}

impl Launch for ToNowhere {
    fn command(&self, _: Memory) -> String {
        self.command.clone()
    }

    fn ready(&self) -> Ready {
        self.ready.clone()
    }

    fn settles_in(&self) -> Duration {
        TCPDUMP.settles_in()
    }
}

/// The result of one side's turn.
struct Turn {
    /// Frames due at the requested rate. A card does not wait for a slower kernel, but the injector
    /// does.
    due: u64,
    /// Frames that were actually offered.
    offered: u64,
    /// Lost by the publisher, before the log.
    lost_before: u64,
    captured: u64,
    /// CPU time of the capturing programs.
    programs_ns: u64,
    /// CPU time of the publisher; 0 without one.
    publisher_ns: u64,
    /// How long frames were injected.
    seconds: f64,
    interfaces: Vec<Interface>,
    pages: Pages,
}

impl Turn {
    fn received_percent(&self, programs: usize) -> f64 {
        100.0 * self.captured as f64 / (self.due * programs as u64).max(1) as f64
    }

    fn sample(&self, programs: usize) -> Sample {
        let (interfaces, pages) = (self.interfaces.clone(), Some(self.pages));
        let mut sample = Sample { interfaces, pages, ..Sample::default() };
        let each = |ns: u64, packets: u64| ns as f64 / packets.max(1) as f64;
        sample.set("ns", "ns", each(self.programs_ns, self.captured));
        sample.set("publisher_ns", "ns", each(self.publisher_ns, self.offered));
        let mpps = self.captured as f64 / programs as f64 / self.seconds / 1e6;
        sample.set("mpps", "Mpps", mpps);
        sample.set("offered_percent", "%", 100.0 * self.offered as f64 / self.due.max(1) as f64);
        sample.set("publisher_lost", "packets", self.lost_before as f64);
        sample.set("received_percent", "% received", self.received_percent(programs));
        sample
    }
}

/// The capturing programs and their input.
struct Programs<'a> {
    context: &'a Context,
    number: usize,
    rate_pps: u64,
    has_log: bool,
}

impl Programs<'_> {
    /// Starts them, injects, and ends them, the programs before their publisher.
    fn run(&self) -> Result<Turn, String> {
        let (context, stop) = (self.context, &self.context.stop);
        let (program, library) = (our_program()?, our_library()?);
        let road = Road::new(context.cores)?;
        let (name, core) = (road.file("tap"), context.cores.consumer.0.to_string());
        let publisher = match self.has_log {
            false => None,
            true => {
                let words = publish(&program, "count", &name);
                Some(Contender::start(&road, &core, &words, stop)?)
            }
        };
        let launch = match self.has_log {
            true => ToNowhere::on_log(&library, &name),
            false => ToNowhere::on_socket(),
        };
        let start = |_| Contender::start(&road, &core, &launch, stop);
        let programs = (0..self.number).map(start).collect::<Result<Vec<_>, _>>()?;
        let spent = |of: &[Contender<'_>]| {
            of.iter().map(|one| processor_ns(one.process_id())).sum::<Result<u64, _>>()
        };
        let of_publisher =
            || publisher.as_ref().map_or(Ok(0), |one| processor_ns(one.process_id()));
        let before = (spent(&programs)?, of_publisher()?);
        let amount = context.amount(SMOKE_FRAMES, TIME);
        let load = Load { amount, rate_pps: Some(self.rate_pps) };
        // The publisher gets frames by an XDP program, the sockets by the stack.
        let target = if self.has_log { Target::Program } else { Target::Stack };
        let served = Served::now();
        let injected = road.inject(target, load, stop)?;
        let (offered, seconds) = (injected.offered, injected.elapsed.as_secs_f64());
        std::thread::sleep(launch.settles_in());
        let interfaces = on_hosts(road.bed(), &served);
        let after = (spent(&programs)?, of_publisher()?);
        let pages = pages_of(programs.iter().chain(&publisher).map(Contender::process_id));
        let said = programs.into_iter().map(Contender::end).collect::<Result<Vec<_>, _>>()?;
        let captured = said.iter().map(|(said, _)| Capture::captured(&TCPDUMP, said));
        let captured = captured.sum::<Result<u64, _>>()?;
        let lost_before = match publisher {
            Some(publisher) => offered - Report::parse(&publisher.end()?.0, offered)?.delivered,
            None => 0,
        };
        let due = match amount {
            Amount::Frames(frames) => frames,
            Amount::Time(time) => self.rate_pps * time.as_secs(),
        };
        Ok(Turn {
            due,
            offered,
            lost_before,
            captured,
            programs_ns: after.0 - before.0,
            publisher_ns: after.1 - before.1,
            seconds,
            interfaces,
            pages,
        })
    }

    fn sample(&self) -> Result<Sample, String> {
        let turn = self.run()?;
        match turn.captured {
            0 => Err("tcpdump captured nothing".to_owned()),
            _ => Ok(turn.sample(self.number)),
        }
    }
}

/// `pcap-tcpdump`: ns of CPU time per packet of `tcpdump -w /dev/null`.
pub(crate) fn one_tcpdump(context: &Context) -> Result<Outcome, String> {
    compare(context, 1, ONE_PPS, "ns", Better::Lower, "aim: at most half")
}

/// `pcap-four-readers`: per cent of the packets that four tcpdumps received.
pub(crate) fn four_readers(context: &Context) -> Result<Outcome, String> {
    let aim = "aim: ours receives all, where the peer misses more than 10 %";
    compare(context, 4, FOUR_PPS, "received_percent", Better::Higher, aim)
}

fn compare(
    context: &Context,
    number: usize,
    rate_pps: u64,
    metric: &'static str,
    better: Better,
    aim: &str,
) -> Result<Outcome, String> {
    if let Some(why) = missing(TCPDUMP.needs) {
        return Ok(Outcome::NotHere(why));
    }
    let comparison = context.begin();
    let side = |has_log| Programs { context, number, rate_pps, has_log };
    let rounds = context.alternate(
        context.process_runs(),
        || side(true).sample(),
        || side(false).sample(),
    )?;
    let details = vec![
        format!(
            "frames of 60 bytes, {rate_pps} a second for {} s, to {number} program(s) on one core; \
             {aim}",
            TIME.as_secs()
        ),
        "ours: tcpdump -i burst:tap -w /dev/null by our libpcap, beside burstline count xdp:v1 \
         --publish tap on the same core, its log 64 MiB; peer: tcpdump -i v1 -B 65536 -w /dev/null"
            .to_owned(),
        "received: share of the frames due at that rate, including those that the kernel was too \
         slow to deliver"
            .to_owned(),
        "ns: time of the capturing programs' threads by schedstat, for each packet captured, from \
         when they are ready; publisher_ns: of the publisher, for each frame; mpps: what each \
         program captured, by the clock of the injector. The kernel's copy \
         into a socket's ring is on the injector's core, in neither"
            .to_owned(),
    ];
    Ok(comparison.outcome_of_samples(metric, better, rounds, details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_for_each_packet_of_each_program() {
        let turn = Turn {
            due: 100,
            offered: 80,
            lost_before: 0,
            captured: 300,
            programs_ns: 6000,
            publisher_ns: 400,
            seconds: 1.5,
            interfaces: Vec::new(),
            pages: Pages { small_mib: 9.0, ..Pages::default() },
        };
        let sample = turn.sample(4);
        let value = |name: &str| sample.figures[name].value;
        assert_eq!((value("ns"), value("publisher_ns")), (20.0, 5.0));
        assert_eq!((value("received_percent"), value("offered_percent")), (75.0, 80.0));
        assert_eq!((value("mpps"), sample.pages), (50e-6, Some(turn.pages)));
    }
}

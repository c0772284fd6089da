//! Measures TCP between two emulated machines whose virtio cards connect to ports of a switch.
//!
//! ```text
//!   core 0                 core 1                        core 0
//!   guest 2: iperf3 -c ==> ours, Open vSwitch ==> guest 1: iperf3 -s
//! ```
//!
//! `scripts/guest-iperf` boots the guests, which QEMU emulates without KVM. So the throughput
//! depends on the guests, and the measure of the switch is its CPU time. Both switches have the
//! same guests, which offload segmentation and checksums to the card, and both learn addresses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::rivals::{PORTS, start_open_vswitch};
use super::taps::received_gbit;
use super::{Context, load, pages_of_all};
use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::contest::{Rounds, go_on};
use crate::figures::count_file::run;
use crate::live::{Contender, Need, Road, missing, with_all};
use crate::programs::{Bridge, Datapath, Launch, Memory, Ours, Ready, Report};
use crate::programs::{our_program, target};
use crate::sensors::processor_ns;

const NEEDS: [Need; 4] = [
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Need { program: "busybox", package: "busybox-static" },
    Need { program: "cpio", package: "cpio" },
    Need { program: "iperf3", package: "iperf3" },
];
const SECONDS: u64 = 10;
/// Markers that the sender prints when it starts, when it has ended, and when all succeeded.
const BEGINS: &str = "guest: iperf begins";
const HAS_ENDED: &str = "guest: iperf has ended";
const IS_WELL: &str = "checks passed";
/// A sender that takes this much longer than its run has hung.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// The two machines, and the duration of the transfer in s.
struct Guests {
    target: PathBuf,
    sockets: [String; 2],
    seconds: u64,
}

impl Launch for Guests {
    fn command(&self, _: Memory) -> String {
        let Self { target, sockets: [a, b], seconds } = self;
        let (target, script) = (target.display(), script());
        let script = script.display();
        with_all(&format!("env 'CARGO_TARGET_DIR={target}' '{script}' {seconds} '{a}' '{b}'"))
    }

    fn ready(&self) -> Ready {
        Ready::line(BEGINS)
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest-iperf")
}

/// `guest-iperf-ovs-dpdk`: the throughput, and the CPU time of the switch.
pub(in crate::figures) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[&NEEDS, Datapath::Dpdk.needs()].concat()) {
        return Ok(Outcome::NotHere(why));
    }
    let (program, target) = (our_program()?, target()?);
    let mut prepare = Command::new(script());
    if let Err(why) = run(prepare.arg("--prepare").env("CARGO_TARGET_DIR", &target)) {
        return Ok(Outcome::NotHere(format!(
            "the guests' kernel cannot be prepared: {why}: make guest-switch"
        )));
    }
    let seconds = if context.smoke { 1 } else { SECONDS };
    let guests =
        |road: &Road| Guests { target: target.clone(), sockets: load::sockets(road), seconds };
    let comparison = context.begin();
    let rounds = context.alternate(
        context.process_runs(),
        || ours(context, &program, guests),
        || open_vswitch(context, guests),
    )?;
    rounds.have_pages()?;
    let details = details(context, &rounds);
    Ok(comparison.outcome_of_samples("gbps", Better::Higher, rounds, details))
}

fn details(context: &Context, rounds: &Rounds<Sample>) -> Vec<String> {
    let (ours, rival) = rounds.values_of("cpu_percent").medians();
    let (guests, core) = (context.cores.producer, context.cores.consumer);
    vec![
        format!(
            "iperf3, one connection for {SECONDS} s between two guests, each a QEMU without KVM, \
             both on core {guests}; the rate received"
        ),
        format!(
            "processor time of the switch meanwhile, all threads: ours {ours:.1} % of a core, \
             rival {rival:.1} %, ratio {:.2}",
            rival / ours
        ),
        format!("ours: vhost: ports with client and offloads=on, --poll adaptive, on core {core}"),
        format!(
            "peer: ports of type dpdkvhostuserclient, userspace-tso-enable, its polling thread on \
             core {core}, the others on core {guests}"
        ),
        "each turn boots its guests".to_owned(),
    ]
}

fn ours(
    context: &Context,
    program: &Path,
    guests: impl Fn(&Road) -> Guests,
) -> Result<Sample, String> {
    let road = Road::new(context.cores)?;
    let core = context.cores.consumer;
    let guests = guests(&road);
    let ports = guests.sockets.each_ref();
    let ports = ports.map(|socket| format!("--port 'vhost:{socket}?client&offloads=on'")).join(" ");
    let words = format!("switch {ports} --poll adaptive --cores {core}");
    let ours = Ours::new(program, &words);
    let switch = Contender::start(&road, &core.to_string(), &ours, &context.stop)?;
    let sample = iperf(context, &road, &guests, switch.process_id())?;
    let pages = Some(switch.pages());
    let (said, _) = switch.end()?;
    Report::of_its_own(&said)?;
    Ok(Sample { pages, ..sample })
}

fn open_vswitch(context: &Context, guests: impl Fn(&Road) -> Guests) -> Result<Sample, String> {
    let road = Road::new(context.cores)?;
    let guests = guests(&road);
    let [a, b] = guests.sockets.each_ref();
    let bridge = Bridge::of_guests([(PORTS[0], a), (PORTS[1], b)]);
    let bridge = Bridge { settings: Bridge::TSO, ..bridge };
    let programs = start_open_vswitch(context, &road, &bridge)?;
    let switch = programs.last().ok_or("Open vSwitch has no process")?;
    let sample = iperf(context, &road, &guests, switch.process_id())?;
    Ok(Sample { pages: Some(pages_of_all(&programs)), ..sample })
}

/// Boots the guests at a switch's ports and reads the receiver's result.
fn iperf(context: &Context, road: &Road, guests: &Guests, switch: u32) -> Result<Sample, String> {
    let core = context.cores.producer.to_string();
    let running = Contender::start(road, &core, guests, &context.stop)?;
    let (before_ns, began) = (processor_ns(switch)?, Instant::now());
    wait_for(context, &running, HAS_ENDED, guests.seconds)?;
    let (spent_ns, elapsed) = (processor_ns(switch)? - before_ns, began.elapsed());
    wait_for(context, &running, IS_WELL, guests.seconds)?;
    let gbit = received_gbit(&report_in(&running.printed()))?;
    let spent = spent_ns as f64 / 1e9;
    let mut sample = Sample::default();
    sample.set_on("gbps", "Gbit/s", "payload", gbit / guests.seconds as f64);
    sample.set("cpu_percent", "% of a core", 100.0 * spent / elapsed.as_secs_f64());
    sample.set_on("gbit_per_switch_s", "Gbit/busy s", "payload", gbit / spent);
    Ok(sample)
}

fn wait_for(
    context: &Context,
    guests: &Contender<'_>,
    text: &str,
    seconds: u64,
) -> Result<(), String> {
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds) + ENDS_WITHIN);
    while !guests.printed().contains(text) {
        go_on(&context.stop)?;
        // By then the file has the output of its end.
        if guests.has_ended() && !guests.printed().contains(text) || began.elapsed() > limit {
            let (waited_s, said) = (began.elapsed().as_secs(), guests.printed());
            return Err(format!("guests printed no `{text}` in {waited_s} s: {}", said.trim()));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// Returns iperf3's report from the sender's console output.
fn report_in(console: &str) -> String {
    let after = console.split_once(HAS_ENDED).map_or("", |(_, rest)| rest);
    let end = after.find("guest: ").unwrap_or(after.len());
    after[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_between_two_lines_of_the_guests() {
        let console = "guest: iperf begins\r\nguest: iperf has ended\r\n{\r\n\t\"end\": {\
            \"sum_received\": {\"bytes\": 2.5e9}}\r\n}\r\nguest: all 1 checks passed\r\n";
        assert_eq!(received_gbit(&report_in(console)), Ok(20.0));
        assert!(received_gbit(&report_in("guest: iperf begins\r\n")).is_err());
    }

    #[test]
    fn guests_go_with_their_namespace_and_begin_by_their_own_word() {
        let sockets = ["/a", "/b"].map(str::to_owned);
        let guests = Guests { target: "/target".into(), sockets, seconds: 10 };
        let command = guests.command(Memory::Huge);
        assert!(command.starts_with("unshare --pid --fork --kill-child "), "{command}");
        assert!(command.ends_with("scripts/guest-iperf' 10 '/a' '/b'"), "{command}");
        assert!(script().is_file() && guests.ready() == Ready::line(BEGINS));
    }
}

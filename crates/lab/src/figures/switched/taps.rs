//! Measures TCP between two network namespaces over taps of a switch or over the kernel's bridge.
//!
//! ```text
//!   namespace        measured middle, core 1          namespace
//!   iperf3 -c == t1 == ours, Open vSwitch, or == t2 == iperf3 -s
//!   core 0             a bridge over veth                core 0
//! ```
//!
//! All interfaces have all offloads that their side supports, so a packet of 64 KiB travels the
//! whole way without being segmented. The time is that of both cores, used by any program.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use burstline_testbed::{Host, Program};
use serde_json::Value;

use super::rivals::start_open_vswitch;
use super::{Context, pages_of_all};
use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::live::{Contender, CoreTime, Need, Road, missing, shell};
use crate::programs::our_program;
use crate::programs::{Bridge, Datapath, Ours, bridge};
use crate::scenario::machine::of_host;

const NEEDS: [Need; 2] =
    [Need { program: "iperf3", package: "iperf3" }, Need { program: "ip", package: "iproute2" }];
const SECONDS: u64 = 3;
/// Time until both ends have their addresses and the server listens.
const SETTLES: Duration = Duration::from_millis(500);
/// Interface names of the ends.
const ENDS: [&str; 2] = ["t1", "t2"];

/// The program that forwards packets.
enum Middle<'a> {
    /// Our switch, and its poll mode.
    Ours {
        program: &'a Path,
        poll: &'a str,
    },
    OpenVSwitch,
    Bridge,
}

/// `tap-iperf-ovs-dpdk` compares throughput, `tap-iperf-bridge` the CPU time.
pub(crate) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let (rival, poll, metric) = match name {
        "tap-iperf-bridge" => (Middle::Bridge, "adaptive", "gbit_per_busy_s"),
        _ => (Middle::OpenVSwitch, "busy", "gbps"),
    };
    let others = match rival {
        Middle::OpenVSwitch => Datapath::Dpdk.needs(),
        _ => bridge::NEEDS,
    };
    if let Some(why) = missing(&[&NEEDS, others].concat()) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?;
    let ours = Middle::Ours { program: &program, poll };
    let comparison = context.begin();
    let rounds = context.alternate(
        context.process_runs(),
        || turn(context, &ours),
        || turn(context, &rival),
    )?;
    if matches!(rival, Middle::OpenVSwitch) {
        rounds.have_pages()?;
    }
    let (ends, core) = (context.cores.producer, context.cores.consumer);
    let details = vec![
        format!(
            "iperf3, one connection for {SECONDS} s between two namespaces, both ends on core \
             {ends}; what was received"
        ),
        format!("ours: taps with offloads=on, --poll {poll}, on core {core}"),
        match rival {
            Middle::OpenVSwitch => {
                "peer: ports of type tap, userspace-tso-enable: the main \
                                    thread's, which may be on both cores"
            }
            _ => {
                "peer: a bridge over two veth pairs with their offloads, which works on the \
                  sender's core"
            }
        }
        .to_owned(),
        "busy seconds: those of both cores together".to_owned(),
    ];
    Ok(comparison.outcome_of_samples(metric, Better::Higher, rounds, details))
}

fn turn(context: &Context, middle: &Middle<'_>) -> Result<Sample, String> {
    let road = Road::new(context.cores)?;
    let (host, core) = (&road.bed().far, context.cores.consumer);
    let ends = [Host::new(), Host::new()];
    let [a, b] = ends.map(|end| end.map_err(|error| error.to_string()));
    let ends = [a?, b?];
    match middle {
        Middle::Ours { program, poll } => {
            let ports = ENDS.map(|end| format!("--port 'tap:{end}?offloads=on'")).join(" ");
            let words = format!("switch {ports} --poll {poll} --cores {core}");
            let ours = Ours::new(program, &words);
            let switch = Contender::start(&road, &core.to_string(), &ours, &context.stop)?;
            let sample = iperf(context, host, &ends)?;
            let pages = Some(switch.pages());
            let (said, _) = switch.end()?;
            crate::programs::Report::of_its_own(&said)?;
            Ok(Sample { pages, ..sample })
        }
        Middle::OpenVSwitch => {
            let programs = open_vswitch(context, &road)?;
            let sample = iperf(context, host, &ends)?;
            Ok(Sample { pages: Some(pages_of_all(&programs)), ..sample })
        }
        Middle::Bridge => {
            shell(host, &bridge_commands())?;
            iperf(context, host, &ends)
        }
    }
}

fn bridge_commands() -> String {
    let pair = |end: &str| {
        format!(
            "ip link add {end} type veth peer name p{end} && ip link set p{end} master br0 up && "
        )
    };
    format!("ip link add br0 type bridge && {} ip link set br0 up", ENDS.map(pair).concat())
}

fn open_vswitch(context: &Context, road: &Road) -> Result<Vec<Program>, String> {
    let port = |end| format!(" -- add-port br0 {end} -- set interface {end} type=tap");
    let bridge =
        Bridge { ports: ENDS.map(port).concat(), names: ENDS.to_vec(), settings: Bridge::TSO };
    start_open_vswitch(context, road, &bridge)
}

/// Gives each end its interface and sends from one to the other.
fn iperf(context: &Context, host: &Host, ends: &[Host; 2]) -> Result<Sample, String> {
    for (number, (name, end)) in ENDS.iter().zip(ends).enumerate() {
        shell(host, &format!("ip link set {name} netns {}", end.thread_id()))?;
        let address = number + 1;
        shell(
            end,
            &format!("ip address add 10.9.0.{address}/24 dev {name} && ip link set {name} up"),
        )?;
    }
    sleep(SETTLES);
    let core = context.cores.producer;
    let [client, server] = ends;
    let words = format!("exec taskset -c {core} iperf3 -s -1 > /dev/null 2>&1");
    let _server = server.start("sh", &["-c", &words], &[]).map_err(|error| error.to_string())?;
    sleep(SETTLES);
    let time = || {
        let mut all = CoreTime::default();
        for core in [context.cores.producer, context.cores.consumer] {
            all.add(&CoreTime::of(core)?);
        }
        Ok::<_, String>(all)
    };
    let seconds = if context.smoke { 1 } else { SECONDS };
    let before = time()?;
    let words = format!("exec taskset -c {core} iperf3 -c 10.9.0.2 -t {seconds} -J");
    let said = client.command("sh", &["-c", &words]).map_err(|error| error.to_string())?;
    let spent = time()?.since(&before).busy();
    let gbit = received_gbit(&said)?;
    let look = |end: &Host, whose, name: &str| of_host(end, whose, &[name.to_owned()]);
    let [from, to] = ENDS;
    let interfaces = [look(client, "sender", from), look(server, "receiver", to)].concat();
    let mut sample = Sample { interfaces, ..Sample::default() };
    sample.set_on("gbps", "Gbit/s", "payload", gbit / seconds as f64);
    sample.set_on("gbit_per_busy_s", "Gbit/busy s", "payload", gbit / spent);
    Ok(sample)
}

/// Returns the amount that the other end received. Source: iperf3's `-J`.
pub(super) fn received_gbit(said: &str) -> Result<f64, String> {
    let report: Value = serde_json::from_str(said).map_err(|_| format!("no report: {said}"))?;
    let bytes = report["end"]["sum_received"]["bytes"].as_f64();
    bytes.map(|bytes| bytes * 8.0 / 1e9).ok_or_else(|| format!("iperf3: {}", report["error"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_counts_and_an_error_is_told() {
        let said = r#"{"end":{"sum_sent":{"bytes":9e9},"sum_received":{"bytes":2.5e9}}}"#;
        assert_eq!(received_gbit(said), Ok(20.0));
        let error = received_gbit(r#"{"error":"unable to connect"}"#).unwrap_err();
        assert!(error.contains("unable to connect"), "{error}");
        assert!(received_gbit("").is_err());
    }
}

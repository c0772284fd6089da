//! Another sender and receiver: `dpdk-testpmd` over net_af_xdp exchanges packets with us.

use std::fs;

use crate::support::live::{Live, wait_until};
use crate::support::{Directory, PROGRAM, assert_closed, is_root, is_there, last_object};
use burstline_lab::programs::{self, Launch, Memory, Mode, Testpmd, Totals};
use burstline_skip::skip;
use burstline_sys::affinity::CoreId;
use burstline_testbed::{Bed, FAR, Host, NEAR, Program};

const PACKETS: u64 = 5_000;

/// Returns the bed, if both programs can run.
fn bed_or_skip() -> Option<Bed> {
    if !is_root() {
        skip("AF_XDP needs root");
        return None;
    }
    if !is_there("dpdk-testpmd") {
        skip("dpdk-testpmd is not installed: scripts/setup dpdk");
        return None;
    }
    Bed::or_skip()
}

/// Starts testpmd on a host, without huge pages, and returns when it forwards.
fn start(host: &Host, interface: &str, mode: Mode, output: &str) -> Program {
    let testpmd = Testpmd::over(CoreId(0), &[CoreId(0)], &[interface], mode);
    let testpmd = Testpmd { more: "--total-num-mbufs=16384".to_owned(), ..testpmd };
    let script = programs::script(&testpmd, &testpmd.command(Memory::Small), "0");
    let program = host.start("sh", &["-c", &script, output], &[]).unwrap();
    let ready = testpmd.ready();
    wait_until("testpmd forwards", || ready.lacks(host, &text(output)).is_none());
    program
}

fn text(output: &str) -> String {
    String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned()
}

/// Ends testpmd, and returns its totals.
fn end(program: Program, output: &str) -> Totals {
    let process = program.process_id();
    burstline_testbed::signal(process, "-INT").unwrap();
    program.finish().unwrap();
    Totals::parse(&text(output)).unwrap()
}

/// Waits until testpmd has had a tenth of a second of processor time more. It never sleeps, so then
/// it has taken all packets that were there.
fn wait_until_it_has_polled(program: &Program) {
    let stat = format!("/proc/{}/stat", program.process_id());
    // User and system time, in hundredths of a second, follow the name's bracket: proc_pid_stat(5).
    let hundredths = || -> u64 {
        let text = fs::read_to_string(&stat).unwrap();
        let fields = text.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
        fields.map(|time| time.parse::<u64>().unwrap()).sum()
    };
    let before = hundredths();
    wait_until("testpmd polls", || hundredths() >= before + 10);
}

#[test]
fn testpmd_receives_what_we_send_to_the_packet() {
    let Some(bed) = bed_or_skip() else { return };
    let directory = Directory::new("testpmd-receives");
    let output = directory.file("testpmd");
    let testpmd = start(&bed.far, FAR, Mode::Receive, &output);
    let packets = PACKETS.to_string();
    for sink in ["xdp", "afpacket"] {
        let to = format!("{sink}:{NEAR}");
        let load = ["--packets", &packets, "--rate", "10k", "--size", "random:64-1518", "--json"];
        let arguments = [&["generate", "-o", &to], &load[..]].concat();
        let sent = last_object(&bed.near.command(PROGRAM, &arguments).unwrap());
        assert_closed(&sent);
        assert_eq!(sent["total"]["delivered"], PACKETS, "{sink}: {sent}");
    }
    assert_eq!(bed.far.counts(FAR).received, 2 * PACKETS);
    wait_until_it_has_polled(&testpmd);
    assert_eq!(end(testpmd, &output).received, 2 * PACKETS);
}

#[test]
fn we_receive_what_testpmd_sends_to_the_packet() {
    let Some(bed) = bed_or_skip() else { return };
    for source in [format!("xdp:{FAR}"), format!("afpacket:{FAR}?direction=in")] {
        let directory = Directory::new("testpmd-sends");
        let output = directory.file("testpmd");
        let before = bed.near.counts(NEAR).sent;
        let live = Live::start(&bed, &directory, &format!("count {source}"));
        let testpmd = start(&bed.near, NEAR, Mode::Send(60), &output);
        let given = end(testpmd, &output).sent;
        let sent = bed.near.counts(NEAR).sent - before;
        live.interrupt();
        let (_, report) = live.end();
        assert!(sent > 0 && sent <= given, "{sent} {given}");
        assert_eq!(report["total"]["offered"], sent, "{source}: {report}");
    }
}

//! `burstline bounce` between interfaces, with frames that stay in place, and between files.
//!
//! ```text
//!   near host                                 far host
//!   v0: generate ------------------------->  v1 --.
//!                                                  burstline bounce
//!   w0: count --verify <------------------- w1 <--'
//! ```
//!
//! Needs root, or `unshare -Urn`; otherwise each live test is skipped.

use crate::support::live::{Live, wait_until};
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, assert_closed, is_root, last_object, run_json,
};
use burstline_skip::skip;
use burstline_sys::affinity::allowed_cores;
use burstline_testbed::{Bed, FAR, NEAR, Program};
use serde_json::Value;

/// Returns two cables, or `None` after reporting why not.
fn bed_or_skip() -> Option<Bed> {
    if !is_root() {
        skip("XDP takes root");
        return None;
    }
    let bed = Bed::or_skip()?;
    bed.connect("w0", "w1", 1500).unwrap();
    Some(bed)
}

/// Sends through an interface of the near host, at a rate without losses.
fn generate(bed: &Bed, interface: &str, packets: u64, flags: &str) -> Value {
    let line = format!("generate -o {interface} --packets {packets} {flags} --json");
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let sent = last_object(&bed.near.command(PROGRAM, &words).unwrap());
    assert_closed(&sent);
    assert_eq!(sent["total"]["delivered"], packets, "{sent}");
    sent
}

/// A running `count --verify` on the near host, and the path of its report.
struct Count {
    program: Program,
    report: String,
}

/// Starts `count --verify`, which writes its report into a file. Its ring of 64 MiB has room for
/// more than a second of any load here.
fn start_count(bed: &Bed, directory: &Directory, interface: &str, flags: &str) -> Count {
    let report = directory.file(&format!("count-{interface}"));
    let script = format!(
        "exec {PROGRAM} count 'afpacket:{interface}?direction=in&blocks=256' {flags} --json \
         --stats 20ms > $0"
    );
    let program = bed.near.start("sh", &["-c", &script, &report], &[]).unwrap();
    let text = || std::fs::read_to_string(&report).unwrap_or_default();
    wait_until("it counts", || text().contains('\n'));
    Count { program, report }
}

fn end_count(Count { program, report }: Count) -> (bool, Value) {
    let process = program.process_id();
    burstline_testbed::signal(process, "-INT").unwrap();
    let (is_success, _) = program.finish().unwrap();
    (is_success, last_object(&std::fs::read_to_string(report).unwrap()))
}

/// Fails unless every frame of every direction is in a ring or held by the program.
fn assert_frames(report: &Value, directions: usize) {
    let frames = report["bounce"]["frames"].as_array().unwrap();
    assert_eq!(frames.len(), directions, "{report}");
    for census in frames {
        let number = |key: &str| census[key].as_u64().unwrap();
        let found: u64 = ["fill", "rx", "held", "tx", "completion"].map(number).iter().sum();
        assert_eq!((number("frames"), number("elsewhere")), (found, 0), "{census}");
        let counted = |key: &str| census["counted"][key].as_i64().unwrap();
        assert!(counted("times") > 0 && counted("least") == 0, "{census}");
        assert!(counted("most") <= found as i64, "{census}");
    }
}

/// Waits until a job's last interval reports this many delivered packets.
fn wait_for(live: &Live, packets: u64) {
    let delivered = format!("\"delivered\":{packets},");
    wait_until(&delivered, || live.text().contains(&delivered));
}

fn bounced_intact(bed: &Bed, packets: u64, rate: &str, ports: &str) {
    let directory = Directory::new(&format!("bounce-{packets}"));
    let live = Live::start(bed, &directory, &format!("bounce {ports} --touch headers"));
    let count = start_count(bed, &directory, "w0", &format!("--verify --expect {packets}"));
    generate(bed, NEAR, packets, &format!("--rate {rate} --size random:64-1514 --flows 5"));
    wait_for(&live, packets);
    let report = live.stop();
    let total = &report["total"];
    assert_eq!((&total["offered"], &total["lost_total"]), (&packets.into(), &0.into()), "{report}");
    assert_eq!(total["bytes_copied"], 0);
    assert_eq!(report["bounce"]["touched"]["ip"], packets, "{report}");
    assert_frames(&report, 1);
    let (is_good, verdict) = end_count(count);
    assert!(is_good, "{verdict}");
    for fault in ["lost", "duplicates", "reordered", "corrupted"] {
        assert_eq!(verdict["verify"][fault], 0, "{fault}: {verdict}");
    }
    assert_eq!(verdict["verify"]["unique"], packets);
    // A row counts the bytes that came out at the other end.
    assert_eq!(total["bytes"], verdict["total"]["bytes"], "{report}");
}

#[test]
fn all_that_comes_in_leaves_once_in_order_and_intact() {
    let Some(bed) = bed_or_skip() else { return };
    // A frame for each packet: so a bounce that waits for a core loses none.
    bounced_intact(&bed, 15_000, "10k", &format!("'xdp:{FAR}?frames=16384' xdp:w1"));
    bounced_intact(&bed, 5_000, "10k", &format!("'xdp:{FAR}?mode=generic&frames=8192' xdp:w1"));
}

/// Deep rings, so that a second without a core causes no loss.
#[test]
fn a_million_packets_are_bounced_intact() {
    let Some(bed) = bed_or_skip() else { return };
    bounced_intact(&bed, 1_000_000, "50k", &format!("'xdp:{FAR}?frames=65536' xdp:w1"));
}

/// `cargo test --release -p burstline --test live bounce:: -- --ignored --nocapture`
#[test]
#[ignore = "searches for the highest rate without loss first: takes a quiet machine"]
fn a_million_packets_at_half_the_zero_loss_rate_are_bounced_intact() {
    if bed_or_skip().is_none() {
        return;
    }
    let what = ["--sizes", "64", "--tests", "throughput,half", "--trial", "3s"];
    let found = run_json(&[&["lab", "rfc2544", "--dut", "bounce"], &what[..]].concat(), 0);
    let size = &found["devices"][0]["sizes"][0];
    eprintln!("throughput {}\nhalf {}", size["throughput"], size["half"]);
    assert_eq!(size["half"]["sent"], 1_000_000, "{found}");
    for defect in ["lost", "reordered", "duplicates", "corrupted"] {
        assert_eq!(size["half"][defect], 0, "{defect}: {found}");
    }
}

#[test]
fn both_directions_have_a_row_each_and_frames_of_their_own_on_one_core_too() {
    let Some(bed) = bed_or_skip() else { return };
    for flags in ["", "--cores 0"] {
        let directory = Directory::new("bounce-both");
        // A frame for each packet of a direction: none is lost while the bounce waits for a core.
        let job = format!("bounce 'xdp:{FAR}?frames=8192' xdp:w1 --both {flags}");
        let live = Live::start(&bed, &directory, &job);
        let counts = [(NEAR, 3000), ("w0", 5000)].map(|(interface, packets)| {
            start_count(&bed, &directory, interface, &format!("--verify --expect {packets}"))
        });
        generate(&bed, NEAR, 5000, "--rate 10k");
        generate(&bed, "w0", 3000, "--rate 10k");
        wait_for(&live, 8000);
        let report = live.stop();
        let rows = report["ports"].as_array().unwrap();
        let row = |index: usize| (rows[index]["port"].as_str().unwrap(), &rows[index]["delivered"]);
        assert_eq!(row(0), ("xdp:v1@0 > xdp:w1@0", &5000.into()));
        assert_eq!(row(1), ("xdp:w1@0 > xdp:v1@0", &3000.into()));
        // A thread per direction, if there are enough cores.
        let threads = if flags.is_empty() { allowed_cores().unwrap().len().min(2) } else { 1 };
        assert_eq!(report["stages"].as_array().unwrap().len(), threads, "{report}");
        assert_frames(&report, 2);
        for (is_good, verdict) in counts.map(end_count) {
            assert!(is_good, "{verdict}");
        }
    }
}

#[test]
fn each_queue_goes_to_its_own_queue_at_the_other_end() {
    let Some(bed) = bed_or_skip() else { return };
    bed.connect_queues("q0", "q1", 1500, 2).unwrap();
    bed.connect_queues("r0", "r1", 1500, 2).unwrap();
    let directory = Directory::new("bounce-queues");
    let live = Live::start(&bed, &directory, "bounce xdp:q1 xdp:r1 --both");
    let count = start_count(&bed, &directory, "r0", "--verify --expect 3000");
    // An AF_XDP socket sends by its own queue, and veth receives by the queue of the same number.
    let loads = [("xdp:q0@0", 1000, "--flows 3"), ("xdp:q0@1", 2000, "--flows 5")];
    for (interface, packets, flags) in loads {
        generate(&bed, interface, packets, &format!("--rate 10k {flags}"));
    }
    generate(&bed, "xdp:r0@1", 500, "--rate 10k");
    wait_for(&live, 3500);
    let report = live.stop();
    let rows = report["ports"].as_array().unwrap();
    let mut found: Vec<_> =
        rows.iter().map(|row| (row["port"].as_str().unwrap(), row["delivered"].as_u64())).collect();
    found.sort_unstable();
    let wanted = [
        ("xdp:q1@0 > xdp:r1@0", 1000),
        ("xdp:q1@1 > xdp:r1@1", 2000),
        ("xdp:r1@0 > xdp:q1@0", 0),
        ("xdp:r1@1 > xdp:q1@1", 500),
    ];
    assert_eq!(found, wanted.map(|(row, packets)| (row, Some(packets))));
    assert_frames(&report, 4);
    let (is_good, verdict) = end_count(count);
    assert!(is_good, "{verdict}");
    // Two queues need two queues: a narrower interface is refused.
    let refused = bed.far.command(PROGRAM, &["bounce", "xdp:q1", "xdp:w1"]).unwrap_err();
    assert!(refused.to_string().contains("w1 has 1 receive queues"), "{refused}");
    let refused = bed.far.command(PROGRAM, &["bounce", "xdp:q1", "xdp:w1@0"]).unwrap_err();
    assert!(refused.to_string().contains("q1 has 2 queues: name one"), "{refused}");
}

#[test]
fn what_is_longer_than_a_frame_is_lost_by_name_and_fits_a_longer_one() {
    let Some(bed) = bed_or_skip() else { return };
    for (near, far) in [("j0", "j1"), ("k0", "k1")] {
        bed.connect(near, far, 3000).unwrap();
    }
    for (frame, delivered, too_long) in [(2048, 30, 50), (4096, 80, 0)] {
        let directory = Directory::new("bounce-jumbo");
        let job = format!("bounce 'xdp:j1?frame={frame}' xdp:k1");
        let live = Live::start(&bed, &directory, &job);
        let flags = format!("--verify --expect {delivered}");
        let count = start_count(&bed, &directory, "k0", &flags);
        generate(&bed, "j0", 50, "--rate 5k --size 2500");
        generate(&bed, "j0", 30, "--rate 5k --size 1000");
        wait_for(&live, delivered);
        live.interrupt();
        let (_, report) = live.end();
        let total = &report["total"];
        assert_eq!((&total["offered"], &total["delivered"]), (&80.into(), &delivered.into()));
        assert_eq!(total["lost"]["frame_too_small"], too_long, "{report}");
        assert_frames(&report, 1);
        assert_eq!(end_count(count).1["total"]["delivered"], delivered);
    }
}

#[test]
fn zero_copy_is_refused_where_a_driver_cannot_and_copied_where_it_was_not_asked_for() {
    let Some(bed) = bed_or_skip() else { return };
    let refused = "v1: its driver cannot write into our memory; use copy=copy or copy=auto";
    for arguments in [
        &["bounce", "xdp:v1?copy=zero", "xdp:w1"][..],
        &["generate", "-o", "xdp:v1?copy=zero", "--packets", "1"],
        &["count", "xdp:v1?copy=zero"],
    ] {
        let said = bed.far.command(PROGRAM, arguments).unwrap_err().to_string();
        assert!(said.contains(refused), "{arguments:?}: {said}");
    }
    let directory = Directory::new("bounce-copy");
    let live = Live::start(&bed, &directory, "bounce xdp:v1 xdp:w1");
    live.interrupt();
    let notes = live.end().1["notes"].to_string();
    assert!(notes.contains("copy mode"), "{notes}");
}

#[test]
fn addresses_are_swapped_on_the_way_back() {
    let Some(bed) = bed_or_skip() else { return };
    let directory = Directory::new("bounce-swap");
    let job = format!("bounce xdp:{FAR} xdp:{FAR} --rewrite swap --touch payload");
    let live = Live::start(&bed, &directory, &job);
    let filter = "--filter 'ether src 02:00:00:00:00:0b and ether dst 02:00:00:00:00:0a'";
    let count = start_count(&bed, &directory, NEAR, &format!("{filter} --expect 500"));
    let flags = "--rate 10k --src-mac 02:00:00:00:00:0a --dst-mac 02:00:00:00:00:0b";
    generate(&bed, NEAR, 500, flags);
    wait_for(&live, 500);
    let report = live.stop();
    assert!(report["bounce"]["touched"]["packets"] == 500, "{report}");
    let (is_good, counted) = end_count(count);
    assert!(is_good, "{counted}");
}

#[test]
fn what_the_exit_cannot_take_has_a_name() {
    let Some(bed) = bed_or_skip() else { return };
    let directory = Directory::new("bounce-lost");
    bed.far.command("ip", &["link", "set", "w1", "mtu", "1000"]).unwrap();
    let live = Live::start(&bed, &directory, &format!("bounce xdp:{FAR} xdp:w1"));
    generate(&bed, NEAR, 100, "--rate 10k --size 1014");
    generate(&bed, NEAR, 50, "--rate 10k --size 1514");
    wait_for(&live, 100);
    wait_until("it has noticed", || live.text().contains("\"too_long\":50"));
    // More packets than there are frames.
    bed.far.command("ip", &["link", "set", "w1", "down"]).unwrap();
    generate(&bed, NEAR, 3000, "--rate 10k");
    wait_until("it has noticed", || live.text().contains("\"link_down\":"));
    bed.far.command("ip", &["link", "set", "w1", "up"]).unwrap();
    generate(&bed, NEAR, 10, "--rate 1k");
    let report = live.stop();
    let (total, lost) = (&report["total"], &report["total"]["lost"]);
    assert_eq!((&total["offered"], &lost["too_long"]), (&3160.into(), &50.into()), "{report}");
    let number = |value: &Value| value.as_u64().unwrap();
    // Half of the frames are at the exit, and a quarter wait for it.
    assert!(number(&lost["link_down"]) >= 1, "{report}");
    assert!((110..=3110 - 512).contains(&number(&total["delivered"])), "{report}");
    assert_eq!(total["in_flight"], 0, "{report}");
    assert_frames(&report, 1);
}

#[test]
fn an_interface_that_is_deleted_ends_it_with_an_exact_ledger() {
    let Some(bed) = bed_or_skip() else { return };
    for gone in ["w0", NEAR] {
        let directory = Directory::new("bounce-gone");
        let live = Live::start(&bed, &directory, &format!("bounce xdp:{FAR} xdp:w1"));
        generate(&bed, NEAR, 500, "--rate 50k");
        bed.near.command("ip", &["link", "delete", gone]).unwrap();
        // `end` asserts that the ledger closes.
        let (is_success, report) = live.end();
        let error = report["errors"][0].as_str().unwrap_or_default();
        assert!(!is_success && error.contains("is gone"), "{report}");
        assert_eq!(
            (&report["total"]["offered"], &report["total"]["in_flight"]),
            (&500.into(), &0.into())
        );
        if gone == "w0" {
            bed.connect("w0", "w1", 1500).unwrap();
        }
    }
}

#[test]
fn a_kill_leaves_nothing_on_the_interfaces() {
    let Some(bed) = bed_or_skip() else { return };
    for _ in 0..2 {
        let directory = Directory::new("bounce-kill");
        let live = Live::start(&bed, &directory, &format!("bounce xdp:{FAR} xdp:w1 --both"));
        generate(&bed, NEAR, 100, "--rate 50k");
        let process = live.program.process_id();
        burstline_testbed::signal(process, "-KILL").unwrap();
        live.program.finish().unwrap();
        wait_until("no program is on an interface", || {
            !bed.far.command("ip", &["link"]).unwrap().contains("xdp")
        });
    }
}

#[test]
fn between_other_ports_the_sink_copies() {
    let directory = Directory::new("bounce-files");
    let output = directory.file("out.pcapng");
    let report = run_json(&["bounce", REAL, &output, "--touch", "payload"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], REAL_PACKETS);
    assert_eq!(report["total"]["bytes_copied"], report["total"]["bytes"]);
    assert_eq!(report["bounce"]["frames"], Value::Array(Vec::new()));
    let again = run_json(&["bounce", &output, "null:", "--touch", "payload"], 0);
    assert_eq!(again["bounce"]["touched"], report["bounce"]["touched"], "the same bytes");
    let addresses = "02:00:00:00:00:01,02:00:00:00:00:02";
    let rewritten = directory.file("rewritten.pcapng");
    let report = run_json(&["bounce", &output, &rewritten, "--rewrite", addresses], 0);
    assert_eq!(report["bounce"]["rewrite"], addresses);
    let filter = "ether src 02:00:00:00:00:01 and ether dst 02:00:00:00:00:02";
    let found = run_json(&["count", &rewritten, "--filter", filter], 0);
    assert_eq!(found["total"]["delivered"], REAL_PACKETS);
}

#[test]
fn packet_sockets_do_not_bounce_what_they_send() {
    let Some(bed) = Bed::or_skip() else { return };
    bed.connect("w0", "w1", 1500).unwrap();
    let directory = Directory::new("bounce-afpacket");
    let live = Live::start(&bed, &directory, &format!("bounce {FAR} w1 --both"));
    let count = start_count(&bed, &directory, "w0", "--verify --expect 2000");
    generate(&bed, NEAR, 2000, "--rate 10k");
    wait_for(&live, 2000);
    let report = live.stop();
    assert_eq!(report["ports"][0]["delivered"], 2000, "{report}");
    assert_eq!(report["ports"][1]["delivered"], 0, "{report}");
    let (is_good, verdict) = end_count(count);
    assert!(is_good, "{verdict}");
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    for (arguments, reason) in [
        (&["bounce", "xdp:nowhere", "xdp:v1"][..], "no interface 'nowhere'"),
        (&["bounce", "xdp:lo?mode=best", "xdp:lo"], "one of auto, native, generic"),
        (&["bounce", "xdp:lo?ring=64", "xdp:lo"], "has no key 'ring'"),
        (&["bounce", "gen:", "null:", "--rewrite", "1:2"], "swap, or source,destination"),
        (&["bounce", "gen:", "null:", "--steal"], "apply to xdp: ports"),
        (&["bounce", "xdp:lo", "xdp:lo"], "programs of the host use it"),
    ] {
        let run = crate::support::run(arguments);
        assert!(
            run.code != Some(0) && run.stderr.contains(reason),
            "{arguments:?}: {}",
            run.stderr
        );
    }
}

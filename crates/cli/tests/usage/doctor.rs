//! The output of `doctor ports` matches what opening finds, for every user and environment.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use burstline_afpacket::Sender;
use burstline_port::{Address, OpenOptions, PortError, Source, open_sink, open_sources};
use burstline_skip::{skip, without};
use burstline_sys::privileges;
use burstline_testbed::{Bed, FAR, Frames, Host, NEAR};
use serde_json::Value;

use crate::support::{PROGRAM, Run, last_object, other_or_skip};

/// Returns the program's report on a host.
fn doctor(host: &Host, flags: &[&str]) -> Value {
    let text = host.command(PROGRAM, &[&["doctor", "ports", "--json"], flags].concat()).unwrap();
    last_object(&text)
}

fn row<'a>(report: &'a Value, port: &str) -> &'a Value {
    let rows = report["ports"].as_array().unwrap().iter();
    let mut rows = rows.filter(|row| row["port"] == port);
    rows.next().unwrap_or_else(|| panic!("no {port}: {report}"))
}

fn open(host: &Host, port: &str, may_steal: bool) -> Result<Vec<Box<dyn Source>>, PortError> {
    let address: Address = port.parse().unwrap();
    let options = OpenOptions { may_steal, ..OpenOptions::default() };
    host.run(move || open_sources(&address, &options))
}

/// Opens every port of the report on the same host. Those that open do so with their flags and not
/// without; the others fail.
fn assert_true(host: &Host, report: &Value) {
    let rows = report["ports"].as_array().unwrap();
    for row in rows {
        let port = row["port"].as_str().unwrap();
        let can_open = row["can_open"].as_bool().unwrap();
        match row["scheme"].as_str().unwrap() {
            "afpacket" | "xdp" => {
                let needs = row["needs"].as_array().unwrap();
                let may_steal = needs.iter().any(|need| need == "--steal");
                let opened = open(host, port, may_steal);
                assert_eq!(opened.is_ok(), can_open, "{row}: {:?}", opened.err());
                if can_open {
                    let queues = opened.map_or(0, |ports| ports.len()) as u64;
                    let expected = if row["scheme"] == "xdp" { &row["queues"] } else { &1.into() };
                    assert_eq!(Some(queues), expected.as_u64(), "{row}");
                }
                if may_steal {
                    assert!(open(host, port, false).is_err(), "{row}");
                }
                assert!(can_open || row["why_not"].is_string(), "{row}");
            }
            "inject" => {
                let address: Address = port.parse().unwrap();
                let opened = host.run(move || open_sink(&address, &OpenOptions::default()));
                assert_eq!(opened.is_ok(), can_open, "{row}: {:?}", opened.err());
                assert!(can_open || row["why_not"].is_string(), "{row}");
            }
            "tap" => {
                assert_eq!(open(host, "tap:t0", false).is_ok(), can_open, "{row}");
                assert!(can_open || row["why_not"].is_string(), "{row}");
            }
            "null" => assert!(
                can_open && open_sink(&port.parse().unwrap(), &OpenOptions::default()).is_ok()
            ),
            "dpdk" => {
                assert_eq!(can_open, cfg!(feature = "dpdk"), "{row}");
                assert!(can_open || row["why_not"].is_string(), "{row}");
                assert!(can_open || open(host, "dpdk:net_null0", false).is_err(), "{row}");
            }
            _ => assert!(can_open, "{row}"),
        }
    }
    let names: Vec<_> = rows.iter().map(|row| row["port"].as_str().unwrap()).collect();
    for name in ["file:", "gen:", "null:"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn what_it_says_is_what_opening_finds() {
    let Some(bed) = Bed::or_skip() else { return };
    // One that is down, one with a route that the host needs, and one that is free.
    bed.connect("w0", "w1", 1500).unwrap();
    bed.connect("x0", "x1", 1500).unwrap();
    bed.far.command("ip", &["link", "set", "w1", "down"]).unwrap();
    bed.far.command("ip", &["route", "add", "default", "dev", FAR]).unwrap();
    let report = doctor(&bed.far, &[]);
    assert_true(&bed.far, &report);
    let down = &row(&report, "afpacket:w1")["remarks"][0];
    assert_eq!(down["mend"], "ip link set dev w1 up", "{report}");
    if row(&report, "xdp:x1")["can_open"] == false {
        assert!(row(&report, "xdp:x1")["why_not"].as_str().unwrap().contains("CAP_BPF"));
        return without("XDP takes root: --probe and a taken interface are not tried");
    }
    for own in ["xdp:v1", "xdp:lo"] {
        assert_eq!(row(&report, own)["needs"][0], "--steal", "{report}");
    }
    assert_eq!(row(&report, "xdp:w1")["needs"].as_array().unwrap().len(), 0);

    let probed = doctor(&bed.far, &["--probe"]);
    assert_true(&bed.far, &probed);
    assert_eq!(row(&probed, "xdp:v1")["mode_tried"], false);
    // The mode reported by the driver, and the mode found by trying.
    for (report, is_tried) in [(&report, false), (&probed, true)] {
        let free = row(report, "xdp:x1");
        assert_eq!(free["mode_tried"], is_tried, "{free}");
        assert!(free["mode"] == "native" || free["mode"].is_null(), "{free}");
    }

    // Another socket holds it.
    let held = open(&bed.far, "xdp:x1", false).unwrap();
    let report = doctor(&bed.far, &["x1"]);
    let taken = row(&report, "xdp:x1");
    assert!(taken["attached_program"].as_u64() > Some(0), "{taken}");
    assert!(taken["mend"].as_str().unwrap().contains("ip link set dev x1 xdp off"), "{taken}");
    assert_true(&bed.far, &report);
    drop(held);
}

#[test]
fn nobody_notices_that_it_looks() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut watcher = open(&bed.far, "afpacket:v1?promisc=off", false).unwrap().remove(0);
    let is_done = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            for _ in 0..10_000 {
                if is_done.load(Relaxed) {
                    // The flag carries no memory: the sum has all frames sent.
                    break;
                }
                let frames = Frames { first: sent, ..Frames::new(100, 60) };
                sent += bed
                    .near
                    .run(move || frames.send(&mut Sender::open(NEAR, true).unwrap()).unwrap());
            }
            sent
        });
        let report = doctor(&bed.far, &[]);
        is_done.store(true, Relaxed);
        assert_eq!(row(&report, "afpacket:v1")["can_open"], true);
        sender.join().unwrap()
    });
    watcher.finish().unwrap();
    assert_eq!((watcher.account().offered, bed.far.counts(FAR).received), (sent, sent));
    assert_eq!(bed.far.counts(FAR).received_dropped, 0);
}

#[test]
fn without_capabilities_it_says_which() {
    let Some(bed) = Bed::or_skip() else { return };
    // Processes started from this thread have no rights either.
    bed.far.run(|| privileges::give_up().unwrap());
    let report = doctor(&bed.far, &[]);
    assert_true(&bed.far, &report);
    for (port, capability) in [("afpacket:v1", "CAP_NET_RAW"), ("xdp:v1", "CAP_BPF")] {
        let row = row(&report, port);
        assert_eq!(row["can_open"], false, "{row}");
        assert!(row["why_not"].as_str().unwrap().contains(capability), "{row}");
        assert!(row["mend"].as_str().unwrap().contains("setcap"), "{row}");
    }
    assert_eq!(report["machine"]["capabilities"]["CAP_NET_RAW"], false);
    let text = bed.far.command(PROGRAM, &["doctor", "ports", "v1"]).unwrap();
    assert!(text.contains("fix: ") && text.contains("no capability"), "{text}");
}

#[test]
fn in_a_container_bpf_is_out_of_reach() {
    let inside = |arguments: &[&str]| -> Option<Run> {
        let run = other_or_skip("unshare", &[&["-Urn", PROGRAM], arguments].concat())?;
        if run.stderr.starts_with("unshare") {
            skip(run.stderr);
            return None;
        }
        Some(run)
    };
    let Some(run) = inside(&["doctor", "ports", "--json"]) else { return };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report = last_object(&run.stdout);
    assert_eq!(report["machine"]["capabilities_machine_wide"], false);
    let (packet, xdp) = (row(&report, "afpacket:lo"), row(&report, "xdp:lo"));
    assert_eq!((&packet["can_open"], &xdp["can_open"]), (&true.into(), &false.into()), "{report}");
    assert!(xdp["why_not"].as_str().unwrap().contains("user namespace"), "{xdp}");
    for (port, code) in [("afpacket:lo", 0), ("xdp:lo", 1)] {
        let run = inside(&["count", port, "--duration", "50ms"]).unwrap();
        assert_eq!(run.code, Some(code), "{port}: {}", run.stderr);
    }
}

#[test]
fn people_get_a_table_and_every_interface_is_in_it() {
    let Some(bed) = Bed::or_skip() else { return };
    let text = bed.far.command(PROGRAM, &["doctor", "ports"]).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().split_whitespace().eq(["port", "opens", "how"]), "{text}");
    for port in ["afpacket:lo", "afpacket:v1", "file:", "xdp:lo", "xdp:v1"] {
        let line = text.lines().find(|line| line.starts_with(port)).unwrap();
        let verdict = line.split_whitespace().nth(1).unwrap();
        assert!(["yes", "with", "no"].contains(&verdict), "{line}");
    }
    assert!(text.lines().any(|line| line.starts_with("kernel ")), "{text}");
}

//! The program on live interfaces: it drops unneeded privileges, and sleeps without packets.
//!
//! Needs root, or `unshare -Urn`; otherwise each test is skipped.

use std::fs;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use crate::support::live::{Live, send_frames, wait_until};
use crate::support::{Directory, PROGRAM, assert_closed, is_root, judged_packets, last_object};
use burstline_afpacket::socket_to_inherit;
use burstline_skip::skip;
use burstline_sys::users;
use burstline_testbed::{Bed, FAR, NEAR};

const FRAMES: u64 = 10_000;

#[test]
fn a_count_without_any_right_delivers_everything_and_sees_its_interface_go() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-count");
    let live = Live::start(&bed, &directory, &format!("count afpacket:{FAR}"));
    // The printing, the waiting and the polling thread.
    live.wait_without_rights(3);
    let sent = send_frames(&bed, FRAMES);
    bed.near.command("ip", &["link", "delete", NEAR]).unwrap();
    let (is_success, report) = live.end();
    assert!(!is_success, "an interface that is gone is a failure: {report}");
    assert!(report["errors"][0].as_str().unwrap().contains(FAR), "{report}");
    assert_eq!((sent, &report["total"]["delivered"]), (FRAMES, &FRAMES.into()));
    assert_eq!(report["total"]["offered"], FRAMES);
}

#[test]
fn a_job_that_injects_may_still_run_its_program_without_rights() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-inject");
    let job = format!("generate -o inject:{FAR} --rate 20k");
    let live = Live::start(&bed, &directory, &job);
    wait_until("its filter stands", || live.statuses("Seccomp").iter().all(|mode| mode == "2"));
    let report = live.stop();
    assert!(report["total"]["delivered"].as_u64() > Some(0), "{report}");
}

#[test]
fn packets_have_a_time_each_where_somebody_looks_at_it() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-times");
    for (job, source, clock) in [
        ("count", "xdp:", "poll"),
        ("count --verify", "xdp:", "program"),
        ("count", "xdp:?timestamps=program", "program"),
        ("capture -w null:", "xdp:", "program"),
        ("capture -w null:", "xdp:?timestamps=poll", "poll"),
        ("balance --workers 2", "xdp:", "poll"),
        ("balance --workers 2 -o null:", "xdp:", "program"),
    ] {
        let source = source.replace("xdp:", &format!("xdp:{FAR}"));
        let live = Live::start(&bed, &directory, &format!("{job} '{source}'"));
        send_frames(&bed, 10);
        wait_until("they came", || live.text().contains("\"delivered\":10"));
        live.interrupt();
        let (_, report) = live.end();
        assert_eq!(report["timestamp"]["source"], clock, "{job} {source}");
        assert_eq!(report["total"]["delivered"], 10, "{job} {source}");
    }
}

#[test]
fn what_two_ports_say_of_one_interface_is_said_once() {
    let Some(bed) = Bed::or_skip() else { return };
    let job = bed.far.run(|| {
        let mut command = Command::new(PROGRAM);
        command.args(["count", FAR, FAR]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    let rings = || {
        let sockets = bed.far.command("cat", &["/proc/net/packet"]).unwrap();
        let protocols = sockets.lines().skip(1).map(|line| line.split_whitespace().nth(3));
        protocols.filter(|protocol| *protocol == Some("0003")).count()
    };
    wait_until("two rings are on the interface", || rings() >= 2);
    bed.near.command("ip", &["link", "delete", NEAR]).unwrap();
    let output = job.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let listening = format!("listening on {FAR} (Ethernet, snaplen ");
    assert_eq!(said.lines().filter(|line| line.contains(&listening)).count(), 2, "{said}");
    let gone = said.lines().filter(|line| line.contains("is gone")).count();
    assert!(gone == 2 && said.contains(" UTC: "), "as it happens, and at the end: {said}");
}

#[test]
fn a_capture_without_any_right_writes_its_file_or_its_pipe_to_the_end() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-capture");
    let file = directory.file("a.pcapng");
    let with_log = ("--pages 4k --buffer 8m", &["receive", "record"][..]);
    let in_place = ("--buffer 8m", &["record-in-place"][..]);
    let jobs = [with_log, in_place].map(|way| [(way, &file[..]), (way, "-")]);
    for ((options, stages), write) in jobs.into_iter().flatten() {
        let job = format!("capture {FAR} {options} -w {write}");
        let live = Live::start(&bed, &directory, &job);
        // As above, and the syncing thread.
        live.wait_without_rights(3 + stages.len());
        let sent = send_frames(&bed, FRAMES);
        live.interrupt();
        let output = live.output.clone();
        let (is_success, report) = live.end();
        assert!(is_success, "{report}");
        assert_eq!((sent, &report["total"]["delivered"]), (FRAMES, &FRAMES.into()));
        let names = report["stages"].as_array().unwrap().iter().map(|stage| &stage["name"]);
        assert!(names.eq(stages.iter()), "{report}");
        let written = if write == "-" { &output } else { &file };
        for (who, count) in judged_packets(written) {
            assert_eq!(count, FRAMES, "{who}");
        }
    }
}

#[test]
fn a_capture_in_place_ends_at_its_limit_and_with_its_interface() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-in-place");
    let file = directory.file("a.pcapng");
    let limit = 1234;
    let job = format!("capture {FAR} --packets {limit} -w {file}");
    let live = Live::start(&bed, &directory, &job);
    live.wait_without_rights(4);
    send_frames(&bed, FRAMES);
    let (is_success, report) = live.end();
    assert!(is_success, "{report}");
    assert_eq!(report["total"]["delivered"], limit);
    assert_eq!(report["memory"]["log_bytes"], 0);
    assert_closed(&report);
    for (who, count) in judged_packets(&file) {
        assert_eq!(count, limit, "{who}");
    }
    let live = Live::start(&bed, &directory, &format!("capture {FAR} -w {file}"));
    live.wait_without_rights(4);
    let sent = send_frames(&bed, FRAMES);
    bed.near.command("ip", &["link", "delete", NEAR]).unwrap();
    let (is_success, report) = live.end();
    assert!(!is_success, "{report}");
    assert_eq!((sent, &report["total"]["delivered"]), (FRAMES, &FRAMES.into()));
    assert_closed(&report);
    for (who, count) in judged_packets(&file) {
        assert_eq!(count, FRAMES, "{who}");
    }
}

#[test]
fn rights_are_kept_where_that_is_asked_for() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-kept");
    let live = Live::start(&bed, &directory, &format!("count {FAR} --keep-privileges"));
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    // The second thread only handles signals.
    wait_until("its threads have started", || {
        live.statuses("CapEff") == [own, "0000000000000000", own, own]
    });
    live.stop();
}

#[test]
fn a_port_that_root_has_opened_is_read_by_somebody_else() {
    let Some(bed) = Bed::or_skip() else { return };
    if !is_root() || users::account("nobody").is_none() {
        return skip("it takes root, and a user nobody");
    }
    let directory = Directory::new("live-somebody");
    let file = directory.file("x.pcapng");
    // Either ring has room for all frames.
    for (scheme, ring) in [("afpacket", ""), ("xdp", "?frames=16384")] {
        let job = format!("capture '{scheme}:{FAR}{ring}' --packets {FRAMES} -w {file} -Z nobody");
        let live = Live::start(&bed, &directory, &job);
        wait_until("nobody is root", || {
            live.statuses("Uid").iter().all(|numbers| numbers.split('\t').all(|one| one != "0"))
        });
        send_frames(&bed, FRAMES);
        let (is_success, report) = live.end();
        assert!(is_success, "{scheme}: {report}");
        assert_eq!(report["total"]["delivered"], FRAMES, "{scheme}");
    }
}

#[test]
fn a_thread_that_has_nothing_to_do_sleeps_and_is_woken_by_packets() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-poll");
    for mode in ["adaptive", "interrupt", "busy"] {
        let live = Live::start(&bed, &directory, &format!("count {FAR} --poll {mode}"));
        let sent = send_frames(&bed, FRAMES);
        let delivered = format!("\"delivered\":{sent},");
        wait_until("all is delivered", || live.text().contains(&delivered));
        let report = live.stop();
        assert!(report["poll"] == mode, "{report}");
        let stage = &report["stages"][0];
        let slept = stage["sleeps"].as_u64().unwrap();
        assert_eq!(slept > 0, mode != "busy", "{stage}");
        // A packet that arrives while it sleeps wakes it; the first packet is one.
        assert_eq!(stage["wakes"].as_u64().unwrap() > 0, mode != "busy", "{stage}");
    }
}

#[test]
fn packets_that_nobody_needs_at_once_gather_between_sleeps() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-gather");
    for (job, gathers) in [
        ("count", true),
        ("capture -w null:", true),
        ("flows", true),
        ("count --poll interrupt", false),
        ("count --poll busy", false),
    ] {
        let live = Live::start(&bed, &directory, &format!("{job} xdp:{FAR}"));
        let sink = format!("afpacket:{NEAR}");
        // A packet each 10 us: a thread that spins for 50 us after each would never sleep.
        let words = ["generate", "-o", &sink, "--rate", "100k", "--packets", "50000", "-q"];
        bed.near.command(PROGRAM, &words).unwrap();
        let report = live.stop();
        let stage = &report["stages"][0];
        let [slept, woken] = ["sleeps", "wakes"].map(|key| stage[key].as_u64().unwrap());
        // A sleep that a packet ends is followed by one that none ends, at most.
        assert_eq!(slept > 2 * woken + 100, gathers, "{job}: {stage}");
    }
}

#[test]
fn what_the_loopback_carries_is_counted_once() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-loopback");
    for port in ["lo", "'afpacket:lo?direction=out'"] {
        let live = Live::start(&bed, &directory, &format!("count {port}"));
        bed.far.command("ping", &["-q", "-c", "5", "-i", "0.01", "127.0.0.1"]).unwrap();
        // Requests and replies.
        wait_until("all is counted", || live.text().contains("\"delivered\":10,"));
        let report = live.stop();
        assert!(report["total"]["offered"] == 10, "{port}: {report}");
    }
}

/// Copies the program to a place where any user may read it.
fn readable_program(directory: &Directory) -> String {
    let copy = directory.file("burstline");
    // Not by this process: a child of another test may inherit our open descriptor for writing.
    assert_eq!(crate::support::other("cp", &[PROGRAM, &copy]).unwrap().code, Some(0));
    copy
}

#[test]
fn an_ordinary_user_counts_in_a_network_of_his_own() {
    // Whatever user runs the tests, this is user 65534, with no rights outside its own namespaces.
    let wrapper = ["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urn", "--"];
    let mut probe = Command::new("setpriv");
    probe.args(wrapper).arg("true");
    let is_possible = probe.output().is_ok_and(|output| output.status.success());
    if !is_possible {
        let why = "user namespaces are not permitted here, or this user may not become another";
        return skip(why);
    }
    let directory = Directory::new("live-ordinary");
    let program = readable_program(&directory);
    // Ping until it has its 20 packets, since its start time is unknown.
    let script = format!(
        "ip link set lo up; {program} count lo --packets 20 --json & \
         while kill -0 $! 2> /dev/null; do ping -q -c 1 127.0.0.1 > /dev/null; done; wait $!"
    );
    let output =
        Command::new("setpriv").args(wrapper).args(["sh", "-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report = last_object(&text);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 20, "{report}");
}

#[test]
fn a_user_without_rights_counts_on_a_socket_that_he_was_left() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("live-left");
    let (program, frames) = (readable_program(&directory), FRAMES.to_string());
    let count = move |number: i32| {
        let port = format!("afpacket:{FAR}?direction=in&fd={number}");
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", "--bounding-set", "-all", "--"]);
        command.args([&program, "count", &port, "--json", "--packets", &frames]);
        command.args(["--duration", "60s"]);
        command
    };
    if !crate::support::is_root() {
        return skip("only root can start programs as another user");
    }
    let wrong = bed.far.run({
        let count = count.clone();
        move || count(0).stdin(Stdio::null()).output().unwrap()
    });
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("it must be socket(AF_PACKET, SOCK_RAW, 0)"), "{said}");
    let job = bed.far.run(move || {
        let socket = socket_to_inherit().unwrap();
        let mut command = count(socket.as_raw_fd());
        command.stdout(Stdio::piped()).spawn().unwrap()
    });
    let is_ringed = || {
        let sockets = bed.far.command("cat", &["/proc/net/packet"]).unwrap();
        sockets.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some("0003"))
    };
    wait_until("the ring is on the interface", is_ringed);
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    let output = job.wait_with_output().unwrap();
    let report = last_object(&String::from_utf8_lossy(&output.stdout));
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], FRAMES, "{report}");
}

//! Readers of a live capture: a lossless one, a stopped lossy one and a killed one; and the
//! programs of the page on sensors.
//!
//! Needs root, or `unshare -Urn`; otherwise each test is skipped.

use std::fs;

use crate::support::live::{send_frames, wait_until};
use crate::support::sensors::{
    Installed, QUESTIONS, ask_for_names, interrupt, is_suricata_there, line_of_page, rename_far,
};
use crate::support::sharing::{Names, reader_of, start};
use crate::support::{other_or_skip, selected};
use burstline_skip::without;
use burstline_testbed::{Bed, FAR};

const FRAMES: u64 = 20_000;

#[test]
fn a_stopped_reader_and_a_killed_one_cost_the_others_nothing() {
    let Some(bed) = Bed::or_skip() else { return };
    let names = Names::new("shared-live");
    // 16 segments: a few thousand packets.
    let job = ["capture", FAR, "--publish", "tap?lossless=forever", "--buffer", "1m"];
    let shape = ["--segment", "64k", "--pages", "4k", "--json"];
    let mut command = names.command(&[&job[..], &shape].concat());
    // On the far host, which has the interface.
    let report = names.0.file("published");
    let publisher = bed.far.run(move || start(&mut command, report));
    names.wait_for_readers("tap", 0);
    let lossless = names.start(&["count", "log:tap?lossless&follow=no"]);
    let stopped = names.start(&["count", "log:tap?follow=no"]);
    let killed = names.start(&["count", "log:tap"]);
    names.wait_for_readers("tap", 3);

    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    names.wait_until_read("tap", FRAMES);
    stopped.signal("-STOP");
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    let doomed = killed.pid();
    killed.kill();
    names.wait_for_readers("tap", 2);
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    let lossless_pid = lossless.pid();
    names.wait_for("tap", "the lossless reader has read all", |found| {
        let readers = found["readers"].as_array().unwrap();
        readers.iter().any(|one| one["pid"] == lossless_pid && one["delivered"] == 3 * FRAMES)
    });
    stopped.signal("-CONT");
    // It counts missed packets when it finds the next packet.
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    names.wait_until_read("tap", 4 * FRAMES);
    publisher.signal("-INT");

    let (lossless_pid, stopped_pid) = (lossless.pid(), stopped.pid());
    let (published, lossless, stopped) = (publisher.end(), lossless.end(), stopped.end());
    let all = 4 * FRAMES;
    assert_eq!(
        (&published["total"]["offered"], &published["published"]["packets"][0]),
        (&all.into(), &all.into())
    );
    assert_eq!(published["published"]["ending"], "stopped");
    let seen = (&published["published"]["readers_total"], &published["published"]["readers_peak"]);
    assert_eq!(seen, (&3.into(), &3.into()));
    let total = &lossless["total"];
    assert_eq!((&total["offered"], &total["delivered"]), (&all.into(), &all.into()));
    let total = &stopped["total"];
    let missed = total["lost"]["reader_overrun"].as_u64().unwrap();
    assert_eq!(total["offered"], all);
    assert_eq!(total["delivered"], all - missed);
    // All of two sendings, and of the third the packets before it had a core again.
    assert!((1..=3 * FRAMES).contains(&missed), "{stopped}");
    for (pid, missed) in [(lossless_pid, 0), (stopped_pid, missed)] {
        let told = reader_of(&published, pid);
        assert_eq!((&told["delivered"], &told["missed"]), (&(all - missed).into(), &missed.into()));
    }
    let told = reader_of(&published, doomed);
    assert_eq!(told["there"], false);
    let read = told["delivered"].as_u64().unwrap() + told["missed"].as_u64().unwrap();
    assert!((FRAMES..=2 * FRAMES).contains(&read), "{told}");
}

/// Programs that capture by libpcap read a balancer's log, with the page's commands.
#[test]
fn the_programs_of_the_page_read_what_a_balancer_publishes() {
    for program in ["tcpdump", "tshark", "dumpcap"] {
        if other_or_skip(program, &["--version"]).is_none() {
            return;
        }
    }
    let Some(bed) = Bed::or_skip() else { return };
    rename_far(&bed);
    let names = Names::new("shared-page");
    let installed = Installed::new(&names.0);
    let start = |name: &str, command: &str, ready: &str| {
        installed.start(&bed.far, name, command.trim_end_matches(" &"), ready)
    };
    let of_page = |line: &str| line_of_page(&format!("$ {line}"))[2..].to_owned();
    // As Suricata's command requires it.
    let publish = of_page("burstline balance eth0 --workers 2 --publish tap");
    let publish = publish.replace("--publish tap", "--publish 'tap?lossless=5s'");
    let balance = start("balance", &publish, "");
    names.wait_for_readers("tap", 0);
    let mut programs = vec![
        start("tcpdump", &of_page("burstline-run tcpdump -n -i burst:tap@0"), "listening on"),
        start("tshark", &of_page("burstline-run tshark -i burst:tap -Y dns"), "Capturing on"),
        start("dumpcap", &of_page("burstline-run dumpcap -i burst:tap -w"), "File: all.pcapng"),
    ];
    let log = names.0.file("log");
    let mut readers = 5; // one log each
    if is_suricata_there() {
        let rule = "alert dns any any -> any any (msg:\"a question\"; dns.query; \
                    content:\"example\"; sid:1;)\n";
        fs::write(names.0.file("rules"), rule).unwrap();
        fs::create_dir(&log).unwrap();
        let command = line_of_page("burstline-run suricata --pcap='burst:tap@0?lossless'");
        let command = command.replace("/var/log/suricata/0", &log) + " -S rules";
        programs.push(start("suricata", &command, "Engine started"));
        readers += 1;
    } else {
        without("Suricata is not installed: scripts/setup sensors");
    }
    names.wait_for_readers("tap", readers);

    let server = ask_for_names(&bed);
    let questions = QUESTIONS[0] * QUESTIONS[1];
    names.wait_until_published("tap", questions);
    names.wait_for("tap", "all is read", |found| {
        let has_read = |reader: &serde_json::Value| reader["lag"] == 0;
        found["readers"].as_array().unwrap().iter().all(has_read)
    });
    let suricata = programs.split_off(3);
    programs.into_iter().for_each(interrupt);
    let lines = |name: &str, text: &str| installed.printed(name).matches(text).count() as u64;
    let of_worker_0 = lines("tcpdump", "10.77.0.2.53: ");
    assert!(of_worker_0 > 0 && of_worker_0 < questions, "{of_worker_0}");
    assert_eq!(lines("tshark", " DNS "), questions);
    assert_eq!(selected(&names.0.file("all.pcapng"), "udp port 53"), questions);
    for suricata in suricata {
        let alerts = || fs::read_to_string(format!("{log}/fast.log")).unwrap_or_default();
        wait_until("it has alerted on all of worker 0's", || {
            alerts().lines().count() as u64 >= of_worker_0
        });
        interrupt(suricata);
        assert_eq!(alerts().lines().count() as u64, of_worker_0);
    }
    interrupt(balance);
    drop(server);
}

//! Three readers of a live capture: one lossless, one lossy and stopped, one killed.
//!
//! Needs root, or `unshare -Urn`; without, each test says that it was skipped.

mod support;

use burstline_afpacket::Sender;
use burstline_testbed::{Bed, FAR, Frames, NEAR};
use support::sharing::{Names, reader_of, start};

const FRAMES: u64 = 20_000;

/// Sends numbered frames from the near host.
fn send(bed: &Bed) {
    let sent = bed.near.run(|| {
        let mut sender = Sender::open(NEAR, true).unwrap();
        Frames::new(FRAMES, 100).send(&mut sender).unwrap()
    });
    assert_eq!(sent, FRAMES);
}

#[test]
fn a_stopped_reader_and_a_killed_one_cost_the_others_nothing() {
    let name = "a_stopped_reader_and_a_killed_one_cost_the_others_nothing";
    let Some(bed) = Bed::or_skip(name) else { return };
    let names = Names::new("shared-live");
    // 16 segments: a few thousand packets.
    let job = ["capture", FAR, "--publish", "tap?lossless=forever", "--buffer", "1m"];
    let shape = ["--segment", "64k", "--pages", "4k", "--json"];
    let mut command = names.command(&[&job[..], &shape].concat());
    // On the far host, whose interface it is.
    let report = names.0.file("published");
    let publisher = bed.far.run(move || start(&mut command, report));
    names.wait_for_readers("tap", 0);
    let lossless = names.start(&["count", "log:tap?lossless&follow=no"]);
    let stopped = names.start(&["count", "log:tap?follow=no"]);
    let killed = names.start(&["count", "log:tap"]);
    names.wait_for_readers("tap", 3);

    send(&bed);
    names.wait_until_read("tap", FRAMES);
    stopped.signal("-STOP");
    send(&bed);
    let doomed = killed.pid();
    killed.kill();
    names.wait_for_readers("tap", 2);
    send(&bed);
    let lossless_pid = lossless.pid();
    names.wait_for("tap", "the lossless reader has read all", |found| {
        let readers = found["readers"].as_array().unwrap();
        readers.iter().any(|one| one["pid"] == lossless_pid && one["delivered"] == 3 * FRAMES)
    });
    stopped.signal("-CONT");
    // What it has missed is known when it finds the next packet.
    send(&bed);
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
    // All of two sendings, and of the third what came before it had a core again.
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

//! The bed: hosts reach each other, counts are exact, and nothing is left.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use burstline_afpacket::Sender;
use burstline_testbed::{Bed, BedError, FAR, FAR_ADDRESS, Frames, NEAR, sequence_of, serve_bytes};

const CHILD: &str = "BURSTLINE_TEST_BED";

/// Whether this process is still running. A zombie is not.
fn is_alive(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Source: proc_pid_stat(5); the name before the state may contain parentheses.
    status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until_dead(process: &str) {
    let start = Instant::now();
    while is_alive(process) {
        assert!(start.elapsed() < Duration::from_secs(20), "process {process} lives on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn hosts_reach_each_other() {
    let Some(bed) = Bed::or_skip() else { return };
    let text = bed.near.command("ping", &["-c", "1", "-W", "5", FAR_ADDRESS]).unwrap();
    assert!(text.contains(" 0% packet loss"), "{text}");
    let server = serve_bytes(&bed.far, FAR_ADDRESS, 100_000).unwrap();
    let url = format!("http://{server}/");
    let body = bed.near.command("curl", &["--silent", "--max-time", "20", &url]).unwrap();
    assert_eq!(body.len(), 100_000);
}

#[test]
fn every_frame_crosses_and_nothing_else_does() {
    let Some(bed) = Bed::or_skip() else { return };
    let frames = Frames::new(10_000, 60);
    let sent = bed.near.run(move || frames.send(&mut Sender::open(NEAR, true).unwrap()).unwrap());
    assert_eq!(sent, 10_000);
    let (near, far) = (bed.near.counts(NEAR), bed.far.counts(FAR));
    assert_eq!((near.sent, near.sent_dropped, near.received), (sent, 0, 0));
    assert_eq!((far.received, far.sent), (sent, 0));
}

#[test]
fn frames_carry_their_number() {
    use burstline_testbed::{SEQUENCE_BYTES, Tag};
    let tag = Tag { protocol: 0x88a8, control: 7 };
    for tags in [vec![], vec![tag], vec![tag; 8]] {
        let frames = Frames { tags, ..Frames::new(1, 100) };
        let frame = frames.frame(0x0102_0304_0506_0708);
        assert_eq!((frame.len(), sequence_of(&frame)), (100, Some(0x0102_0304_0506_0708)));
    }
    let frame = Frames::new(1, 60).frame(3);
    assert_eq!(sequence_of(&frame[..SEQUENCE_BYTES]), Some(3));
    assert_eq!(sequence_of(&frame[..SEQUENCE_BYTES - 1]), None);
    assert_eq!(sequence_of(&[0; 60]), None);
}

#[test]
fn a_program_that_fails_says_why() {
    let Some(bed) = Bed::or_skip() else { return };
    let error = bed.near.command("ip", &["link", "show", "eth7"]).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("ip link show eth7: exit status: 1: Device \"eth7\""), "{text}");
    let error = bed.near.command("no-such-program", &[]).unwrap_err();
    assert!(matches!(error, BedError::Failed { .. }), "{error}");
}

#[test]
fn programs_die_with_their_host() {
    let Some(bed) = Bed::or_skip() else { return };
    let sleeper = bed.near.start("sleep", &["1000"], &[]).unwrap();
    let process = sleeper.process_id().to_string();
    assert!(is_alive(&process));
    drop(bed);
    wait_until_dead(&process);
    drop(sleeper);
}

/// Not a test: the next test runs it in another process.
#[test]
#[ignore = "another test runs it"]
fn the_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let bed = Bed::new().unwrap();
    let sleeper = bed.far.start("sleep", &["1000"], &[]).unwrap();
    println!("sleeper {}", sleeper.process_id());
    loop {
        std::thread::park();
    }
}

#[test]
fn programs_die_when_the_test_is_killed() {
    use std::io::{BufRead, BufReader};
    if Bed::or_skip().is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let process = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("sleeper ").map(|(_, process)| process.to_owned()));
    let process = process.expect("the child says whom it started");
    assert!(is_alive(&process));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_dead(&process);
}

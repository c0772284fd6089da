//! Ended from outside: by signals, the ledger is printed and the file is valid.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use serde_json::Value;
use support::{Directory, assert_closed, command, is_root, judged_packets, last_object, other};

/// Starts an endless job and waits for its first interval line, after which it surely runs.
fn start(arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let arguments = [arguments, &["--json", "--stats", "20ms"]].concat();
    let mut child = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut delivered = 0;
    while delivered == 0 {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "{arguments:?} ended at once");
        let interval: Value = serde_json::from_str(&line).unwrap();
        delivered = interval["delivered"].as_u64().unwrap();
    }
    (child, lines)
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert_eq!(other("kill", &[name, &pid]).unwrap().code, Some(0));
}

/// Sends a signal and returns the last object printed, when the program has ended well.
fn end((mut child, mut lines): (Child, BufReader<std::process::ChildStdout>), name: &str) -> Value {
    signal(&child, name);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{name}: {rest}");
    last_object(&rest)
}

#[test]
fn a_signal_ends_a_count_with_its_ledger() {
    for name in ["-INT", "-TERM", "-HUP"] {
        let report = end(start(&["count", "gen:", "gen:?rate=1000"]), name);
        assert_closed(&report);
        assert!(report["total"]["delivered"].as_u64() > Some(0));
    }
}

#[test]
fn a_signal_ends_a_capture_with_a_valid_file() {
    let directory = Directory::new("signals");
    for (name, format) in [("-INT", "segmented"), ("-TERM", "pcapng"), ("-INT", "pcap")] {
        let file = directory.file("a");
        // A rate that the slowest disk keeps up with: the test is about the end.
        let job = ["capture", "gen:?rate=20k&size=imix", "-w", &file, "--format", format];
        let report = end(start(&[&job[..], &["--pages", "4k", "--buffer", "8m"]].concat()), name);
        assert_closed(&report);
        let delivered = report["total"]["delivered"].as_u64().unwrap();
        assert!(delivered > 0);
        for (who, count) in judged_packets(&file) {
            assert_eq!(count, delivered, "{who} {format}");
        }
        let again = support::run_json(&["count", &file], 0);
        assert_eq!(again["total"]["delivered"], delivered, "{format}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let directory = Directory::new("second");
    let fifo = directory.file("fifo");
    assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
    // Nobody reads on: the recorder hangs in the pipe, and only force can end it.
    let job = ["capture", "gen:", "-w", &fifo, "--buffer", "1m", "--pages", "4k"];
    let mut child = command(&job).stdout(Stdio::null()).spawn().unwrap();
    let mut pipe = fs::File::open(&fifo).unwrap();
    pipe.read_exact(&mut [0; 1024]).unwrap();
    signal(&child, "-INT");
    // The handler has run when the flag is seen by nobody but the next signal, so repeat.
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        signal(&child, "-INT");
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(128 + 2), "{status}");
}

#[test]
fn kill_leaves_no_memory_behind() {
    let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().parse::<u64>();
    let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let before = read(pool).unwrap_or(0);
    let has_pages = is_root() && fs::write(pool, (before + 8).to_string()).is_ok();
    let pages = if has_pages && read(pool) == Ok(before + 8) { "2m" } else { "4k" };
    eprintln!("with pages of {pages}");
    let free_before = read(free);

    let job = ["capture", "gen:", "-w", "/dev/null", "--buffer", "16m", "--pages", pages];
    let (mut child, _lines) = start(&job);
    if pages == "2m" {
        assert_ne!(read(free), free_before, "the log is in reserved pages");
    }
    let name = child.id().to_string();
    signal(&child, "-KILL");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let free_after = read(free);
    if has_pages {
        fs::write(pool, before.to_string()).unwrap();
    }
    assert_eq!(free_after, free_before);
    let shared = fs::read_dir("/dev/shm").unwrap();
    for entry in shared {
        let entry = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!entry.contains(&name), "{entry} is left");
    }
}

//! Ended by signals: the ledger is printed and the file is valid.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::endless::{end, ended, signal, start};
use crate::support::{Directory, REAL, assert_closed, command, hangup, judged_packets, other, run};
use burstline_skip::without;
use burstline_sys::memory::Reservation;
use rustix::pipe::fcntl_setpipe_size;
use serde_json::Value;

/// Sends several signals in quick succession, like timeout(1). The shell has kill(1) built in.
fn signal_each(child: &Child, names: &[&str]) {
    let pid = child.id();
    let script: Vec<String> = names.iter().map(|name| format!("kill {name} {pid}")).collect();
    assert_eq!(other("sh", &["-c", &script.join("; ")]).unwrap().code, Some(0));
}

#[test]
fn a_signal_ends_a_count_with_its_ledger() {
    let hangup = hangup();
    for name in ["-INT", "-TERM"].into_iter().chain(hangup) {
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
        // A rate that the slowest disk sustains: the test is about the end.
        let job = ["capture", "gen:?rate=20k&size=imix", "-w", &file, "--format", format];
        let report = end(start(&[&job[..], &["--pages", "4k", "--buffer", "8m"]].concat()), name);
        assert_closed(&report);
        let delivered = report["total"]["delivered"].as_u64().unwrap();
        assert!(delivered > 0);
        for (who, count) in judged_packets(&file) {
            assert_eq!(count, delivered, "{who} {format}");
        }
        let again = crate::support::run_json(&["count", &file], 0);
        assert_eq!(again["total"]["delivered"], delivered, "{format}");
    }
}

/// The peer's ring may have packets in hand when the signal comes; the generator never ends.
#[test]
fn a_signal_ends_a_switch_whose_source_is_endless() {
    let folder = Directory::new("signals-switch");
    let to = format!("memif:{}", folder.file("nobody"));
    let job = start(&["switch", "--port", "gen:?rate=10k&pace=yes", "--port", &to]);
    assert_closed(&end(job, "-TERM"));
}

#[test]
fn signals_in_a_moment_are_one_and_end_no_report() {
    let directory = Directory::new("moment");
    let file = directory.file("a.pcapng");
    let recording = ["capture", "gen:?rate=20k", "-w", &file, "--buffer", "8m", "--pages", "4k"];
    let counting = ["count", "gen:?rate=1000"];
    for job in [&recording[..], &counting] {
        let job = start(job);
        signal_each(&job.child, &["-INT", "-TERM", "-HUP", "-INT", "-TERM"]);
        assert_closed(&ended(job));
    }
}

/// Returns the next line of a child's standard error.
fn said(errors: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(errors.read_line(&mut line).unwrap() > 0, "it has ended");
    line
}

#[test]
fn usr1_prints_statistics_of_every_job_and_usr2_does_nothing() {
    let directory = Directory::new("statistics");
    let (file, kept) = (directory.file("a.pcapng"), directory.file("kept.pcapng"));
    let log = ["--buffer", "8m", "--pages", "4k"];
    let capture = [&["capture", "gen:?rate=20k", "-w", &file], &log[..]].concat();
    let keep = [&["capture", "gen:?rate=1000", "--keep", "1h", "-w", &kept], &log[..]].concat();
    let merge = [&["merge", "gen:?rate=1000", "gen:?rate=1000"], &log[..]].concat();
    let balance = [&["balance", "gen:?rate=1000", "--workers", "2"], &log[..]].concat();
    let replay = ["replay", crate::support::REAL, "--loops", "0", "--rate", "1k", "-o", "null:"];
    let jobs: [&[&str]; 7] = [
        &["count", "gen:?rate=1000"],
        &capture,
        &merge,
        &balance,
        &["generate", "--rate", "1k", "-o", "null:"],
        &replay,
        &["bounce", "gen:?rate=1000", "null:"],
    ];
    for job in jobs {
        let mut running = start(job);
        let mut errors = BufReader::new(running.child.stderr.take().unwrap());
        signal(&running.child, "-USR2");
        for _ in 0..3 {
            signal(&running.child, "-USR1");
            let statistics: Value = serde_json::from_str(&said(&mut errors)).unwrap();
            assert_eq!(statistics["command"], job[0]);
            assert!(statistics["delivered"].as_u64() > Some(0), "{statistics}");
        }
        let report = end(running, "-INT");
        assert_closed(&report);
    }
    // As a trigger, SIGUSR1 also prints statistics.
    let mut child = command(&keep).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    wait_until_heard(&child);
    // The job may not have begun at the first signal, so repeat.
    let mut line = String::new();
    while !line.contains(" packets ") {
        signal(&child, "-USR1");
        line = said(&mut errors);
        assert!(line.starts_with("burstline: "), "{line}");
    }
    // Packets before the recorder's start are no trigger. A later trigger extends the file.
    crate::support::live::wait_until("it is written", || {
        signal(&child, "-USR1");
        fs::exists(&kept).unwrap()
    });
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Waits until a child catches SIGUSR1, which is the last handler that it installs.
fn wait_until_heard(child: &Child) {
    let hears = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (10 - 1) & 1 == 1
    };
    crate::support::live::wait_until("it hears signals", hears);
}

#[test]
fn usr1_says_what_a_lab_is_doing() {
    let directory = Directory::new("asked-lab");
    let out = directory.file("out");
    for verb in ["dma", "retention"] {
        let arguments = ["lab", verb, "--packets", "1000G", "--out", &out, "--quiet"];
        let mut child =
            command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        wait_until_heard(&child);
        // The job may not have begun at the first signal, so repeat.
        let mut line = String::new();
        while !line.contains(": 0/") {
            signal(&child, "-USR1");
            line = said(&mut errors);
            assert!(line.starts_with("burstline: "), "{line}");
        }
        signal(&child, "-INT");
        assert_eq!(child.wait().unwrap().code(), Some(1), "{verb}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let directory = Directory::new("second");
    let fifo = directory.file("fifo");
    assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
    let (file, command_of_file) = (directory.file("x.pcapng"), format!("cat {fifo}"));
    // The job waits for its command, which waits for the pipe, so only force ends it.
    for quiet in [&["--quiet"][..], &[]] {
        let job = ["capture", "gen:?packets=10", "-w", &file, "--on-close", &command_of_file];
        let job = [&job[..], quiet].concat();
        let mut child = command(&job).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        // This waits until the command has opened it.
        let pipe = fs::File::options().write(true).open(&fifo).unwrap();
        signal(&child, "-INT");
        while quiet.is_empty() && !said(&mut errors).contains("Ctrl-C again after 1 s") {}
        // Only a signal that comes a second later ends it, so repeat.
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            signal(&child, "-INT");
            std::thread::yield_now();
        };
        assert_eq!(status.code(), Some(128 + 2), "{status}");
        // The command has the same standard error.
        drop(pipe);
        let mut last = String::new();
        errors.read_to_string(&mut last).unwrap();
        assert_eq!(last, "burstline: abandoned at a second signal, without a report\n");
    }
}

#[test]
fn one_signal_ends_the_wait_for_a_silent_pipe() {
    let directory = Directory::new("silent");
    let [fifo, new] = ["fifo", "new.pcapng"].map(|name| directory.file(name));
    assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
    for job in [&["info", &fifo][..], &["check", &fifo], &["recover", &fifo, "-w", &new]] {
        let mut child = command(job).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // This waits until the job has opened it.
        let pipe = fs::File::options().write(true).open(&fifo).unwrap();
        signal(&child, "-INT");
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{job:?}: {status}");
        drop(pipe);
    }
}

#[test]
fn a_pipe_that_nobody_writes_describes_no_machine_and_no_scenario() {
    let directory = Directory::new("unwritten");
    let fifo = directory.file("fifo.toml");
    assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
    for job in [
        &["doctor", "--machine", &fifo][..],
        &["lab", "run", &fifo],
        &["lab", "compare", &fifo, &fifo],
        &["count", "gen:?packets=1", "--filter", &format!("@{fifo}")],
    ] {
        let ended = run(job);
        assert!(!ended.stderr.is_empty() && ended.code != Some(0), "{job:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("nobody writes into this pipe"), "{}", ended.stderr);
    }
}

#[test]
fn a_second_signal_says_that_a_report_may_be_cut() {
    let directory = Directory::new("cut");
    let folder = directory.file("");
    // The object is longer than a pipe of a page that nobody reads, so the verb blocks in the
    // middle of it.
    for number in 0..500 {
        fs::copy(REAL, directory.file(&format!("{number}.pcap"))).unwrap();
    }
    for verb in ["info", "check"] {
        let job = [verb, "--json", "--quiet", &folder];
        let (mut report, output) = std::io::pipe().unwrap();
        fcntl_setpipe_size(&output, 4096).unwrap();
        let mut child = command(&job).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
        report.read_exact(&mut [0]).unwrap();
        // Only a signal that comes a second after the first ends it, so repeat.
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            signal(&child, "-INT");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(status.code(), Some(128 + 2), "{verb}: {status}");
        let mut last = String::new();
        child.stderr.take().unwrap().read_to_string(&mut last).unwrap();
        let line = "burstline: abandoned at a second signal; its report may be cut\n";
        assert_eq!(last, line, "{verb}");
    }
}

#[test]
fn kill_leaves_no_memory_behind() {
    let free = || {
        let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
        fs::read_to_string(free).unwrap_or_default().trim().parse::<u64>().unwrap_or(0)
    };
    // No other test reserves huge pages meanwhile. But jobs of other tests take free ones, and give
    // them back: there are more than ours needs, and fewer than a log of 64 MiB does.
    let reservation = Reservation::take_alone(31).filter(|reserved| reserved.pages() >= 8);
    let pages = if reservation.is_some() { "2m" } else { "4k" };
    if reservation.is_none() {
        without("no 2 MiB pages can be reserved: it takes root");
    }
    let free_before = free();

    // A log of 8 such pages.
    let job = ["capture", "gen:", "-w", "/dev/null", "--buffer", "16m", "--pages", pages];
    let mut job = start(&job);
    let name = job.child.id().to_string();
    if pages == "2m" {
        let status = fs::read_to_string(format!("/proc/{name}/status")).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:")).unwrap();
        let kib: u64 = held.trim_end_matches("kB").trim().parse().unwrap();
        assert!(kib >= 16 << 10, "the log is in reserved pages: {status}");
    }
    signal(&job.child, "-KILL");
    assert_eq!(job.child.wait().unwrap().signal(), Some(9));
    crate::support::live::wait_until("its pages are free", || free() >= free_before);
    let shared = fs::read_dir("/dev/shm").unwrap();
    for entry in shared {
        let entry = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(!entry.contains(&name), "{entry} is left");
    }
}

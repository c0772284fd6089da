//! Outputs that are full, closed, special, or the input itself.

use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;

use crate::support::endless::{end, start};
use crate::support::live::wait_until;
use crate::support::{
    Directory, REAL, REAL_PACKETS, Run, assert_closed, assert_says, command, judged_packets,
    last_object, other, run, run_json, run_with_code,
};
use burstline_skip::skip;
use burstline_sys::direct::free_bytes;

/// A file system of 4 MiB, or none if mounting is not permitted.
struct SmallDisk(Directory);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = Directory::new("small");
        let path = directory.0.to_string_lossy().into_owned();
        let run = other("mount", &["-t", "tmpfs", "-o", "size=4m", "tmpfs", &path])?;
        (run.code == Some(0)).then_some(Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A program that another thread of this process starts may hold a file there for a moment.
        other("umount", &["--lazy", &self.0.0.to_string_lossy()]);
    }
}

#[test]
fn a_full_disk_keeps_what_it_has_and_counts_the_rest() {
    let Some(disk) = SmallDisk::mount() else {
        return skip("mount is not permitted here");
    };
    for format in ["segmented", "pcapng", "pcap"] {
        let file = disk.0.file("a");
        let job = ["capture", "gen:?packets=100000&size=300", "gen:?packets=9", "-w", &file];
        let flags = ["--format", format, "--pages", "4k", "--buffer", "4m"];
        let report = run_json(&[&job[..], &flags].concat(), 1);
        assert_closed(&report);
        let written = report["total"]["delivered"].as_u64().unwrap();
        assert!(written > 0 && report["total"]["lost"]["disk_full"].as_u64() > Some(0), "{report}");
        for (who, count) in judged_packets(&file) {
            assert_eq!(count, written, "{who} {format}");
        }
        assert!(report["errors"][0].as_str().unwrap().contains("No space left"), "{report}");
        fs::remove_file(&file).unwrap();
        // The kernel releases the ended job's Landlock rules with a delay, and only then the file.
        let folder = File::open(&disk.0.0).unwrap();
        wait_until("its room is free", || free_bytes(&folder).unwrap() >= 4 << 20);
    }
}

#[test]
fn a_device_that_is_always_full() {
    let run = run_with_code(&["capture", REAL, "-w", "/dev/full", "--json"], 1);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    let report = last_object(&run.stdout);
    assert_closed(&report);
    assert_eq!(report["total"]["lost"]["disk_full"], REAL_PACKETS);
    assert_eq!(report["total"]["delivered"], 0);
}

#[test]
fn the_null_sink_makes_no_file() {
    let report = run_json(&["capture", "gen:?packets=1000", "-w", "null:"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 1000);
    assert!(fs::metadata("null:").is_err());
}

#[test]
fn packets_that_the_format_cannot_hold_are_a_failure() {
    let directory = Directory::new("links");
    let (raw, both) = (directory.file("raw.pcap"), directory.file("both.pcapng"));
    // A classic file of link type 101 with one packet of 20 bytes.
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 101, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 20, 0, 0, 0]);
    bytes.extend([0x45; 20]);
    fs::write(&raw, bytes).unwrap();
    let report = run_json(&["capture", REAL, &raw, "-w", &both], 1);
    assert_closed(&report);
    assert_eq!(report["total"]["lost"]["link_mismatch"], 1);
    let error = report["errors"][0].as_str().unwrap();
    assert!(error.starts_with("1 packets are not in the output (link_mismatch)"), "{error}");
}

#[test]
fn the_longest_packets_of_files_are_recorded_whole() {
    let directory = Directory::new("long");
    let (long, copy) = (directory.file("long.pcap"), directory.file("copy.pcapng"));
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0]);
    bytes.resize(bytes.len() + 262_144, 7);
    fs::write(&long, bytes).unwrap();
    let report = run_json(&["capture", &long, "-w", &copy], 0);
    assert_eq!(report["total"]["bytes"], 262_144);
    assert_eq!(report["total"]["truncated"], 0);
    assert_eq!(run_json(&["count", &copy], 0)["total"]["bytes"], 262_144);
}

#[test]
fn a_job_that_cannot_begin_leaves_the_output_as_it_was() {
    let directory = Directory::new("untouched");
    let file = directory.file("precious");
    fs::write(&file, "precious").unwrap();
    // This process can use no core 8191 on any machine.
    let run = run(&["capture", REAL, "-w", &file, "--cores", "8190,8191"]);
    assert!(run.code.is_some_and(|code| code > 0), "{}", run.stdout);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_file_has_one_writer() {
    let directory = Directory::new("one-writer");
    for name in ["one.pcapng", "one.pcap"] {
        let file = directory.file(name);
        let output = format!("file:{file}{}", if name == "one.pcap" { "?format=pcap" } else { "" });
        let job = ["generate", "-o", &output, "--rate", "1k"];
        // It has its file, and packets for it.
        let first = start(&job);
        let run = run(&[&job[..], &["-q"]].concat());
        let whose = format!("process {} is writing it", first.child.id());
        assert!(run.code == Some(1) && run.stderr.contains(&whose), "{}", run.stderr);
        let report = end(first, "-INT");
        let counted = run_json(&["count", &file], 0);
        assert_eq!(counted["total"]["delivered"], report["total"]["delivered"], "{report}");
    }
}

#[test]
fn dev_null_takes_everything() {
    let report = run_json(&["capture", "gen:?packets=100000", "-w", "/dev/null"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 100_000);
}

#[test]
fn a_fifo_gets_plain_pcapng() {
    let directory = Directory::new("fifo");
    let (fifo, copy) = (directory.file("fifo"), directory.file("copy.pcapng"));
    assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
    let job = command(&["capture", REAL, "-w", &fifo, "--json"]).stdout(Stdio::piped()).spawn();
    let mut bytes = Vec::new();
    File::open(&fifo).unwrap().read_to_end(&mut bytes).unwrap();
    let run = Run::from(job.unwrap().wait_with_output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(last_object(&run.stdout)["total"]["delivered"], REAL_PACKETS);
    fs::write(&copy, bytes).unwrap();
    assert!(judged_packets(&copy).iter().all(|(_, count)| *count == REAL_PACKETS));
}

#[test]
fn standard_output_gets_the_capture_and_nothing_else() {
    let directory = Directory::new("stdout");
    let copy = directory.file("copy.pcapng");
    let output = command(&["capture", REAL, "-w", "-", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    fs::write(&copy, &output.stdout).unwrap();
    assert!(judged_packets(&copy).iter().all(|(_, count)| *count == REAL_PACKETS));
    let report = last_object(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(report["total"]["delivered"], REAL_PACKETS);
}

#[test]
fn a_reader_that_goes_away_ends_the_capture() {
    let mut job = command(&["capture", "gen:", "-w", "-", "--json"]);
    let mut child = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 4096]).unwrap();
    drop(pipe);
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let report = last_object(&run.stderr);
    assert_closed(&report);
    assert!(report["total"]["lost"]["pipe_closed"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    for arguments in [&["count", REAL][..], &["--help"], &["man"], &["count", REAL, "--json"]] {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.as_mut().unwrap();
        drop(child.stdout.take());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let code = child.wait().unwrap().code();
        assert!(code.is_some_and(|code| code <= 1), "{arguments:?}: {code:?}");
        assert_eq!(text, "", "{arguments:?}");
    }
    let full = command(&["count", REAL]).stdout(File::create("/dev/full").unwrap()).output();
    let run = Run::from(full.unwrap());
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("write to standard output: No space left"), "{}", run.stderr);
}

#[test]
fn the_input_is_never_the_output() {
    let directory = Directory::new("same");
    let (file, link) = (directory.file("a.pcap"), directory.file("b.pcap"));
    fs::copy(REAL, &file).unwrap();
    fs::hard_link(&file, &link).unwrap();
    for output in [&file, &link] {
        assert_says(&["capture", &file, "-w", output], 2, "choose another output");
    }
    assert_eq!(fs::read(&file).unwrap(), fs::read(REAL).unwrap());
}

#[test]
fn outputs_that_cannot_be_created() {
    for output in ["/no/such/directory/a.pcapng", "/", "/proc/a.pcapng"] {
        let run = run(&["capture", REAL, "-w", output]);
        assert_eq!(run.code, Some(1), "{output}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(output), "{}", run.stderr);
    }
}

#[test]
fn the_scheme_of_a_file_to_write_is_no_part_of_its_name() {
    let directory = Directory::new("scheme");
    let here = |job: &str| -> Run {
        let words: Vec<&str> = job.split(' ').collect();
        command(&words).current_dir(&directory.0).output().unwrap().into()
    };
    let names = || -> Vec<String> {
        let entries = fs::read_dir(&directory.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let has = |start: &str| names().iter().any(|name| name.starts_with(start));
    for (job, start) in [
        ("capture gen:?packets=5 -w file:eth0.100", "eth0.100"),
        ("capture gen:?packets=5 -w file:eth0.100 --resume", "eth0-2.100"),
        ("capture gen:?packets=5 -w file:{a,b}.pcapng", "b.pcapng"),
        ("capture gen:?packets=5 -w file:t-%Y.pcapng -G 3600", "t-2"),
        ("capture gen:?packets=5 -w file:r.pcapng -b packets:3", "r_00002_"),
        // An interface has this name, but a file is meant.
        ("capture gen:?packets=5 -w file:lo", "lo"),
        ("merge gen:?packets=5 -w file:merged", "merged"),
        ("extract merged -w file:extracted", "extracted"),
        ("recover merged -w file:recovered", "recovered"),
    ] {
        let run = here(job);
        assert!(run.code == Some(0) && has(start), "{job}: {:?} {}", names(), run.stderr);
        assert!(!has("file:"), "{job}: {:?}", names());
    }
    let before = names().len();
    for output in ["xdp:eth1", "null:?x", "file:", "file:x?format=pcap", "x.pcap?format=pcap"] {
        let run = here(&format!("capture gen:?packets=5 -w {output}"));
        assert_eq!((run.code, run.stderr.lines().count()), (Some(2), 1), "{}", run.stderr);
        assert_eq!(names().len(), before, "{output}: {:?}", names());
    }
    let run = here("capture gen:?packets=5 -w ./file:x");
    assert!(run.code == Some(0) && has("file:x"), "{}", run.stderr);
}

//! `capture --resume` after the files of a rotation: which one it follows, and how packets are
//! numbered.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::sharing::{pcap_header, pcap_packets};
use crate::support::{Directory, Run, judged_packets, other, run};

/// Records 30 packets, whose times are always the same, into files of 10.
fn record(directory: &Directory, name: &str, more: &[&str]) -> Run {
    let (from, to) = (directory.file("input.pcap"), directory.file(name));
    fs::write(&from, [pcap_header(), pcap_packets(0, 30)].concat()).unwrap();
    let job = ["capture", &from, "-w", &to, "-b", "packets:10"];
    let run = run(&[&job[..], more].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run
}

/// Returns the files whose names start like this and end like that, by name.
fn files(directory: &Directory, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().path());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    };
    let mut files: Vec<_> = entries.filter(is_wanted).collect();
    files.sort();
    files
}

/// Returns the bytes of a file as text, decompressed.
fn text(path: &Path) -> String {
    let name = path.to_string_lossy();
    match name.ends_with(".gz") {
        true => other("gzip", &["-dc", &name]).unwrap().stdout,
        false => String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned(),
    }
}

/// The numbers go on though a ring, or a command, has removed the files in front: only the newest
/// one has to be there, and only it is read.
#[test]
fn a_plain_file_says_how_many_packets_are_before_it() {
    let directory = Directory::new("resume-before");
    for (name, stem) in [("x.pcapng", "x_"), ("y.pcapng.gz", "y_")] {
        record(&directory, name, &[]);
        let made = files(&directory, stem, "");
        for (path, before) in made.iter().zip([0, 10, 20]) {
            let words = format!("packets before this file: {before}");
            assert!(text(path).contains(&words), "{words}: {}", path.display());
        }
        made[..2].iter().for_each(|path| fs::remove_file(path).unwrap());
        record(&directory, name, &["--resume"]);
        let next = &files(&directory, &format!("{stem}00001_"), "")[0];
        assert!(text(next).contains("packets before this file: 30; resumes after "), "{name}");
    }
    for path in files(&directory, "x_", "") {
        for (who, count) in judged_packets(&path.to_string_lossy()) {
            assert_eq!(count, 10, "{who}: {}", path.display());
        }
    }
    let next = files(&directory, "x_00001_", "")[0].to_string_lossy().into_owned();
    if let Some(run) = other("capinfos", &["-k", &next]) {
        assert!(run.stdout.contains("packets before this file: 30; resumes"), "{}", run.stdout);
    }
}

/// A recorder that was killed leaves plain pcapng without closing counts. Its blocks are sound.
#[test]
fn a_plain_file_without_closing_counts_was_broken_off() {
    let directory = Directory::new("resume-closed");
    record(&directory, "x.pcapng", &[]);
    let last = &files(&directory, "x_00003_", "")[0];
    let bytes = fs::read(last).unwrap();
    // Every block of pcapng ends with its length. The last one has the closing counts.
    let length = u32::from_le_bytes(*bytes.last_chunk().unwrap()) as usize;
    fs::write(last, &bytes[..bytes.len() - length]).unwrap();
    let said = record(&directory, "x.pcapng", &["--resume"]).stderr;
    assert!(said.contains("which was broken off: 10 packets"), "{said}");
}

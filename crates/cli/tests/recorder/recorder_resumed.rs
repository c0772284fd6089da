//! `capture --resume` after the files of a rotation: which one it follows, and how packets are
//! numbered.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::sharing::{pcap_header, pcap_packets};
use crate::support::{Directory, Run, judged_packets, other, run_with_code};

/// Records 30 packets, whose times are always the same, into files of 10.
fn record(directory: &Directory, name: &str, more: &[&str]) -> Run {
    let (from, to) = (directory.file("input.pcap"), directory.file(name));
    fs::write(&from, [pcap_header(), pcap_packets(0, 30)].concat()).unwrap();
    let job = ["capture", &from, "-w", &to, "-b", "packets:10"];
    run_with_code(&[&job[..], more].concat(), 0)
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

/// A power cut leaves zeros, or half a header.
#[test]
fn a_last_file_that_is_no_capture_is_passed_over() {
    let directory = Directory::new("resume-torn");
    record(&directory, "x.pcapng", &[]);
    let half: &[u8] = b"\x0a\x0d\x0d\x0a half";
    for (number, torn, before) in [(2, &[&[0; 4096][..]][..], 30), (3, &[half, &[0; 9], half], 60)]
    {
        for (file, bytes) in torn.iter().enumerate() {
            let name = format!("x_{number}000{file}_20231114221320.pcapng");
            fs::write(directory.file(&name), bytes).unwrap();
        }
        let said = record(&directory, "x.pcapng", &["--resume"]).stderr;
        let name = format!("x_{number}000{}_20231114221320.pcapng", torn.len() - 1);
        assert!(said.contains(&format!("{name}, which cannot be read: ")), "{said}");
        let next = &files(&directory, "x_00001_", &format!("-{number}.pcapng"))[0];
        let words = format!("packets before this file: {before}; resumes after ");
        assert!(text(next).contains(&words), "{words}: {}", next.display());
    }
}

/// Sets the time at which a file was last written.
fn set_written(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Goes on with `x.pcapng`, and returns the name of the file that it follows.
fn followed(directory: &Directory) -> String {
    let said = record(directory, "x.pcapng", &["--resume"]).stderr;
    let name = said.split_once("resumes after ").unwrap().1.split_once(',').unwrap().0;
    name.rsplit_once('/').unwrap().1.to_owned()
}

/// The time in a name says nothing of the order: here it is a later one, then always the same.
#[test]
fn the_file_that_was_written_last_is_followed() {
    let directory = Directory::new("resume-order");
    record(&directory, "x.pcapng", &[]);
    let later = directory.file("x_00003_20990101000000.pcapng");
    fs::rename(&files(&directory, "x_00003_", "")[0], &later).unwrap();
    let ago = SystemTime::now() - Duration::from_secs(3600);
    files(&directory, "x_", "").iter().for_each(|path| set_written(path, ago));
    assert_eq!(followed(&directory), "x_00003_20990101000000.pcapng");
    let second = followed(&directory);
    assert!(second.starts_with("x_00003_2023") && !second.contains('-'), "{second}");
    let third = followed(&directory);
    assert!(third.starts_with("x_00003_2023") && third.ends_with("-2.pcapng"), "{third}");
    // An empty file, as of a recorder that was killed at once, has no number of its own.
    fs::write(directory.file("x_00009_20231114221320.pcapng"), "").unwrap();
    assert_eq!(followed(&directory), "x_00009_20231114221320.pcapng");
    let fifth = &files(&directory, "x_00001_", "-5.pcapng")[0];
    assert!(text(fifth).contains("packets before this file: 120; resumes after "));
}

#[test]
fn a_file_from_the_future_is_followed_once() {
    let directory = Directory::new("resume-future");
    record(&directory, "x.pcapng", &[]);
    let last = &files(&directory, "x_00003_", "")[0];
    set_written(last, SystemTime::now() + Duration::from_secs(36_000));
    // The clock was set back since, and the numbers say which files are newer.
    let name = last.file_name().unwrap().to_string_lossy();
    assert_eq!(followed(&directory), name);
    for number in [2, 3] {
        let name = followed(&directory);
        let end = format!("-{number}.pcapng");
        assert!(name.starts_with("x_00003_2023") && name.ends_with(&end), "{name}");
    }
    let fourth = &files(&directory, "x_00001_", "-4.pcapng")[0];
    assert!(text(fourth).contains("packets before this file: 90; resumes after "));
}

//! `capture --resume` after the files of a rotation, and after files that take turns: which one it
//! follows, and how packets are numbered.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::sharing::{pcap_header, pcap_packets};
use crate::support::{Directory, Run, judged_packets, last_object, other, run, run_with_code};

/// Records 30 packets, whose times are always the same, into files of 10.
fn record(directory: &Directory, name: &str, more: &[&str]) -> Run {
    record_by(directory, name, &[&["-b", "packets:10"][..], more].concat())
}

/// Records 30 packets, of a second each, whose times are always the same.
fn record_by(directory: &Directory, name: &str, flags: &[&str]) -> Run {
    let (from, to) = (directory.file("input.pcap"), directory.file(name));
    fs::write(&from, [pcap_header(), pcap_packets(0, 30)].concat()).unwrap();
    run_with_code(&[&["capture", &from, "-w", &to][..], flags].concat(), 0)
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

/// Returns the last number of files that are called like this with a number behind it.
fn last_number(directory: &Directory, name: &str) -> u32 {
    let number = |path: PathBuf| {
        let found = path.file_name().unwrap().to_string_lossy().into_owned();
        found.strip_prefix(name).unwrap().parse::<u32>().unwrap_or(0)
    };
    files(directory, name, "").into_iter().map(number).max().unwrap()
}

#[test]
fn the_numbers_of_tcpdump_go_on() {
    let directory = Directory::new("resume-counted");
    // The ring removes the files in front, and the first ones of the second run.
    for (name, flags) in [("x.pcapng", &["-C", "1k"][..]), ("y.pcapng", &["-C", "1k", "-W", "2"])] {
        record_by(&directory, name, flags);
        let (last, there) = (last_number(&directory, name), files(&directory, name, "").len());
        let said = record_by(&directory, name, &[flags, &["--resume"]].concat()).stderr;
        let follows = format!("resumes after {}{last}, which is whole", directory.file(name));
        assert!(said.contains(&follows), "{follows}: {said}");
        assert!(last_number(&directory, name) > last, "{name}");
        let all = files(&directory, name, "");
        assert!(all.len() > there, "those of the first run stay: {all:?}");
        assert!(files(&directory, &format!("{}-", &name[..1]), "").is_empty(), "no name was taken");
        if flags.len() == 2 {
            let next = text(Path::new(&directory.file(&format!("{name}{}", last + 1))));
            assert!(next.contains("packets before this file: 30; resumes after "), "{name}");
        }
    }
    // A third start counts those of both.
    let said = record_by(&directory, "x.pcapng", &["-C", "1m", "--resume"]).stderr;
    let next = directory.file(&format!("x.pcapng{}", last_number(&directory, "x.pcapng")));
    assert!(text(Path::new(&next)).contains("packets before this file: 60; "), "{said}");
}

#[test]
fn files_that_are_named_after_the_time_are_followed() {
    let directory = Directory::new("resume-timed");
    let flags = ["-G", "10", "--resume"];
    let first = record_by(&directory, "x-%s.pcapng", &flags).stderr;
    assert!(!first.contains("resumes after"), "{first}");
    // Another program's, which the name cannot stand for, and a folder.
    fs::write(directory.file("x-old.pcapng"), "").unwrap();
    fs::create_dir(directory.file("x-9999999999.pcapng")).unwrap();
    let last = &files(&directory, "x-1700000020", "")[0];
    let bytes = fs::read(last).unwrap();
    // Without the closing counts, as a recorder that was killed leaves it.
    let length = u32::from_le_bytes(*bytes.last_chunk().unwrap()) as usize;
    fs::write(last, &bytes[..bytes.len() - length]).unwrap();
    for (after, next, before) in [
        ("x-1700000020.pcapng, which was broken off", "x-1700000000-2.pcapng", 30),
        ("x-1700000020-2.pcapng, which is whole", "x-1700000000-3.pcapng", 60),
    ] {
        let said = record_by(&directory, "x-%s.pcapng", &flags).stderr;
        assert!(said.contains(after), "{after}: {said}");
        let words = format!("packets before this file: {before}; resumes after ");
        assert!(text(Path::new(&directory.file(next))).contains(&words), "{words}");
    }
    let to = directory.file("y-%c.pcapng");
    let refused = run(&["capture", "gen:?packets=1", "-w", &to, "-G", "10", "--resume"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("can be read back"), "{}", refused.stderr);
}

#[test]
fn words_and_folders_that_are_named_after_the_time_are_followed() {
    let directory = Directory::new("resume-folders");
    for (name, second) in [
        ("x-%b-%s.pcapng", "x-Nov-1700000000-2.pcapng"),
        ("%Y/%B/x-%s.pcapng", "2023/November/x-1700000000-2.pcapng"),
    ] {
        let flags = ["-G", "10", "--resume"];
        let first = record_by(&directory, name, &flags).stderr;
        assert!(!first.contains("resumes after"), "{first}");
        assert!(!first.contains("not synced"), "{first}");
        let said = record_by(&directory, name, &flags).stderr;
        assert!(said.contains("1700000020.pcapng, which is whole: 10 packets"), "{said}");
        let words = "packets before this file: 30; resumes after ";
        assert!(text(Path::new(&directory.file(second))).contains(words), "{name}");
    }
    let folder = fs::metadata(directory.file("2023/November")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700, "as the files, for their owner alone");
}

/// Returns the packets in all files of a folder.
fn packets_in(folder: &Path) -> u64 {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: PathBuf| {
        let counted = run(&["count", &path.to_string_lossy(), "--json"]).stdout;
        last_object(&counted)["total"]["delivered"].as_u64().unwrap()
    };
    paths.map(count).sum()
}

#[test]
fn files_that_take_turns_go_on_each_behind_its_own() {
    for (flags, is_torn) in [(&[][..], true), (&["-b", "packets:1000"], false)] {
        let directory = Directory::new("resume-stripes");
        let folders = ["d0", "d1", "d2"].map(|name| directory.0.join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let record = |disks: &str, more: &[&str]| {
            let to = directory.file(&format!("{disks}/x.pcapng"));
            let job = ["capture", "gen:?packets=5000&size=1000", "-w", &to];
            let run = run(&[&job[..], &["--format", "segmented"], flags, more].concat());
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            run.stderr
        };
        record("d{0..1}", &[]);
        if is_torn {
            let file = folders[1].join("x.pcapng");
            let whole = fs::read(&file).unwrap();
            fs::write(&file, &whole[..whole.len() - (700 << 10)]).unwrap();
        }
        let before = [0, 1].map(|number| packets_in(&folders[number]));
        assert!(before[0] != before[1] && before[1] > 0, "{before:?}");
        // The third disk is a new one.
        let said = record("d{0..2}", &["--resume"]);
        assert_eq!(said.matches("resumes after ").count(), 2, "{said}");
        assert_eq!(said.matches("which was broken off").count(), usize::from(is_torn), "{said}");
        for (folder, before) in folders.iter().zip(before) {
            let words = format!("packets before this file: {before}; resumes after ");
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let next: Vec<_> = entries.filter(|path| text(path).contains(&words)).collect();
            assert_eq!(next.len(), 1, "{words}: {}", folder.display());
            assert_eq!(next[0].ends_with("x-2.pcapng"), is_torn, "{next:?}");
        }
        assert!(packets_in(&folders[2]) > 0, "it takes its turn");
        if is_torn {
            assert!(folders[2].join("x-2.pcapng").exists(), "the names stay in step");
        }
    }
}

#[test]
fn braces_that_leave_no_place_for_a_number_are_written_out() {
    let directory = Directory::new("resume-braces");
    // A comma and two dots would mean something in braces.
    let folder = directory.0.join("1,2..x");
    fs::create_dir(&folder).unwrap();
    let to = directory.file("1,2..x/{a.pcapng,b.pcapng}");
    for (more, made) in
        [(&[][..], ["a.pcapng", "b.pcapng"]), (&["--resume"], ["a-2.pcapng", "b-2.pcapng"])]
    {
        let job = run(&[&["capture", "gen:?packets=10", "-w", &to][..], more].concat());
        assert_eq!(job.code, Some(0), "{}", job.stderr);
        assert!(made.iter().all(|name| folder.join(name).exists()), "{made:?}");
    }
    let job = ["capture", "gen:?packets=1", "-w", &to, "--resume", "--link-types", "split"];
    let refused = run(&job);
    assert!(refused.code == Some(2) && refused.stderr.contains("not both"), "{}", refused.stderr);
}

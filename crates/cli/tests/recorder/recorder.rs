//! Recording into several files: rotation, file names, and removal of old files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::support::endless::signal;
use crate::support::live::wait_until;
use crate::support::sharing::{pcap_header, pcap_packets};
use crate::support::{
    Directory, REAL, REAL_PACKETS, assert_closed, command, is_root, judged_packets, other, run,
    run_json, run_with_code,
};
use burstline_skip::skip;
use serde_json::Value;

/// Returns the files of a directory by name, except `input`.
fn files(directory: &Directory) -> Vec<PathBuf> {
    let entries = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| !path.ends_with("input.pcap")).collect();
    files.sort();
    files
}

fn names(directory: &Directory) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    files(directory).into_iter().map(name).collect()
}

/// Makes a capture of `packets` packets of 100 bytes, one per second.
fn input(directory: &Directory, packets: u32) -> String {
    let path = directory.file("input.pcap");
    fs::write(&path, [pcap_header(), pcap_packets(0, packets)].concat()).unwrap();
    path
}

/// Returns the packets of each file, counted by other programs. Each file must have closing counts.
fn packets(directory: &Directory) -> Vec<u64> {
    let count = |path: PathBuf| {
        let path = path.to_string_lossy().into_owned();
        let report = run_json(&["count", &path], 0);
        let packets = report["total"]["delivered"].as_u64().unwrap();
        for (who, judged) in judged_packets(&path) {
            assert_eq!(judged, packets, "{who}: {path}");
        }
        packets
    };
    files(directory).into_iter().map(count).collect()
}

/// Returns time and length of each packet, in the order of the files.
fn lines(paths: &[PathBuf]) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for path in paths {
        let path = path.to_string_lossy();
        let fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.cap_len"];
        let run = other("tshark", &[&["-r", &path][..], &fields].concat())?;
        lines.extend(run.stdout.lines().map(str::to_owned));
    }
    Some(lines)
}

#[test]
fn files_follow_each_other_and_no_packet_is_lost() {
    for (rule, flags, wanted) in [
        ("packets:40", &[][..], vec![40, 40, 20]),
        ("packets:40", &["--format", "segmented"], vec![40, 40, 20]),
        ("packets:40", &["--format", "pcap"], vec![40, 40, 20]),
        ("duration:30", &[], vec![30, 30, 30, 10]),
        // The first packet's time is 20 s after a full minute.
        ("interval:60", &[], vec![40, 60]),
    ] {
        let directory = Directory::new("rotate");
        let (from, to) = (input(&directory, 100), directory.file("x.pcapng"));
        let report = run_json(&[&["capture", &from, "-w", &to, "-b", rule][..], flags].concat(), 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], 100);
        assert_eq!(packets(&directory), wanted, "{rule} {flags:?}");
        let names = names(&directory);
        for (number, name) in (1..).zip(&names) {
            let stem = name.strip_prefix(&format!("x_{number:05}_20231")).unwrap();
            assert!(stem.ends_with(".pcapng") && stem.len() == 9 + 7, "{name}");
        }
        if let Some(all) = lines(&files(&directory)) {
            assert_eq!(all, lines(&[from.into()]).unwrap(), "{rule} {flags:?}");
        }
    }
}

#[test]
fn a_file_is_as_large_as_it_may_be() {
    let directory = Directory::new("sized");
    let to = directory.file("x.pcapng");
    // 21 MB in segments, and in blocks. Many flows make a long sketch.
    for (limit, flows, flags, least) in [
        (9_000_000, 8, &[][..], 7_000_000),
        (9_000_000, 60_000, &[], 7_000_000),
        (2_000_000, 8, &[], 1_990_000),
        (2_000_000, 8, &["--format", "pcap"], 1_990_000),
    ] {
        let load = format!("gen:?packets=60000&size=imix&flows={flows}");
        let job = ["capture", &load, "-w", &to];
        let rule = format!("filesize:{}", limit / 1000);
        let report = run_json(&[&job[..], &["-b", &rule], flags].concat(), 0);
        assert_closed(&report);
        let sizes: Vec<u64> =
            files(&directory).iter().map(|path| fs::metadata(path).unwrap().len()).collect();
        let (last, full) = sizes.split_last().unwrap();
        assert!(full.len() >= 2 && *last <= limit, "{sizes:?}");
        assert!(full.iter().all(|size| (least..=limit).contains(size)), "{sizes:?}");
        assert_eq!(packets(&directory).iter().sum::<u64>(), 60_000);
        files(&directory).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

#[test]
fn a_limit_that_ends_a_segment_leaves_the_whole_ledger() {
    let directory = Directory::new("even");
    let (one, load) = (directory.file("one.pcapng"), "gen:?packets=3500&size=1000&flows=40");
    run_json(&["capture", load, "-w", &one, "--format", "segmented"], 0);
    // The trailer of segment 1, of 1 MiB, has its packet count at offset 16.
    let bytes = fs::read(&one).unwrap();
    let whole = u32::from_le_bytes(*bytes[(2 << 20) - 144 + 16..].first_chunk().unwrap());
    fs::remove_file(&one).unwrap();
    for name in ["x.pcapng", "x.pcapng.zst", "x.pcapng.gz"] {
        let to = directory.file(name);
        let format = if name.ends_with("gz") { "pcapng" } else { "segmented" };
        for rule in [
            ["-b".to_owned(), format!("packets:{whole}")],
            ["-c".to_owned(), whole.to_string()],
            ["-c".to_owned(), (2 * whole).to_string()],
        ] {
            let rule = rule.each_ref().map(String::as_str);
            let job = ["capture", load, "-w", &to, "--format", format];
            let report = run_json(&[&job[..], &rule].concat(), 0);
            let files = files(&directory);
            let paths: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
            let checked = run(&[&["check"], &paths[..]].concat());
            assert_eq!(checked.code, Some(0), "{rule:?}: {}", checked.stdout);
            let info = run_json(&[&["info"], &paths[..]].concat(), 0);
            let of = |file: &Value, what: &str| file["interfaces"][0][what].as_u64().unwrap();
            let infos = info["files"].as_array().unwrap();
            let written: u64 = infos.iter().map(|file| of(file, "usrdeliv")).sum();
            let what = format!("{name} {rule:?}: {info} {report}");
            assert_eq!(report["total"]["delivered"], written, "{what}");
            assert!(infos.iter().all(|file| file["packets"] == of(file, "usrdeliv")), "{what}");
            let offered: u64 = infos.iter().map(|file| of(file, "ifrecv")).sum();
            assert_eq!(report["total"]["offered"], offered, "{what}");
            let closes = |file| {
                let lost = of(file, "ifdrop") + of(file, "osdrop");
                lost == 0 && of(file, "ifrecv") == of(file, "usrdeliv")
            };
            assert!(infos.iter().all(closes), "{what}");
            files.iter().for_each(|path| fs::remove_file(path).unwrap());
        }
    }
}

#[test]
fn a_late_packet_stays_and_a_clock_that_is_set_back_begins_a_file() {
    let directory = Directory::new("clock");
    let (from, to) = (input(&directory, 0), directory.file("x.pcapng"));
    // Files of 10 s: one second back stays in the file; an hour back or forth begins another.
    let seconds = [5000, 5004, 5003, 5009, 5008, 1400, 1401, 1411, 5010, 5009];
    let packets_of = |second| pcap_packets(second, second + 1);
    let all = seconds.into_iter().flat_map(packets_of);
    fs::write(&from, pcap_header().into_iter().chain(all).collect::<Vec<u8>>()).unwrap();
    run_json(&["capture", &from, "-w", &to, "-b", "duration:10"], 0);
    assert_eq!(packets(&directory), [5, 2, 1, 2]);
}

#[test]
fn a_ring_removes_its_own_files_only() {
    let directory = Directory::new("ring");
    let (from, to) = (input(&directory, 100), directory.file("x.pcapng"));
    let foreign = directory.file("x_00001_20000101000000.pcapng");
    fs::write(&foreign, "precious").unwrap();
    let job = ["capture", &from, "-w", &to, "-b", "packets:10", "-b", "files:3"];
    assert_eq!(run_json(&job, 0)["total"]["delivered"], 100);
    let made = names(&directory);
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "precious");
    let starts = ["x_00001_2000", "x_00008_", "x_00009_", "x_00010_"];
    assert_eq!(made.len(), 4, "{made:?}");
    assert!(made.iter().zip(starts).all(|(name, start)| name.starts_with(start)), "{made:?}");
    // The same names again get a number, and nothing is overwritten.
    let before: Vec<_> = files(&directory).iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(run_json(&job, 0)["total"]["delivered"], 100);
    let after = names(&directory);
    assert_eq!(after.len(), 7, "{after:?}");
    assert!(after[2].ends_with(".pcapng") && after[1].ends_with("-2.pcapng"), "{after:?}");
    for (name, bytes) in made.iter().zip(before) {
        assert!(fs::read(directory.file(name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn a_file_that_is_gone_from_the_middle_is_told_and_counted() {
    let directory = Directory::new("gone");
    let (from, folder) = (input(&directory, 100), directory.file("r"));
    for (name, flags) in
        [("x.pcapng", &[][..]), ("x.pcapng.gz", &[]), ("x.pcapng", &["--format", "segmented"])]
    {
        fs::create_dir(&folder).unwrap();
        let (to, other) = (format!("{folder}/{name}"), format!("{folder}/y.pcapng"));
        let job = ["capture", &from, "-w", &to, "-b", "packets:10"];
        run_json(&[&job[..], flags].concat(), 0);
        // A run whose files came later, and a run that goes on with the numbers.
        for more in [&[][..], &["--resume"]] {
            let job = ["capture", &from, "-w", &other, "-b", "packets:50"];
            run_json(&[&job[..], more].concat(), 0);
        }
        let mut files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let path = |at: usize| files[at].to_str().unwrap();
        let gaps = |code| run_json(&["check", &folder], code)["gaps"].clone();
        assert_eq!(gaps(0), Value::Array(Vec::new()));
        let named = run_json(&["check", path(2), path(7)], 0);
        assert_eq!(named["gaps"], gaps(0), "those between are there");
        // A ring removes the oldest files. Nobody knows how many came at the end.
        [0, 1, 9].iter().for_each(|&at| fs::remove_file(&files[at]).unwrap());
        assert_eq!(gaps(0), Value::Array(Vec::new()));
        let set = format!("set:{folder}");
        assert_eq!(run_json(&["count", &set], 0)["total"]["delivered"], 270);
        [4, 5].iter().for_each(|&at| fs::remove_file(&files[at]).unwrap());
        let found = gaps(1);
        assert_eq!((found.as_array().unwrap().len(), &found[0]["missing"]), (1, &20.into()));
        assert_eq!((&found[0]["after"], &found[0]["before"]), (&path(3).into(), &path(6).into()));
        let text = run(&["check", &folder]).stdout;
        assert!(text.contains("MISSING: 20 packets between "), "{text}");
        let report = run_json(&["count", &set], 1);
        let total = &report["total"];
        assert_eq!((&total["delivered"], &total["unaccounted"]), (&250.into(), &0.into()));
        assert_eq!(total["lost"]["missing_segments"], 20, "{report}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn folders_may_be_named_after_the_time_too() {
    let directory = Directory::new("folders");
    let (from, to) = (input(&directory, 100), directory.file("%M/x%S.pcapng"));
    let folders: Vec<_> = (0..60).map(|minute| directory.file(&format!("{minute:02}"))).collect();
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let report = run_json(&["capture", &from, "-w", &to, "-G", "60"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 100);
    let made: Vec<_> = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).collect();
    assert_eq!(made.len(), 2, "{made:?}");
}

#[test]
fn names_and_limits_are_those_of_tcpdump() {
    let directory = Directory::new("tcpdump");
    let from = input(&directory, 100);
    let to = directory.file("x.pcap");
    // 116 bytes per packet and 24 per file: 8 packets fit into 1 KiB.
    let job = ["capture", &from, "-w", &to, "-C", "1k"];
    assert_eq!(run_json(&job, 0)["total"]["delivered"], 100);
    assert_eq!(names(&directory)[..3], ["x.pcap", "x.pcap1", "x.pcap10"]);
    assert_eq!(packets(&directory).iter().sum::<u64>(), 100);
    assert!(files(&directory).iter().all(|path| fs::metadata(path).unwrap().len() <= 1024));
    files(&directory).iter().for_each(|path| fs::remove_file(path).unwrap());
    run_json(&[&job[..], &["-W", "11"]].concat(), 0);
    assert_eq!(names(&directory)[10], "x.pcap12");
    files(&directory).iter().for_each(|path| fs::remove_file(path).unwrap());
    // With -G the number of files ends the job; later packets were not asked for.
    let to = directory.file("x-%s.pcap");
    let report = run_json(&["capture", &from, "-w", &to, "-G", "10", "-W", "3"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 30);
    let wanted = ["x-1700000000.pcap", "x-1700000010.pcap", "x-1700000020.pcap"];
    assert_eq!(names(&directory), wanted);
    assert_eq!(packets(&directory), [10, 10, 10]);
}

/// Without a conversion in the name, a file that was moved leaves its name free for the next one.
#[test]
fn a_name_that_was_moved_is_not_used_again() {
    let directory = Directory::new("moved");
    let to = directory.file("x.pcapng");
    let job = ["capture", "gen:?packets=100&rate=200", "-w", &to, "-G", "0.05"];
    let report = run_json(&[&job[..], &["--on-close", "mv {} {}.done"]].concat(), 0);
    assert_eq!(report["total"]["delivered"], 100);
    // A name that was used twice would have been moved over the first file of that name.
    assert_eq!(packets(&directory).iter().sum::<u64>(), 100);
}

#[test]
fn a_rotation_needs_files_and_a_limit() {
    for (flags, what) in [
        (&["-w", "-", "-b", "packets:1"][..], "only regular files can be rotated"),
        (&["-w", "/dev/null", "-b", "packets:1"], "only regular files can be rotated"),
        (&["-w", "x", "-b", "files:2"], "-b files:N needs a limit"),
        (&["-w", "x", "-b", "size:2"], "must be filesize:KB"),
        (&["-w", "x", "-W", "2"], "-W counts the files of -C or -G"),
        (&["-w", "x", "-b", "packets:1", "-C", "1"], "cannot be used with"),
        (&["-w", "x", "-b", "packets:1", "--keep", "1s"], "cannot be used with"),
        (&["-w", "x", "-b", "packets:1", "--owner", "1"], "needs --keep-privileges"),
        (&["-w", "/no/such/folder/x", "-b", "packets:1"], "/no/such/folder/x"),
    ] {
        let run = run(&[&["capture", REAL], flags].concat());
        assert!(run.code > Some(0) && run.stderr.contains(what), "{flags:?}: {}", run.stderr);
    }
}

#[test]
fn a_job_without_a_packet_leaves_one_valid_file() {
    let directory = Directory::new("empty");
    let (from, to) = (input(&directory, 0), directory.file("x.pcapng"));
    assert_eq!(run(&["capture", &from, "-w", &to, "-b", "packets:9"]).code, Some(0));
    assert_eq!(packets(&directory), [0]);
}

#[test]
fn outputs_are_their_owners() {
    let directory = Directory::new("owner");
    let (file, link) = (directory.file("x.pcapng"), directory.file("link"));
    let metadata = || fs::metadata(&file).unwrap();
    run_json(&["capture", REAL, "-w", &file], 0);
    assert_eq!(metadata().mode() & 0o7777, 0o600);
    run_json(&["capture", REAL, "-w", &file, "--mode", "0644"], 0);
    assert_eq!(metadata().mode() & 0o7777, 0o644);
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let before = fs::read(&file).unwrap();
    for flags in [&[][..], &["--format", "pcap"]] {
        let run = run_with_code(&[&["capture", REAL, "-w", &link][..], flags].concat(), 1);
        assert!(run.stderr.contains("a symbolic link to /"), "{}", run.stderr);
        assert!(run.stderr.contains("--follow-links"), "{}", run.stderr);
    }
    assert!(fs::read(&file).unwrap() == before);
    run_json(&["capture", REAL, "-w", &link, "--format", "pcap", "--follow-links"], 0);
    assert!(fs::read(&file).unwrap() != before);
    if !is_root() {
        return skip("only root gives files away");
    }
    run_json(&["capture", REAL, "-w", &file, "--owner", "1:2"], 0);
    assert_eq!((metadata().uid(), metadata().gid()), (1, 2));
    let rotated = directory.file("r.pcapng");
    let job = ["capture", REAL, "-w", &rotated, "-b", "packets:100", "--owner", "1:2"];
    run_json(&[&job[..], &["--keep-privileges"]].concat(), 0);
    let given = files(&directory).into_iter().map(|path| fs::metadata(path).unwrap());
    assert_eq!(given.filter(|metadata| (metadata.uid(), metadata.gid()) == (1, 2)).count(), 3 + 1);
}

/// Other outputs than recordings, of each verb that has one.
#[test]
fn outputs_beside_packets_are_their_owners_and_follow_no_link() {
    let directory = Directory::new("beside");
    let [records, out, link, target] = ["r", "out", "link", "target"].map(|n| directory.file(n));
    fs::create_dir(&records).unwrap();
    let root = env!("CARGO_MANIFEST_DIR");
    fs::copy(format!("{root}/../../runs/latest/copy-cost.json"), format!("{records}/a.json"))
        .unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, format!("{records}/pipe.json"), 0o600.into()).unwrap();
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let marked = "gen:?packets=10&mark=yes";
    for job in [
        &["count", marked, "--verify", "--latency-log"][..],
        &["lab", "report", &records, "-o"],
        &["lab", "report", &records, "-o", "-", "--markdown"],
        &["lab", "report", &records, "-o", "-", "--csv"],
    ] {
        let _ = fs::remove_file(&out);
        run_with_code(&[job, &[&out[..]]].concat(), 0);
        assert_eq!(fs::metadata(&out).unwrap().mode() & 0o7777, 0o600, "{job:?}");
        let refused = run_with_code(&[job, &[&link[..]]].concat(), 1);
        assert!(refused.stderr.contains("it is a symbolic link"), "{job:?}: {}", refused.stderr);
        assert_eq!(fs::read(&target).unwrap(), b"precious", "{job:?}");
    }
    let pages = directory.file("man");
    fs::create_dir(&pages).unwrap();
    std::os::unix::fs::symlink(&target, format!("{pages}/burstline.1")).unwrap();
    run_with_code(&["man", "--into", &pages], 1);
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    fs::remove_file(format!("{pages}/burstline.1")).unwrap();
    run_with_code(&["man", "--into", &pages], 0);
    assert_eq!(fs::metadata(format!("{pages}/burstline.1")).unwrap().mode() & 0o7777, 0o644);
}

/// A sink that waits for the reader of a pipe ends at the first signal.
#[test]
fn a_pipe_without_a_reader_holds_no_job_up() {
    let directory = Directory::new("beside-pipe");
    let pipe = directory.file("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let to = format!("file:{pipe}");
    for job in [&["generate", "-o", &to, "--rate", "100"][..], &["replay", REAL, "-o", &to]] {
        let mut child = command(job).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(700));
        signal(&child, "-TERM");
        wait_until("it ends", || child.try_wait().unwrap().is_some());
    }
}

#[test]
fn a_small_recording_is_a_small_file() {
    let directory = Directory::new("small");
    let file = directory.file("x.pcapng");
    let report = run_json(&["capture", "gen:?packets=20&size=100", "-w", &file], 0);
    assert_closed(&report);
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes < 20 * 140 + 600, "{bytes}");
    assert!(judged_packets(&file).iter().all(|(_, count)| *count == 20));
    assert_eq!(run_json(&["count", &file], 0)["total"]["delivered"], 20);
    // Explicitly requested segments stay.
    run_json(&["capture", REAL, "-w", &file, "--format", "segmented"], 0);
    assert_eq!(fs::metadata(&file).unwrap().len(), 2 << 20);
    assert_eq!(run_json(&["count", &file], 0)["total"]["delivered"], REAL_PACKETS);
}

#[test]
fn what_trickles_in_is_readable_at_once_and_small_at_the_end() {
    let directory = Directory::new("trickle");
    let file = directory.file("x.pcapng");
    // A second and a half, in which it is flushed into a segment several times.
    let job = ["capture", "gen:?packets=150&rate=100&size=100", "-w", &file];
    let mut child = crate::support::command(&[&job[..], &["-q"]].concat()).spawn().unwrap();
    crate::support::live::wait_until("some packets can be read", || {
        let run = run(&["count", &file, "--json"]);
        run.stdout.contains("delivered") && !run.stdout.contains("\"delivered\":0")
    });
    assert!(child.wait().unwrap().success());
    assert!(fs::metadata(&file).unwrap().len() < 150 * 140 + 600);
    assert_eq!(run_json(&["count", &file], 0)["total"]["delivered"], 150);
    assert!(judged_packets(&file).iter().all(|(_, count)| *count == 150));
}

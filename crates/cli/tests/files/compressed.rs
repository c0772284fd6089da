//! Recordings with separately compressed segments: read by others, partially, and truncated.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Directory, command, other, regular, run, run_json};
use serde_json::Value;

/// Number of packets per file, one every 10 us, from 40 flows in turn.
const PACKETS: u32 = 30_000;

/// A flow that is not in the files.
const NOBODY: &str = "10.99.99.99:1,10.99.99.98:2,udp";

/// Records the packets in segments of 64 KiB.
fn record(directory: &Directory, name: &str) -> String {
    let (load, file) = (regular(directory, "load.pcap", PACKETS, 400), directory.file(name));
    let sink = format!("file:{file}?format=segmented&segment=64k");
    assert_eq!(run_json(&["capture", &load, "-o", &sink], 0)["total"]["delivered"], PACKETS);
    file
}

/// Returns the report of extracting a part of a file.
fn part(file: &str, question: &[&str]) -> Value {
    run_json(&[&["extract", file], question].concat(), 0)
}

fn count(report: &Value) -> u64 {
    report["delivered"].as_u64().unwrap()
}

#[test]
fn other_programs_read_one_stream() {
    let directory = Directory::new("packed");
    let (packed, plain) = (record(&directory, "x.pcapng.zst"), directory.file("x.pcapng"));
    let check = run(&["check", &packed]);
    let says = "30,000 packets, all with a checksum";
    assert!(check.code == Some(0) && check.stdout.contains(says), "{}", check.stdout);
    if let Some(judged) = other("capinfos", &["-c", "-M", &packed]) {
        assert!(judged.code == Some(0) && judged.stdout.contains("30000"), "{}", judged.stderr);
        assert_eq!(judged.stderr.lines().filter(|line| !line.contains("Running")).count(), 0);
    }
    let Some(unpacked) = other("zstd", &["-q", "-d", &packed, "-o", &plain]) else { return };
    assert_eq!(unpacked.code, Some(0), "{}", unpacked.stderr);
    let check = run(&["check", &plain]);
    assert!(check.code == Some(0) && check.stdout.contains(says), "{}", check.stdout);
    let bytes = |file: &str| fs::metadata(file).unwrap().len();
    assert!(bytes(&packed) * 4 < bytes(&plain), "{} of {}", bytes(&packed), bytes(&plain));
}

#[test]
fn an_answer_takes_only_the_segments_that_may_have_it() {
    let directory = Directory::new("part");
    let (packed, plain) = (record(&directory, "x.pcapng.zst"), directory.file("x.pcapng"));
    assert_eq!(run(&["recover", &packed, "-w", &plain]).code, Some(0));
    for question in [
        &["--from", "+100ms", "--to", "+110ms"][..],
        &["--from", "+100ms", "--filter", "udp"],
        &["--flow", NOBODY],
        &["--flow", "10.0.0.1:53,10.0.1.7:999,udp"],
    ] {
        let (ours, same) = (part(&packed, question), part(&plain, question));
        for key in ["offered", "delivered", "bytes", "packet_times_ns", "lost"] {
            assert_eq!(ours[key], same[key], "{question:?} {key}");
        }
    }
    let none = part(&packed, &["--flow", NOBODY]);
    assert!(none["notes"].to_string().contains("passed unread"), "{none}");
    assert!(count(&part(&packed, &["--flow", "10.0.0.1:53,10.0.1.7:999,udp"])) == 750);
    // Damage costs the packets of the affected segments, and the report says so.
    let mut bytes = fs::read(&packed).unwrap();
    let at = bytes.len() * 9 / 10;
    bytes[at..at + 3000].fill(0);
    fs::write(&packed, &bytes).unwrap();
    // A question about a distant time does not read the damage.
    let early = run_json(&["extract", &packed, "--from", "+10ms", "--to", "+20ms"], 0);
    assert_eq!((&early["delivered"], &early["unaccounted"]), (&1000.into(), &0.into()));
    let late = run_json(&["extract", &packed, "--from", "+200ms"], 1);
    assert!((9000..10_000).contains(&count(&late)) && late["unaccounted"] == 0, "{late}");
    let whole = run_json(&["count", &packed], 1);
    let corrupt = whole["total"]["lost"]["corrupt"].as_u64().unwrap();
    assert!((100..1000).contains(&corrupt), "{whole}");
    assert_eq!(whole["total"]["delivered"], u64::from(PACKETS) - corrupt, "{whole}");
}

#[test]
fn a_table_that_is_damaged_or_gone_is_made_anew() {
    let directory = Directory::new("table");
    let file = record(&directory, "x.pcapng.zst");
    let sound = fs::read(&file).unwrap();
    let question = ["--from", "+100ms", "--to", "+110ms"];
    let flip = |behind: usize| {
        let mut bytes = sound.clone();
        let at = bytes.len() - behind;
        bytes[at] ^= 0x10;
        fs::write(&file, &bytes).unwrap();
    };
    // The checksum, the number of segments, their size, an end, the end of the frame.
    for behind in [16, 20, 24, 40, 3] {
        flip(behind);
        let run = run(&["extract", &file, "--json", question[0], question[1]]);
        assert!(matches!(run.code, Some(0 | 1)), "{behind}: {}", run.stderr);
    }
    // The index is rebuilt.
    for behind in [16, 24, 40] {
        flip(behind);
        let report = part(&file, &question);
        assert_eq!(count(&report), 1000, "{behind}");
        assert!(report["notes"].to_string().contains("passed unread"), "{report}");
        assert_eq!(run(&["check", &file]).code, Some(0), "{behind}");
    }
    // Truncated within the last segments: complete ones are delivered, and the report says so.
    fs::write(&file, &sound[..sound.len() - 10_000]).unwrap();
    let report = part(&file, &["--to", "+100ms"]);
    assert_eq!(report["delivered"], 10_000, "{report}");
    assert!(report["notes"].to_string().contains("the recording is not closed"), "{report}");
}

/// Returns the findings about a file: packets, unchecked ones, `corrupt`, `missing_segments`.
fn checked(file: &str) -> [u64; 4] {
    let report = run_json(&["check", file], 1);
    let of = |key: &str| report["files"][0][key].as_u64().unwrap();
    let packets = of("packets");
    [packets, packets - of("checked"), of("corrupt"), of("missing_segments")]
}

#[test]
fn a_file_that_was_cut_has_its_segments_and_damage_stays_in_one() {
    let directory = Directory::new("cut");
    let file = record(&directory, "x.pcapng.zst");
    let sound = fs::read(&file).unwrap();
    // Number of packets in a segment.
    let most = 64 * 1024 / 400;
    for percent in [3, 30, 61, 99] {
        let cut = &sound[..sound.len() * percent / 100];
        fs::write(&file, cut).unwrap();
        let [packets, unchecked, corrupt, missing] = checked(&file);
        assert!(unchecked <= most && (corrupt, missing) == (0, 0), "{percent}");
        // Compressed segments have similar sizes.
        let least = u64::from(PACKETS) * percent as u64 / 100;
        assert!(packets + 2 * most > least, "{percent}: {packets}");
    }
    let cut = &sound[..sound.len() * 6 / 10];
    fs::write(&file, cut).unwrap();
    let [whole, unchecked, ..] = checked(&file);
    let question = ["--from", "+10ms", "--to", "+20ms"];
    let report = part(&file, &question);
    assert_eq!(count(&report), 1000, "{report}");
    assert!(report["notes"].to_string().contains("passed unread"), "{report}");
    // Damage packets, block headers and a trailer.
    let trailer = cut.windows(8).skip(cut.len() / 2).position(|bytes| bytes == b"BurstSeg");
    let trailer = cut.len() / 2 + trailer.unwrap();
    for (at, bytes, segments) in
        [(cut.len() / 2, 3000, 3), (cut.len() / 3, 1, 1), (trailer, 4, 1), (trailer + 100, 60, 2)]
    {
        let mut damaged = cut.to_vec();
        damaged[at..at + bytes].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&file, &damaged).unwrap();
        let [packets, behind, corrupt, missing] = checked(&file);
        let what = format!("{at} {bytes}: {packets} {corrupt} {missing}");
        assert_eq!((packets + corrupt + missing, behind), (whole, unchecked), "{what}");
        assert!((1..=most * segments).contains(&(corrupt + missing)), "{what}");
        // Damage that is skipped is not noticed.
        let answer = run(&[&["extract", &file, "--json"], &question[..]].concat());
        let report: Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!((count(&report), &report["unaccounted"]), (1000, &0.into()), "{what}");
    }
}

#[test]
fn what_a_killed_recorder_has_flushed_is_there() {
    let directory = Directory::new("killed");
    let file = directory.file("x.pcapng.zst");
    let job = ["capture", "gen:?rate=20k&pace=yes&flows=10", "-w", &file, "--flush", "100ms"];
    let mut child = command(&job).spawn().unwrap();
    let begun = Instant::now();
    while fs::metadata(&file).map_or(0, |metadata| metadata.len()) < 50_000 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let whole = directory.file("whole.pcapng");
    run(&["recover", &file, "-w", &whole]);
    let report = run_json(&["count", &whole], 0);
    assert!(report["total"]["delivered"].as_u64() > Some(1000), "{report}");
}

#[test]
fn a_flag_compresses_whatever_the_name_is() {
    let directory = Directory::new("flag");
    for (name, flags, magic) in [
        ("x.pcapng", &["--compress", "zstd"][..], [0x28, 0xb5]),
        ("y.pcapng", &["--compress", "gzip"], [0x1f, 0x8b]),
        ("z.pcapng.zst", &["--compress", "none"], [0x0a, 0x0d]),
        ("u.pcap.zst", &["--format", "segmented"], [0x28, 0xb5]),
    ] {
        let file = directory.file(name);
        let words = [&["capture", "gen:?packets=5000", "-w", &file], flags].concat();
        assert_eq!(run_json(&words, 0)["total"]["delivered"], 5000, "{name}");
        assert_eq!(fs::read(&file).unwrap()[..2], magic, "{name}");
        assert_eq!(run_json(&["count", &file], 0)["total"]["delivered"], 5000, "{name}");
    }
    let file = directory.file("no.gz");
    let refused = run(&["capture", "gen:", "-w", &file, "--format", "segmented"]);
    let reason = "segments are compressed by zstd only; for gzip use pcapng";
    assert!(refused.code == Some(2) && refused.stderr.contains(reason), "{}", refused.stderr);
}

#[test]
fn compressed_files_follow_each_other() {
    let directory = Directory::new("ring");
    let (load, folder) = (regular(&directory, "load.pcap", PACKETS, 400), directory.file("r"));
    fs::create_dir(&folder).unwrap();
    let file = format!("{folder}/r.pcapng.zst");
    let rules = ["-b", "packets:9000", "--format", "segmented"];
    let report = run_json(&[&["capture", &load, "-w", &file], &rules[..]].concat(), 0);
    assert_eq!(report["total"]["delivered"], PACKETS);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
    let set = format!("set:{folder}");
    assert_eq!(run_json(&["count", &set], 0)["total"]["delivered"], PACKETS);
}

#[test]
fn what_follows_a_recording_is_read_or_reported() {
    let directory = Directory::new("follows");
    let first = fs::read(record(&directory, "a.pcapng.zst")).unwrap();
    let made = |packets: u32, keys: &str| {
        let file = directory.file("made.zst");
        let (source, sink) = (format!("gen:?packets={packets}"), format!("file:{file}?{keys}"));
        let report = run_json(&["capture", &source, "-o", &sink], 0);
        assert_eq!(report["total"]["delivered"], packets);
        fs::read(file).unwrap()
    };
    let longer = made(50_000, "format=segmented&segment=64k");
    let shorter = made(10_000, "format=segmented&segment=64k");
    let classic = made(2000, "format=pcap");
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let rubbish = b"rubbish".repeat(100_000);
    let (a, b, c) = (&first[..], &longer[..], &shorter[..]);
    let (file, whole) = (directory.file("both.zst"), directory.file("whole.pcapng"));
    let recovered = || {
        run(&["recover", &file, "-w", &whole]);
        run_json(&["count", &whole], 0)["total"]["delivered"].as_u64().unwrap()
    };
    for (name, parts, packets, is_sound) in [
        ("a longer one", &[a, b][..], 80_000, true),
        ("a shorter one", &[b, a], 80_000, true),
        ("two", &[a, b, c], 90_000, true),
        ("nothing to read", &[a, &skippable], 30_000, true),
        ("another format", &[a, &classic], 30_000, false),
        ("rubbish", &[a, &rubbish], 30_000, false),
        ("a byte", &[a, b"x"], 30_000, false),
    ] {
        fs::write(&file, parts.concat()).unwrap();
        let report = run_json(&["check", &file], i32::from(!is_sound));
        assert_eq!(report["files"][0]["packets"], packets, "{name}: {report}");
        assert_eq!(recovered(), packets, "{name}");
    }
    fs::write(&file, [a, a].concat()).unwrap();
    assert_eq!(recovered(), 60_000);
    // Part of a second one.
    fs::write(&file, [a, &b[..b.len() / 2]].concat()).unwrap();
    let report = run_json(&["check", &file], 1);
    assert!(report["files"][0]["packets"].as_u64() > Some(40_000), "{report}");
    // Rubbish does not hide segments, also if the table is gone.
    for end in [a.len(), a.len() - 10_000] {
        fs::write(&file, [&a[..end], &rubbish].concat()).unwrap();
        assert!(run(&["check", &file]).stdout.contains("belong to no frame"), "{end}");
        let answer = run(&["extract", &file, "--json", "--from", "+100ms", "--to", "+110ms"]);
        let report: Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!(count(&report), 1000, "{end}: {report}");
    }
}

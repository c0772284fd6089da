//! check, recover, info, extract, index and `set:`, compared with tshark and capinfos.

use std::fs;
use std::path::Path;

use crate::support::sharing::{pcap_header, pcap_packets};
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, assert_closed, assert_says, judged_packets,
    last_object, other, other_or_skip, regular, run, run_json, run_with_code,
};
use serde_json::Value;

const SEGMENT: usize = 64 << 10;

/// Makes a recording of `packets` packets in segments of 64 KiB.
pub(crate) fn recording(directory: &Directory, name: &str, load: &str, more: &[&str]) -> String {
    let file = directory.file(name);
    let output = format!("{file}?segment=64k");
    let arguments = ["capture", load, "-o", &output];
    assert_closed(&run_json(&[&arguments[..], more].concat(), 0));
    file
}

fn imix(packets: u32, flows: u32) -> String {
    format!("gen:?packets={packets}&size=imix&flows={flows}&ip=mix&protocol=mix")
}

fn flip(file: &str, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn first(report: &Value) -> &Value {
    &report["files"][0]
}

/// Runs `tshark -r FILE -Y QUESTION` and returns a line per packet, or `None` without tshark.
fn tshark(file: &str, question: &str) -> Option<Vec<String>> {
    let fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "ip.id"];
    let question: &[&str] = if question.is_empty() { &[] } else { &["-Y", question] };
    let reassembly = ["-o", "ip.defragment:false", "-o", "ipv6.defragment:false"];
    let arguments = [&["-r", file], &reassembly[..], &fields, question].concat();
    let run = other("tshark", &arguments)?;
    assert_eq!(run.code, Some(0), "tshark {question:?}: {}", run.stderr);
    Some(run.stdout.lines().map(str::to_owned).collect())
}

#[test]
fn check_finds_what_was_done_to_a_recording_and_says_which_packets() {
    let directory = Directory::new("check");
    let file = recording(&directory, "x.pcapng", &imix(4000, 16), &[]);
    let sound = run_json(&["check", &file], 0);
    assert_eq!(first(&sound)["packets"], 4000);
    assert_eq!(
        (&first(&sound)["checked"], &first(&sound)["faults"]),
        (&4000.into(), &Value::Array(vec![]))
    );
    let whole = fs::read(&file).unwrap();
    // Flip a bit of a packet in the third segment.
    flip(&file, 2 * SEGMENT + 1030);
    let damaged = run_json(&["check", &file], 1);
    let fault = &first(&damaged)["faults"][0];
    let lost = first(&damaged)["corrupt"].as_u64().unwrap();
    assert!(lost > 100, "{damaged}");
    assert_eq!(fault["offset"], 2 * SEGMENT);
    assert_eq!(fault["packets"], lost);
    let before = first(&damaged)["faults"][0]["packet"].as_u64().unwrap();
    let text = run(&["check", &file]).stdout;
    assert!(text.contains("DAMAGED"), "{text}");
    assert!(text.contains(&format!("packets {before} to {}", before + lost - 1)), "{text}");
    // Remove the third segment, or swap two segments.
    let segments: Vec<&[u8]> = whole.chunks(SEGMENT).collect();
    let mut removed = segments.clone();
    removed.remove(2);
    fs::write(&file, removed.concat()).unwrap();
    let missing = run_json(&["check", &file], 1);
    assert_eq!(first(&missing)["missing_segments"], lost, "{missing}");
    let mut swapped = segments.clone();
    swapped.swap(2, 3);
    fs::write(&file, swapped.concat()).unwrap();
    let order = run_json(&["check", &file], 1);
    assert_eq!(
        (&first(&order)["packets"], &first(&order)["missing_segments"]),
        (&4000.into(), &0.into())
    );
    assert!(first(&order)["faults"].to_string().contains("not in its place"), "{order}");
}

#[test]
fn check_reads_every_format_and_knows_which_have_no_checksum() {
    let directory = Directory::new("check-formats");
    for name in ["a.pcap", "b.pcap.zst", "c.pcapng.gz", "d.pcapng"] {
        let file = directory.file(name);
        // By default such a small recording is plain pcapng.
        let format: &[&str] = if name == "d.pcapng" { &["--format", "segmented"] } else { &[] };
        let words = [&["capture", REAL, "-w", &file], format].concat();
        assert_closed(&run_json(&words, 0));
        let report = run_json(&["check", &file], 0);
        assert_eq!(first(&report)["packets"], REAL_PACKETS, "{name}");
        let checked = if name == "d.pcapng" { REAL_PACKETS } else { 0 };
        assert_eq!(first(&report)["checked"], checked, "{name}");
    }
    let cut = directory.file("cut.pcap");
    let whole = fs::read(REAL).unwrap();
    fs::write(&cut, &whole[..whole.len() - 3]).unwrap();
    let all = run_json(&["check", &directory.file("")], 1);
    assert_eq!(all["files"].as_array().unwrap().len(), 5, "{all}");
    let text = run(&["check", &cut]).stdout;
    assert!(text.contains(&format!("before packet {REAL_PACKETS}")), "{text}");
    assert_says(&["check", &directory.file("nothing")], 1, "nothing");
}

#[test]
fn recover_writes_what_is_sound_and_lists_what_is_not() {
    let directory = Directory::new("recover");
    let file = recording(&directory, "x.pcapng", &imix(4000, 16), &[]);
    let before = tshark(&file, "");
    flip(&file, 3 * SEGMENT + 5000);
    let damaged = fs::read(&file).unwrap();
    for output in ["good.pcapng", "good.pcap"].map(|name| directory.file(name)) {
        let report = run_json(&["recover", &file, "-w", &output], 0);
        let lost = first(&report)["corrupt"].as_u64().unwrap();
        assert!(lost > 100 && report["written"] == 4000 - lost, "{report}");
        assert_eq!((&report["lost"]["corrupt"], &report["unaccounted"]), (&lost.into(), &0.into()));
        for (who, packets) in judged_packets(&output) {
            assert_eq!(packets, 4000 - lost, "{who}");
        }
        assert_eq!(first(&run_json(&["check", &output], 0))["packets"], 4000 - lost);
        let number = first(&report)["faults"][0]["packet"].as_u64().unwrap() as usize - 1;
        if let (Some(before), Some(after)) = (&before, tshark(&output, "")) {
            let rest = [&before[..number], &before[number + lost as usize..]].concat();
            assert_eq!(after.len(), rest.len());
            // A pcap has microseconds only.
            assert!(output.ends_with(".pcap") || after == rest, "another order");
        }
    }
    assert_says(&["recover", &file, "-w", &file], 2, "already reads or writes");
    assert_eq!(fs::read(&file).unwrap(), damaged);
}

#[test]
fn a_forged_section_in_a_payload_is_not_recovered_as_packets() {
    let directory = Directory::new("forged");
    let inner = recording(&directory, "inner.pcapng", "gen:?packets=2&size=64", &[]);
    // A packet whose payload is itself a pcapng file, with a bit flipped before it.
    let forged = [&fs::read(&inner).unwrap()[..400], &[0; 4][..]].concat();
    let mut pcap = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for number in 0..200_u32 {
        let length = forged.len() as u32 + 40;
        pcap.extend([1_700_000_000 + number, 0, length, length].map(u32::to_le_bytes).concat());
        pcap.extend([number as u8; 40]);
        pcap.extend(&forged);
    }
    let source = directory.file("source.pcap");
    fs::write(&source, pcap).unwrap();
    let file = recording(&directory, "x.pcapng", &source, &[]);
    flip(&file, SEGMENT + 4);
    let report = run_json(&["recover", &file, "-w", &directory.file("good.pcapng")], 0);
    let lost = first(&report)["corrupt"].as_u64().unwrap();
    assert!(lost > 50 && report["written"] == 200 - lost, "{report}");
}

#[test]
fn info_says_what_capinfos_says() {
    let directory = Directory::new("info");
    let file = recording(&directory, "x.pcapng", &imix(3000, 8), &[]);
    for path in [REAL, &file] {
        let report = run_json(&["info", path], 0);
        let info = first(&report);
        let flags = ["-T", "-r", "-M", "-c", "-d", "-u", "-a", "-e", "-z", "-S", "-o"];
        let Some(run) = other_or_skip("capinfos", &[&flags[..], &[path]].concat()) else { return };
        let line: Vec<&str> = run.stdout.trim().split('\t').collect();
        let number = |at: usize| line[at].parse::<f64>().unwrap();
        let near = |value: &Value, wanted: f64| {
            let value = value.as_f64().unwrap();
            assert!((value - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{value} {line:?}");
        };
        near(&info["packets"], number(1));
        near(&info["wire_bytes"], number(2));
        near(&info["duration_s"], number(3));
        near(&Value::from(info["packet_times_ns"][0].as_f64().unwrap() / 1e9), number(4));
        near(&Value::from(info["packet_times_ns"][1].as_f64().unwrap() / 1e9), number(5));
        assert!((info["average"].as_f64().unwrap() - number(6)).abs() < 0.01, "{line:?}");
        assert_eq!(info["disorder"]["packets"] == 0, line[7] == "True", "{line:?} {info}");
        let text = run_text(&["info", path]);
        assert!(text.contains("rate over time  ") && text.contains('█'), "{text}");
    }
    let info = run_json(&["info", &file], 0);
    assert_eq!(first(&info)["flows"], 8);
    assert_eq!(first(&info)["recorded"]["offered"], 3000);
    let section = &first(&info)["section"];
    assert!(section["application"].as_str().unwrap().starts_with("burstline "), "{section}");
    assert_eq!(section["os"], "linux");
    assert_eq!(section["comment"], "");
    let interface = &first(&info)["interfaces"][0];
    assert_eq!(interface["encapsulation"], "Ethernet");
    assert_eq!(interface["unit"], "ns");
    let packets = first(&info)["rate"].as_array().unwrap().iter();
    assert_eq!(packets.map(|packets| packets.as_u64().unwrap()).sum::<u64>(), 3000);
}

fn run_text(arguments: &[&str]) -> String {
    let run = run_with_code(arguments, 0);
    run.stdout
}

/// Compares our answer about a file with tshark's: packets, their order, their timestamps.
fn assert_same_answer(directory: &Directory, file: &str, ours: &[&str], question: &str) -> usize {
    let output = directory.file("answer.pcapng");
    let report = run_json(&[&["extract", file, "-w", &output], ours].concat(), 0);
    assert_eq!(report["unaccounted"], 0, "{report}");
    let Some(wanted) = tshark(file, question) else { return 1 };
    let got = tshark(&output, "").unwrap();
    assert_eq!(report["delivered"], wanted.len() as u64, "{ours:?} {question}");
    let apart = got.iter().zip(&wanted).position(|(got, wanted)| got != wanted);
    assert_eq!((apart, got.len()), (None, wanted.len()), "{ours:?} {question}");
    wanted.len()
}

/// Fails unless tshark finds the same packets in the same order.
fn assert_same(one: &str, other: &str) {
    let (Some(one), Some(other)) = (tshark(one, ""), tshark(other, "")) else { return };
    let apart = one.iter().zip(&other).position(|(one, other)| one != other);
    assert_eq!((apart, one.len()), (None, other.len()));
}

/// Returns the conversations of a file: source, destination, their ports, TCP or UDP.
fn conversations(file: &str) -> Option<Vec<[String; 5]>> {
    let fields = ["ip.src", "ip.dst", "udp.srcport", "udp.dstport", "tcp.srcport", "tcp.dstport"];
    let fields: Vec<&str> = fields.iter().flat_map(|field| ["-e", field]).collect();
    let run = other_or_skip("tshark", &[&["-r", file, "-T", "fields"], &fields[..]].concat())?;
    let mut found: Vec<[String; 5]> = Vec::new();
    for line in run.stdout.lines() {
        let part: Vec<&str> = line.split('\t').collect();
        let (protocol, at) = if part[2].is_empty() { ("tcp", 4) } else { ("udp", 2) };
        let one = [part[0], part[1], part[at], part[at + 1], protocol].map(str::to_owned);
        let is_whole = one.iter().all(|part| !part.is_empty() && !part.contains(','));
        if is_whole && !found.contains(&one) {
            found.push(one);
        }
    }
    Some(found)
}

#[test]
fn twenty_questions_are_answered_as_tshark_answers_them() {
    let directory = Directory::new("questions");
    let load = format!("{}&rate=20k", imix(6000, 12));
    let hashed = recording(&directory, "h.pcapng", &load, &["--hash", "five-tuple"]);
    let mut asked = 0;
    for file in [hashed.as_str(), REAL] {
        let Some(found) = conversations(file) else { return };
        let report = run_json(&["info", file], 0);
        let times = &first(&report)["packet_times_ns"];
        let (earliest, latest) = (times[0].as_u64().unwrap(), times[1].as_u64().unwrap());
        let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        for [source, destination, from, to, protocol] in found.iter().take(5) {
            let flow = format!("{source}:{from},{destination}:{to},{protocol}");
            let question = format!(
                "ip.addr=={source} && ip.addr=={destination} && {protocol}.port=={from} && \
                 {protocol}.port=={to} && !icmp"
            );
            assert!(assert_same_answer(&directory, file, &["--flow", &flow], &question) > 0);
            asked += 1;
        }
        let span = (latest - earliest).max(8);
        for (from, to) in [(0, 1), (1, 3), (3, 4), (4, 8), (7, 9)] {
            let (from, to) = (earliest + span / 8 * from, earliest + span / 8 * to);
            let (from, to) = (seconds(from), seconds(to));
            let question = format!("frame.time_epoch >= {from} && frame.time_epoch < {to}");
            assert_same_answer(&directory, file, &["--from", &from, "--to", &to], &question);
            asked += 1;
        }
        for (filter, question) in [
            ("udp", "udp && !icmp"),
            ("ip6", "ipv6"),
            ("tcp port 80", "tcp.port==80"),
            ("greater 600", "frame.len>=600"),
        ] {
            assert_same_answer(&directory, file, &["--filter", filter], question);
            asked += 1;
        }
    }
    assert!(asked >= 20, "{asked} questions");
}

#[test]
fn community_ids_are_those_of_tshark() {
    let directory = Directory::new("community");
    let file = recording(&directory, "x.pcapng", &imix(400, 10), &[]);
    for file in [file.as_str(), REAL] {
        let plugin = ["--enable-protocol", "communityid", "-o", "ip.defragment:false"];
        let fields = ["-T", "fields", "-e", "communityid", "-r", file];
        let Some(run) = other_or_skip("tshark", &[&plugin[..], &fields].concat()) else { return };
        let mut ids: Vec<&str> = run.stdout.lines().filter(|id| id.starts_with("1:")).collect();
        let all = ids.clone();
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.len() >= 5, "{ids:?}");
        for id in ids.iter().filter(|id| !id.contains(',')).take(12) {
            let report = run_json(&["extract", file, "--flow", id], 0);
            let wanted = all.iter().filter(|known| *known == id).count();
            assert_eq!(report["delivered"], wanted as u64, "{id}");
        }
    }
}

#[test]
fn extract_passes_segments_that_cannot_hold_an_answer() {
    let directory = Directory::new("passes");
    let load = regular(&directory, "load.pcap", 20_000, 512);
    let file = recording(&directory, "x.pcapng", &load, &["--hash", "five-tuple"]);
    let part = run_json(&["extract", &file, "--from", "+100ms", "--to", "+110ms"], 0);
    assert_eq!((&part["delivered"], &part["offered"]), (&1000.into(), &20_000.into()), "{part}");
    assert!(part["notes"].to_string().contains("passed unread"), "{part}");
    // A flow that does not exist.
    let flow = "10.99.99.99:1,10.99.99.98:2,udp";
    let none = run_json(&["extract", &file, "--flow", flow], 0);
    assert_eq!((&none["delivered"], &none["lost"]["filtered"]), (&0.into(), &20_000.into()));
    assert!(none["notes"].to_string().contains("passed unread"), "{none}");
    // A file that is still being written: no closing counts, and a partial last segment.
    let open = directory.file("open.pcapng");
    fs::write(&open, &fs::read(&file).unwrap()[..100 * SEGMENT + SEGMENT / 2]).unwrap();
    let part = run_json(&["extract", &open, "--from", "+100ms", "--to", "+110ms"], 0);
    assert_eq!(part["delivered"], 1000);
    assert!(part["notes"].to_string().contains("not closed"), "{part}");
    // Damage in a skipped segment is not noticed; in one that is read it is.
    flip(&file, 30 * SEGMENT + 900);
    let late = run_json(&["extract", &file, "--from", "+100ms", "--to", "+110ms"], 0);
    assert_eq!(late["delivered"], 1000);
    let early = run_json(&["extract", &file, "--to", "+110ms"], 1);
    assert!(early["lost"]["corrupt"].as_u64() > Some(50), "{early}");
}

#[test]
fn what_an_extract_found_before_a_failure_is_kept_and_counted() {
    let full = run_with_code(&["extract", REAL, "-w", "/dev/full", "--json"], 1);
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);
    let report = last_object(&full.stdout);
    assert_eq!((&report["success"], &report["unaccounted"]), (&false.into(), &0.into()));
    assert!(report["lost"]["disk_full"].as_u64() > Some(0), "{report}");
    // The second file becomes unreadable before its end.
    let directory = Directory::new("extract-half");
    let [first, second] = ["a.pcap", "b.pcap"].map(|name| directory.file(name));
    fs::copy(REAL, &first).unwrap();
    fs::copy(REAL, &second).unwrap();
    let output = directory.file("out.pcapng");
    let strace = ["-f", "-o", "/dev/null", "-P", &second, "-e", "inject=read:error=EIO:when=3+"];
    let question = [PROGRAM, "extract", &first, &second, "-w", &output, "--json"];
    let Some(half) = other("strace", &[&strace[..], &question].concat()) else { return };
    assert_eq!(half.code, Some(1), "{}", half.stderr);
    assert!(half.stderr.contains("Input/output error"), "{}", half.stderr);
    let report = last_object(&half.stdout);
    let found = report["delivered"].as_u64().unwrap();
    assert!(found >= REAL_PACKETS && report["unaccounted"] == 0, "{report}");
    for (who, count) in judged_packets(&output) {
        assert_eq!(count, found, "{who}");
    }
}

#[test]
fn what_cannot_be_asked_is_said() {
    for (flags, word) in [
        (&["--from", "yesterday"][..], "expected a time"),
        (&["--from", "+5s", "--to", "+5s"], "--from must be before --to"),
        (&["--flow", "10.0.0.1"], "two ends and a protocol"),
        (&["--filter", "udp prot 53"], "udp prot 53"),
        (&["-"], "not a regular file"),
    ] {
        assert_says(&[&["extract", REAL], flags].concat(), 2, word);
    }
}

#[test]
fn an_index_answers_as_the_file_does_and_is_made_anew_when_stale() {
    let directory = Directory::new("index");
    let load = regular(&directory, "load.pcap", 20_000, 300);
    let shorter = regular(&directory, "shorter.pcap", 15_000, 300);
    for name in ["x.pcap", "x-plain.pcapng"] {
        let file = directory.file(name);
        let format = if name == "x.pcap" { "pcap-ns" } else { "pcapng" };
        assert_closed(&run_json(&["capture", &load, "-w", &file, "--format", format], 0));
        let questions = [
            &["--from", "+50ms", "--to", "+60ms"][..],
            &["--flow", "10.99.99.99:1,10.99.99.98:2,udp"],
            &["--to", "+10ms", "--filter", "udp"],
        ];
        let plain = questions.map(|flags| run_json(&[&["extract", &file], flags].concat(), 0));
        let made = run_json(&["index", &file], 0);
        assert_eq!(first(&made)["packets"], 20_000, "{made}");
        let index = format!("{file}.bidx");
        assert!(Path::new(&index).is_file());
        for (flags, plain) in questions.iter().zip(&plain) {
            let indexed = run_json(&[&["extract", &file], *flags].concat(), 0);
            for key in ["offered", "delivered", "bytes", "packet_times_ns", "lost"] {
                assert_eq!(indexed[key], plain[key], "{name} {flags:?} {key}");
            }
            assert!(indexed["notes"].to_string().contains("passed unread"), "{indexed}");
        }
        // A damaged index is not used, and is rebuilt.
        let sound = fs::read(&index).unwrap();
        flip(&index, sound.len() / 2);
        let again = run_json(&[&["extract", &file], questions[0]].concat(), 0);
        assert_eq!(again["delivered"], 1000);
        assert_eq!(fs::read(&index).unwrap(), sound);
        // The index does not match a changed file.
        assert_closed(&run_json(&["capture", &shorter, "-w", &file, "--format", format], 0));
        let other = run_json(&[&["extract", &file], questions[0]].concat(), 0);
        assert_eq!((&other["delivered"], &other["offered"]), (&1000.into(), &15_000.into()));
        assert_ne!(fs::read(&index).unwrap(), sound);
    }
    // A file that is not an index is not overwritten.
    let taken = directory.file("x.pcap.bidx");
    fs::write(&taken, "mine").unwrap();
    assert_says(&["index", &directory.file("x.pcap")], 1, "not an index");
    assert_eq!(fs::read(&taken).unwrap(), b"mine");
    let segmented = recording(&directory, "s.pcapng", "gen:?packets=10", &[]);
    let report = run_json(&["index", &segmented], 0);
    assert!(first(&report)["index"].is_null(), "{report}");
}

#[test]
fn a_set_is_one_port_in_order_of_time() {
    let directory = Directory::new("set");
    let folder = directory.file("rec");
    fs::create_dir(&folder).unwrap();
    let whole = regular(&directory, "whole.pcap", 3000, 200);
    // Every third packet in each of three files, with names against the time order.
    let bytes = fs::read(&whole).unwrap();
    let mut parts = [(); 3].map(|()| bytes[..24].to_vec());
    let (mut at, mut number) = (24, 0);
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        parts[2 - number % 3].extend(&bytes[at..at + 16 + length]);
        (at, number) = (at + 16 + length, number + 1);
    }
    for (part, name) in parts.iter().zip(["a.pcap", "b.pcap", "c.pcap"]) {
        fs::write(format!("{folder}/{name}"), part).unwrap();
    }
    fs::write(format!("{folder}/notes.txt"), "no capture").unwrap();
    let set = format!("set:{folder}");
    let counted = run_json(&["count", &set], 0);
    assert_closed(&counted);
    assert_eq!(counted["total"]["delivered"], 3000);
    assert_eq!(counted["ports"].as_array().unwrap().len(), 1);
    assert!(counted["notes"].to_string().contains("not captures: 1"), "{counted}");
    let copy = directory.file("copy.pcapng");
    assert_closed(&run_json(&["capture", &set, "-w", &copy], 0));
    assert_same(&copy, &whole);
    let merged = directory.file("merged.pcapng");
    assert_closed(&run_json(&["merge", &set, "-w", &merged], 0));
    assert_same(&merged, &whole);
    let nothing = directory.file("nothing");
    fs::create_dir(&nothing).unwrap();
    for words in [["count", &format!("set:{nothing}")], ["extract", &nothing]] {
        let said = run(&words).stderr;
        assert!(said.contains(&format!("{nothing}: no capture file found")), "{said}");
    }
    let some = run_json(&["count", &format!("set:{folder}/[ab].pcap"), "--packets", "1500"], 0);
    assert_eq!(some["total"]["delivered"], 1500);
    assert_closed(&some);
    assert_says(&["count", &format!("set:{folder}/*.pcapng")], 1, "*.pcapng");
}

#[test]
fn more_files_than_ports_are_one_set() {
    let directory = Directory::new("many");
    let mut files = Vec::new();
    let whole = fs::read(REAL).unwrap();
    for number in 0..257 {
        let file = directory.file(&format!("{number:03}.pcap"));
        fs::write(&file, &whole).unwrap();
        files.push(file);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let merged = directory.file("merged.pcapng");
    let report = run_json(&[&["merge", "-w", &merged], &files[..]].concat(), 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 257 * REAL_PACKETS, "{report}");
    assert_eq!(first(&run_json(&["info", &merged], 0))["packets"], 257 * REAL_PACKETS);
    let counted = run_json(&[&["count"], &files[..]].concat(), 0);
    assert_eq!(counted["total"]["delivered"], 257 * REAL_PACKETS);
    assert_closed(&counted);
    let set = run_json(&["count", &format!("set:{}", directory.file("*.pcap"))], 0);
    assert_eq!(set["total"]["delivered"], 257 * REAL_PACKETS);
}

/// The files that wait for their turn can be opened later, though the job has dropped its rights.
#[test]
fn more_files_than_descriptors_are_opened_in_turn() {
    let directory = Directory::new("few-descriptors");
    let folder = directory.file("set");
    fs::create_dir(&folder).unwrap();
    let mut files = Vec::new();
    for number in 0..260 {
        let file = format!("{folder}/{number:03}.pcap");
        fs::write(&file, [pcap_header(), pcap_packets(number, number + 1)].concat()).unwrap();
        files.push(file);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let (set, few) = (format!("set:{folder}"), format!("set:{folder}/0*"));
    let merged = directory.file("merged.pcapng");
    let [counted, extracted] = ["count", "extract"].map(|verb| [&[verb], &files[..]].concat());
    // Of 600 descriptors, 512 are for the rest of a job.
    let script = "ulimit -n 600; exec \"$0\" \"$@\" --json";
    let within = |words: &[&str]| other("sh", &[&["-c", script, PROGRAM], words].concat());
    for (words, packets) in [
        (&["count", &set][..], 260),
        (&["count", &few], 100),
        (&counted, 260),
        (&["merge", &set, "-w", &merged], 260),
    ] {
        let Some(run) = within(words) else { return };
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(last_object(&run.stdout)["total"]["delivered"], packets, "{}", words[0]);
    }
    for words in [&["extract", &folder][..], &extracted] {
        let Some(run) = within(words) else { return };
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(last_object(&run.stdout)["delivered"], 260);
    }
}

#[test]
fn tshark_alone_comes_to_the_same_sum() {
    let directory = Directory::new("ledger");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ledger-of-file.sh");
    let file = recording(&directory, "x.pcapng", REAL, &["--filter", "udp"]);
    if other_or_skip("tshark", &["--version"]).is_none() {
        return;
    }
    let run = other("sh", &[script, &file]).unwrap();
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let info = run_json(&["info", &file], 0);
    let packets = first(&info)["packets"].as_u64().unwrap();
    let others = REAL_PACKETS - packets;
    assert!(packets > 0 && others > 0);
    let wanted =
        format!("offered {REAL_PACKETS} = in the file {packets} + lost on the interface 0");
    assert!(run.stdout.starts_with(&wanted), "{}", run.stdout);
    assert!(run.stdout.contains(&format!("not asked for {others}")), "{}", run.stdout);
    assert_eq!(first(&info)["interfaces"][0]["ifrecv"], REAL_PACKETS);
    // A file that lacks a packet does not close.
    let short = directory.file("short.pcapng");
    let Some(cut) = other("editcap", &[&file, &short, "1"]) else { return };
    assert_eq!(cut.code, Some(0));
    assert_eq!(other("sh", &[script, &short]).unwrap().code, Some(1));
}

#[test]
fn losses_in_trailers_are_shown_by_count_and_info() {
    use burstline_wire::files::{
        Counters, InterfaceDescription, PacketToWrite, SectionDescription, SegmentEncoder,
    };
    use burstline_wire::hash::HashKind;
    use burstline_wire::headers::LinkType;
    let directory = Directory::new("trailers");
    let mut encoder = SegmentEncoder::new(4096, LinkType::ETHERNET, 0, HashKind::None, 0);
    let (mut segment, mut file) = (vec![0; 4096], Vec::new());
    let interface = InterfaceDescription::new(LinkType::ETHERNET, "eth0");
    encoder.header(&mut segment, &SectionDescription::default(), &[interface]).unwrap();
    file.extend(&segment);
    encoder.advance();
    assert!(encoder.push(&mut segment, &PacketToWrite::new(&[7; 60], 1)).unwrap());
    // After its last packet the interface lost some more.
    let counters = Counters { missed: Some(7), lost: Some(5), ..Counters::default() };
    assert!(encoder.push_statistics(&mut segment, 0, 1, &counters).unwrap());
    encoder.finish(&mut segment, &[3, 0, 4, 0, 0, 0, 0, 0]);
    file.extend(&segment);
    let path = directory.file("x.pcapng");
    fs::write(&path, file).unwrap();
    let counted = run_json(&["count", &path], 0);
    assert!(counted["notes"].to_string().contains("miss 3, overrun 4"), "{counted}");
    let info = run_json(&["info", &path], 0);
    let recorded = &first(&info)["recorded"];
    assert_eq!((&recorded["offered"], &recorded["lost"]["overrun"]), (&8.into(), &4.into()));
    let lost = "12 by closing counts; 7 of 8 offered, by trailers, miss 3, overrun 4";
    assert!(run_text(&["info", &path]).contains(lost));
}

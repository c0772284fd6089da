//! What is left of a recording after damage: killed recorders, several folders, other programs'
//! files, files of earlier versions.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::support::live::wait_until;
use crate::support::{
    Directory, REAL, Run, assert_closed, assert_says, capinfos, command, is_root, judged_packets,
    last_object, other, run, run_json, run_with_code, xorshift,
};
use burstline_skip::{ledger, skip};
use burstline_wire::files::{
    InterfaceDescription, PacketToWrite, PcapngEncoder, SectionDescription,
};
use burstline_wire::headers::LinkType;
use serde_json::Value;

/// A recording of 149 packets in segments of 8 KiB with five-tuple hashes, written by a program
/// version with segments of version 1.
const VERSION_1: &[u8] = include_bytes!("../../assets/segments-v1.pcapng.gz");

fn delivered(report: &Value) -> u64 {
    report["total"]["delivered"].as_u64().unwrap()
}

/// Returns the number of packets of a torn file, from another program's list with a line each. Its
/// complaints about the file's end are ignored.
pub(crate) fn listed(program: &str, arguments: &[&str]) -> Option<u64> {
    other(program, arguments).map(|run| run.stdout.lines().count() as u64)
}

/// Records until killed, and returns how many packets are left.
fn kill_one(file: &str, format: &str, random: &mut u64) -> u64 {
    let job = ["capture", "gen:?size=imix&rate=400000", "-w", file, "--format", format, "-q"];
    let flush = ["--flush", "20ms,1MiB"];
    let mut recorder = command(&[&job[..], &flush].concat()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the file begins", || fs::metadata(file).is_ok_and(|found| found.len() > 0));
    thread::sleep(Duration::from_micros(xorshift(random) % 120_000));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let run = run(&["count", file, "--json"]);
    let report = last_object(&run.stdout);
    assert_closed(&report);
    let packets = delivered(&report);
    let wireshark = capinfos(&[file]).map(|(_, packets)| packets);
    // tcpdump does not read compressed files.
    let is_packed = file.ends_with(".zst");
    let tcpdump = listed("tcpdump", &["-nn", "-t", "-r", file]).filter(|_| !is_packed);
    for (who, count) in [("Wireshark", wireshark), ("tcpdump", tcpdump)] {
        assert!(count.is_none_or(|count| count == packets), "{who} {count:?}, {packets}: {file}");
    }
    packets
}

#[test]
fn all_tools_agree_on_what_a_killed_recorder_leaves() {
    let directory = Directory::new("killed");
    let kills = std::env::var("BURSTLINE_KILLS").map_or(30, |kills| kills.parse().unwrap());
    let (mut random, mut packets, mut empty) = (0x2545_F491_4F6C_DD1D, 0, 0);
    for number in 0..kills {
        let format = ["segmented", "pcapng", "pcap", "segmented"][number % 4];
        let ending = if number % 4 == 3 { ".zst" } else { "" };
        let file = directory.file(&format!("{number}-{format}{ending}"));
        let left = kill_one(&file, format, &mut random);
        (packets, empty) = (packets + left, empty + u64::from(left == 0));
        fs::remove_file(&file).unwrap();
    }
    println!("{kills} recorders killed: {packets} packets left, all tools agree; {empty} had none");
    // All other tools found as many.
    ledger(packets, packets, &[]);
}

#[test]
fn files_in_several_folders_take_turns() {
    let directory = Directory::new("stripes");
    for folder in ["d0", "d1", "d2"] {
        fs::create_dir(directory.file(folder)).unwrap();
    }
    let all = directory.file("d{0..2}/x.pcapng");
    let job = ["capture", "gen:?packets=60000&size=1000", "-w", &all];
    let report = run_json(&job, 0);
    assert_closed(&report);
    assert_eq!(delivered(&report), 60_000);
    let files = [0, 1, 2].map(|number| directory.file(&format!("d{number}/x.pcapng")));
    for file in &files {
        assert!(fs::metadata(file).unwrap().len() > 15 << 20, "{file}");
        run_with_code(&["check", file], 0);
    }
    let judged = files.iter().map(|file| judged_packets(file)).reduce(|sum, more| {
        let add = |((who, sum), (_, more))| (who, sum + more);
        sum.into_iter().zip(more).map(add).collect()
    });
    for (who, count) in judged.unwrap_or_default() {
        assert_eq!(count, 60_000, "{who}");
    }
    // As one source they are in time order again.
    let whole = directory.file("whole.pcapng");
    let set = format!("set:{all}");
    assert_eq!(delivered(&run_json(&["capture", &set, "-w", &whole], 0)), 60_000);
    let info = run_json(&["info", &whole], 0);
    assert_eq!(info["files"][0]["order"]["packets"].as_u64().unwrap_or(0), 0, "{info}");
    assert_eq!(run_json(&["extract", &all], 0)["delivered"], 60_000);

    let twice = run(&["capture", "gen:?packets=1", "-w", &directory.file("{d0,d0}/y"), "-q"]);
    assert!(twice.stderr.contains("occurs twice"), "{}", twice.stderr);
    let ring = directory.file("{d0,d1}/r.pcapng");
    let rotation = ["-b", "filesize:9000", "-b", "files:2"];
    run_json(
        &[&["capture", "gen:?packets=90000&size=1000", "-w", &ring][..], &rotation].concat(),
        0,
    );
    for folder in ["d0", "d1"] {
        let is_ring = |entry: &PathBuf| entry.to_string_lossy().contains("/r_");
        let entries = fs::read_dir(directory.file(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path()).filter(is_ring).count();
        assert_eq!(files, 2, "{folder}");
    }
}

#[test]
fn one_disk_that_fails_ends_the_others_in_good_order() {
    let directory = Directory::new("stripe-full");
    if !is_root() {
        return skip("mount takes root");
    }
    for folder in ["full", "roomy"] {
        fs::create_dir(directory.file(folder)).unwrap();
    }
    let full = directory.file("full");
    let mounted = other("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs", &full]);
    if mounted.is_none_or(|run| run.code != Some(0)) {
        return skip("mount is not permitted here");
    }
    let all = directory.file("{roomy,full}/x.pcapng");
    let report = run(&["capture", "gen:?packets=60000&size=1000", "-w", &all, "--json"]);
    let roomy = directory.file("roomy/x.pcapng");
    // It is closed if there was still room for its closing counts.
    let kept = run(&["count", &directory.file("full/x.pcapng"), "--json"]);
    // A program that another thread of this process starts may hold a file there for a moment.
    other("umount", &["--lazy", &full]);
    let (code, kept) = (report.code, last_object(&kept.stdout));
    let report = last_object(&report.stdout);
    assert_eq!(code, Some(1), "{report}");
    assert_closed(&report);
    assert!(report["total"]["lost"]["disk_full"].as_u64() > Some(0), "{report}");
    let roomy = run_json(&["count", &roomy], 0);
    assert_eq!(delivered(&roomy) + delivered(&kept), delivered(&report));
}

#[test]
fn a_set_may_have_files_of_others() {
    if !is_root() {
        return skip("giving a file away takes root");
    }
    let directory = Directory::new("others");
    let folder = directory.file("set");
    fs::create_dir(&folder).unwrap();
    let whole = directory.file("whole.pcapng");
    let load = "gen:?packets=3000&size=200&rate=100000";
    run_json(&["capture", load, "-w", &whole, "-b", "packets:1000"], 0);
    for (number, entry) in fs::read_dir(&directory.0).unwrap().enumerate() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let moved = format!("{folder}/{number}.pcapng");
            fs::rename(&path, &moved).unwrap();
            chown(&moved, Some(65_534), Some(65_534)).unwrap();
            fs::set_permissions(&moved, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
    // Reading needs the capability to read all files, which is dropped before a packet is read.
    assert_eq!(delivered(&run_json(&["count", &format!("set:{folder}")], 0)), 3000);
    assert_eq!(run_json(&["extract", &folder], 0)["delivered"], 3000);
    let pcap = directory.file("x.pcap");
    run_json(&["capture", &format!("set:{folder}"), "-w", &pcap], 0);
    chown(&pcap, Some(65_534), Some(65_534)).unwrap();
    assert_eq!(run(&["index", &pcap]).code, Some(0));
    let first = run_json(&["extract", &pcap, "--to", "+10ms"], 0)["delivered"].as_u64().unwrap();
    assert!((1..3000).contains(&first), "{first}");
}

#[test]
fn recover_takes_more_interfaces_than_a_job_tells_apart() {
    let directory = Directory::new("interfaces");
    let (file, good) = (directory.file("x.pcapng"), directory.file("good.pcapng"));
    let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 0);
    let (mut bytes, mut end) = (vec![0; 1 << 20], 0);
    end += encoder.section(&mut bytes[end..], &SectionDescription::default()).unwrap();
    for number in 0..300 {
        let name = format!("port{number}");
        let interface = InterfaceDescription::new(LinkType::ETHERNET, &name);
        end += encoder.interface(&mut bytes[end..], &interface).unwrap();
    }
    for number in 0..900_u32 {
        let packet = PacketToWrite::new(&[7; 60], 1_000_000_000 + u64::from(number));
        let packet = PacketToWrite { interface: number % 300, ..packet };
        end += encoder.packet(&mut bytes[end..], &packet).unwrap();
    }
    fs::write(&file, &bytes[..end]).unwrap();
    let report = run_json(&["recover", &file, "-w", &good], 0);
    assert_eq!(report["written"], 900, "{report}");
    assert!(report["notes"].to_string().contains("packets of port299 are under port255"));
    for (who, count) in judged_packets(&good) {
        assert_eq!(count, 900, "{who}");
    }
}

#[test]
fn segments_of_version_1_are_read_as_before() {
    let directory = Directory::new("version-1");
    let (packed, old) = (directory.file("old.pcapng.gz"), directory.file("old.pcapng"));
    fs::write(&packed, VERSION_1).unwrap();
    assert_eq!(other("gzip", &["-d", &packed]).and_then(|run| run.code), Some(0));
    let checked = run(&["check", &old]);
    assert!(
        checked.stdout.contains("sound, 149 packets, all with a checksum"),
        "{}",
        checked.stdout
    );
    let new = directory.file("new.pcapng");
    let output = format!("file:{new}?format=segmented&segment=8k");
    run_json(&["capture", &old, "--hash", "five-tuple", "-o", &output], 0);
    let sizes = [&old, &new].map(|file| fs::metadata(file).unwrap().len());
    assert!(sizes[1] <= sizes[0], "{sizes:?}");
    let Some(flows) =
        other("tshark", &["-r", &old, "-Y", "udp", "-T", "fields", "-e", "communityid"])
    else {
        return;
    };
    let flow = flows.stdout.lines().find(|line| line.starts_with("1:")).map(str::to_owned);
    let question = ["--from", "+0s"].map(str::to_owned);
    let question = flow.map_or(question.to_vec(), |flow| vec!["--flow".to_owned(), flow]);
    let ask = |file: &str| {
        let words: Vec<&str> = question.iter().map(String::as_str).collect();
        run_json(&[&["extract", file][..], &words].concat(), 0)["delivered"].clone()
    };
    assert_eq!(ask(&old), ask(&new));
    assert!(ask(&old).as_u64() > Some(0));
}

#[test]
fn a_recording_that_was_broken_off_goes_on_in_a_next_file() {
    let directory = Directory::new("resume");
    let (file, next) = (directory.file("x.pcapng"), directory.file("x-2.pcapng"));
    let job = |packets: u32, more: &[&str]| {
        let load = format!("gen:?packets={packets}&size=1000");
        run(&[&["capture", &load, "-w", &file, "--format", "segmented"][..], more].concat())
    };
    // Without an existing file it begins a new one.
    assert_eq!(job(5000, &["--resume"]).code, Some(0));
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - (700 << 10)]).unwrap();
    let torn = fs::read(&file).unwrap();
    let left = delivered(&last_object(&run(&["count", &file, "--json"]).stdout));
    let resumed = job(1000, &["--resume"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let said = format!("x.pcapng, which was broken off: {left} packets, 0 corrupt, 0 missing");
    assert!(resumed.stderr.contains(&said), "{said}: {}", resumed.stderr);
    assert!(fs::read(&file).unwrap() == torn, "what is there stays");
    let bytes = fs::read(&next).unwrap();
    assert!(bytes.windows(said.len()).any(|part| part == said.as_bytes()));
    let segment = burstline_wire::files::SegmentIndex::parse(&bytes[1 << 20..2 << 20]).unwrap();
    assert_eq!(segment.trailer().first_packet, left);
    for (who, count) in judged_packets(&next) {
        assert_eq!(count, 1000, "{who}");
    }
    // And a third time, with rotated files.
    assert!(job(10, &["--resume"]).stderr.contains("x-2.pcapng, which is whole: 1000 packets"));
    for (name, newest) in [("r.pcapng", "r_00003_"), ("z.pcapng.gz", "z_00003_")] {
        let ring = directory.file(name);
        let rotate = ["capture", "gen:?packets=30", "-w", &ring, "-b", "packets:10", "--resume"];
        assert!(!run(&rotate).stderr.contains("resumes after"), "{name}");
        assert!(run(&rotate).stderr.contains(newest), "{name}: the newest");
    }
    assert_says(&["capture", "gen:?packets=1", "-w", "-", "--resume"], 2, "regular files");
}

/// A file that ends within its first segment is plain: like an empty one, it has no numbers.
#[test]
fn the_numbers_of_packets_go_on_behind_files_that_do_not_say_theirs() {
    let directory = Directory::new("resume-numbers");
    let file = directory.file("x.pcapng");
    let job = |packets: u32, more: &[&str]| {
        let load = format!("gen:?packets={packets}&size=1000");
        run_with_code(&[&["capture", &load, "-w", &file, "--resume"][..], more].concat(), 0);
    };
    let first = |name: &str, rest: &[&str]| {
        job(3000, rest);
        let bytes = fs::read(directory.file(name)).unwrap();
        let segment = burstline_wire::files::SegmentIndex::parse(&bytes[1 << 20..2 << 20]).unwrap();
        segment.trailer().first_packet
    };
    job(3000, &[]);
    job(10, &[]);
    assert_eq!(first("x-3.pcapng", &[]), 3010);
    fs::write(directory.file("x-4.pcapng"), "").unwrap();
    assert_eq!(first("x-5.pcapng", &[]), 6010);
}

/// Writes a file of 30 Ethernet packets and 12 of another link type.
fn two_link_types(directory: &Directory) -> String {
    link_types(directory, [30, 12], 60)
}

/// Writes a file of these numbers of packets, of Ethernet and of another link type. A packet has
/// `length` bytes.
pub(crate) fn link_types(
    directory: &Directory,
    [ethernet, other]: [u64; 2],
    length: usize,
) -> String {
    let file = directory.file("mixed.pcapng");
    let (mut bytes, mut end) = (vec![0; 8 << 20], 0);
    // libpcap would refuse to write such a file, and so would our encoder: two sections.
    let packet = [0; 1500];
    for (link, packets) in [(LinkType::ETHERNET, ethernet), (LinkType::LINUX_SLL, other)] {
        let mut encoder = PcapngEncoder::new(link, 0);
        end += encoder.section(&mut bytes[end..], &SectionDescription::default()).unwrap();
        let interface = InterfaceDescription::new(link, "eth0");
        end += encoder.interface(&mut bytes[end..], &interface).unwrap();
        for number in 0..packets {
            let packet = PacketToWrite::new(&packet[..length], 1_000_000_000 + number);
            end += encoder.packet(&mut bytes[end..], &packet).unwrap();
        }
    }
    fs::write(&file, &bytes[..end]).unwrap();
    file
}

#[test]
fn each_link_type_gets_a_file() {
    let directory = Directory::new("links");
    let (file, out) = (two_link_types(&directory), directory.file("x.pcapng"));
    let report = run_json(&["capture", &file, "-w", &out, "--link-types", "split"], 0);
    assert_closed(&report);
    assert_eq!(delivered(&report), 42);
    assert_split(&directory, "x.pcapng");
}

/// Asserts that a file and the one beside it have the packets of [`two_link_types`].
fn assert_split(directory: &Directory, name: &str) {
    let (stem, extension) = name.split_once('.').unwrap();
    let other = format!("{stem}-link113.{extension}");
    for (file, packets) in [(name, 30), (other.as_str(), 12)] {
        let file = directory.file(file);
        let read = run_json(&["count", &file], 0);
        assert_eq!(delivered(&read), packets, "{file}");
        for (who, count) in judged_packets(&file) {
            assert_eq!(count, packets, "{who} {file}");
        }
    }
}

#[test]
fn what_is_extracted_or_recovered_has_a_file_for_each_link_type_too() {
    let directory = Directory::new("links-extracted");
    let file = two_link_types(&directory);
    for (verb, name) in [("extract", "e.pcap"), ("recover", "r.pcap"), ("recover", "z.pcapng.zst")]
    {
        let report =
            run_json(&[verb, &file, "-w", &directory.file(name), "--link-types", "split"], 0);
        let written = if verb == "extract" { "delivered" } else { "written" };
        assert_eq!((&report[written], &report["offered"]), (&42.into(), &42.into()), "{report}");
        if !name.ends_with("zst") {
            assert_split(&directory, name);
        }
    }
    let other = run_json(&["count", &directory.file("z-link113.pcapng.zst")], 0);
    assert_eq!(delivered(&other), 12);
    // There is no second device.
    let report = run_json(
        &["extract", &file, "-w", "/dev/null", "--link-types", "split", "--format", "pcap"],
        1,
    );
    assert!(report["notes"].to_string().contains("no regular file takes one"), "{report}");
}

#[test]
fn a_resumed_recording_tells_of_the_files_of_all_link_types() {
    let directory = Directory::new("links-told");
    let (file, out) = (two_link_types(&directory), directory.file("x.pcapng"));
    let job = ["capture", &file, "-w", &out, "--link-types", "split", "--resume"];
    run_json(&job, 0);
    let other = directory.file("x-link113.pcapng");
    let whole = fs::read(&other).unwrap();
    fs::write(&other, &whole[..whole.len() - 20]).unwrap();
    let next = run(&job);
    for told in ["x.pcapng, which is whole: 30", "x-link113.pcapng, which was broken off: 12"] {
        assert!(next.stderr.contains(told), "{told}: {}", next.stderr);
    }
    // A number is taken, also if only the file of the first link type was moved away.
    let second = directory.file("x-2-link113.pcapng");
    let before = fs::read(&second).unwrap();
    fs::remove_file(directory.file("x-2.pcapng")).unwrap();
    run_json(&job, 0);
    assert!(fs::read(&second).unwrap() == before, "it is not written again");
    assert!(fs::exists(directory.file("x-3.pcapng")).unwrap());
}

#[test]
fn a_resumed_rotation_tells_of_the_newest_files_of_all_link_types() {
    let directory = Directory::new("links-rotated");
    let file = two_link_types(&directory);
    for (limit, wanted) in [
        (["-b", "packets:10"], ["x_00003_", "x-link113_00002_"]),
        (["-C", "1"], ["x.pcapng,", "x-link113.pcapng,"]),
    ] {
        let folder = directory.file(&limit[0][1..]);
        fs::create_dir(&folder).unwrap();
        let out = format!("{folder}/x.pcapng");
        let split = ["--link-types", "split", "--resume"];
        let job = [&["capture", &file, "-w", &out][..], &limit, &split].concat();
        run_json(&job, 0);
        let next = run(&job);
        assert_eq!(next.code, Some(0), "{}", next.stderr);
        for told in wanted {
            assert!(next.stderr.contains(told), "{told}: {}", next.stderr);
        }
        let all = run_json(&["count", &format!("set:{folder}")], 0);
        assert_eq!(delivered(&all), 84, "nothing is written over: {all}");
    }
}

#[test]
fn packets_that_an_extract_could_not_write_are_not_delivered() {
    let directory = Directory::new("links-lost");
    let (file, one) = (two_link_types(&directory), directory.file("one.pcap"));
    let question = ["extract", &file, "-w", &one];
    let report = run_json(&question, 1);
    assert_eq!((&report["offered"], &report["delivered"]), (&42.into(), &30.into()), "{report}");
    assert_eq!(report["lost"]["link_mismatch"], 12, "{report}");
    assert_eq!(report["bytes"], run_json(&["count", &one], 0)["total"]["bytes"], "{report}");
    let text = run_with_code(&question, 1).stdout;
    assert!(text.starts_with("30 of 42 packets written to "), "{text}");
    // A disk that is full from the start.
    let report = run_json(&["extract", REAL, "-w", "/dev/full", "--format", "pcap"], 1);
    assert_eq!((&report["delivered"], &report["bytes"]), (&0.into(), &0.into()), "{report}");
    let (lost, offered) = (&report["lost"]["disk_full"], &report["offered"]);
    assert_eq!((lost, &report["unaccounted"]), (offered, &0.into()), "{report}");
}

/// Standard output is one file.
#[test]
fn standard_output_takes_one_link_type() {
    let directory = Directory::new("links-standard");
    let file = two_link_types(&directory);
    let job = ["capture", &file, "-w", "-", "--link-types", "split", "--keep-privileges"];
    let run = Run::from(command(&job).current_dir(&directory.0).output().unwrap());
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("no file for link type 113: standard output"), "{}", run.stderr);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1, "no file is made beside the input");
}

#[test]
fn recover_fails_if_packets_of_a_second_link_type_are_left_out() {
    let directory = Directory::new("links-recovered");
    let (file, one) = (two_link_types(&directory), directory.file("one.pcapng"));
    let recovered = run_json(&["recover", &file, "-w", &one], 1);
    assert_eq!(recovered["lost"]["link_mismatch"], 12, "{recovered}");
}

#[test]
fn a_pcap_does_not_say_whether_it_is_complete() {
    let directory = Directory::new("resume-pcap");
    let job = ["capture", "gen:?packets=10", "-w", &directory.file("x.pcap"), "--resume"];
    run_json(&job, 0);
    let next = run(&job);
    let told = "x.pcap, which is sound, but a pcap does not say whether it is complete: 10 packets";
    assert!(next.stderr.contains(told), "{}", next.stderr);
}

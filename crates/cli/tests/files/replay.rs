//! Replaying captures: unchanged, at other speeds, rewritten, to several sinks.

use std::fs;

use crate::support::endless::{end, start};
use crate::support::live::{Live, wait_until};
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, assert_closed, assert_says, last_object, other, run,
    run_json,
};
use burstline_testbed::{Bed, FAR, NEAR};
use serde_json::Value;

fn replay(arguments: &[&str], code: i32) -> Value {
    let report = run_json(&[&["replay"], arguments].concat(), code);
    assert_closed(&report);
    report
}

/// Returns time in ns and bytes of each packet of a capture in any format.
fn packets(directory: &Directory, file: &str) -> Vec<(u64, Vec<u8>)> {
    let plain = directory.file("plain.pcap");
    run_json(&["capture", file, "-w", &plain, "--format", "pcap-ns"], 0);
    let bytes = fs::read(&plain).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
    let (mut at, mut packets) = (24, Vec::new());
    while at < bytes.len() {
        let end = at + 16 + word(at + 8) as usize;
        packets.push((word(at) * 1_000_000_000 + word(at + 4), bytes[at + 16..end].to_vec()));
        at = end;
    }
    packets
}

fn bytes_of(packets: &[(u64, Vec<u8>)]) -> Vec<&[u8]> {
    packets.iter().map(|(_, bytes)| &bytes[..]).collect()
}

/// Returns every byte of every packet as printed by tshark, or `None` without tshark.
fn dump(file: &str) -> Option<String> {
    other("tshark", &["-r", file, "-x"]).map(|run| run.stdout)
}

/// Sends a file from the near end while the far end captures, until all `packets` arrived.
fn over_the_cable(
    bed: &Bed,
    directory: &Directory,
    arguments: &[&str],
    packets: u64,
) -> (Value, String) {
    let received = directory.file("received.pcapng");
    let job = format!("capture afpacket:{FAR}?direction=in -w {received}");
    let live = Live::start(bed, directory, &job);
    let arguments = [&["replay"], arguments, &["--json"]].concat();
    let sent = last_object(&bed.near.command(PROGRAM, &arguments).unwrap());
    assert_closed(&sent);
    let delivered = format!("\"received\":{packets},");
    let all = format!("\"delivered\":{packets},");
    wait_until("all is there", || {
        let text = live.text();
        text.contains(&delivered) || text.contains(&all)
    });
    let report = live.stop();
    assert_eq!(report["total"]["delivered"], packets, "{report}");
    (sent, received)
}

#[test]
fn a_real_capture_arrives_packet_for_packet_and_no_faster_than_it_came() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("replay-real");
    let original = packets(&directory, REAL);
    let span_ns = original[original.len() - 1].0 - original[0].0;
    for sink in ["afpacket", "xdp"] {
        let output = format!("{sink}:{NEAR}");
        let arguments = [REAL, "-o", &output, "--speed", "5"];
        let (sent, received) = over_the_cable(&bed, &directory, &arguments, REAL_PACKETS);
        assert_eq!(sent["total"]["delivered"], REAL_PACKETS, "{sent}");
        let timed = &sent["replay"]["lateness_ns"];
        assert_eq!(timed["packets"], REAL_PACKETS, "{sent}");
        let steps: u64 =
            timed["steps"].as_array().unwrap().iter().map(|s| s[1].as_u64().unwrap()).sum();
        assert_eq!(steps, REAL_PACKETS, "each packet is in a step of the histogram: {timed}");
        let elapsed_ns = sent["elapsed_s"].as_f64().unwrap() * 1e9;
        assert!(elapsed_ns >= span_ns as f64 / 5.0, "{elapsed_ns} {span_ns}");
        assert_eq!(bytes_of(&packets(&directory, &received)), bytes_of(&original), "{sink}");
        assert_eq!(dump(&received), dump(REAL), "{sink}: tshark finds the same bytes");
    }
}

#[test]
fn spacing_is_the_files_or_scaled_or_fixed_to_the_nanosecond() {
    let directory = Directory::new("replay-spacing");
    let out = directory.file("out.pcapng");
    let original = packets(&directory, REAL);
    let since = |packets: &[(u64, Vec<u8>)]| -> Vec<u64> {
        packets.iter().map(|(time, _)| time - packets[0].0).collect()
    };
    let mut highest = 0;
    let wanted: Vec<u64> = since_start(&original)
        .map(|at| {
            highest = highest.max(at / 100);
            highest
        })
        .collect();
    replay(&[REAL, "-o", &out, "--speed", "100"], 0);
    assert_eq!(since(&packets(&directory, &out)), wanted);
    let report = replay(&[REAL, "-o", &out, "--rate", "100k", "--burst", "2"], 0);
    let even: Vec<u64> = (0..REAL_PACKETS).map(|number| number / 2 * 20_000).collect();
    assert_eq!(since(&packets(&directory, &out)), even);
    assert!(report["replay"]["asked_pps"].as_f64().unwrap() > 99_000.0, "{report}");
    let report = replay(&[REAL, "-o", &out, "--top-speed"], 0);
    assert_eq!(packets(&directory, &out), original, "at top speed times stay");
    assert_eq!(report["replay"]["lateness_ns"], Value::Null);
}

fn since_start(packets: &[(u64, Vec<u8>)]) -> impl Iterator<Item = u64> {
    packets.iter().map(|(time, _)| time.saturating_sub(packets[0].0))
}

#[test]
fn loops_and_limits_are_exact() {
    let directory = Directory::new("replay-loops");
    let out = directory.file("out.pcapng");
    let report = replay(&[REAL, REAL, "-o", &out, "--top-speed", "--loops", "3"], 0);
    assert_eq!(report["total"]["delivered"], 6 * REAL_PACKETS);
    let original = packets(&directory, REAL);
    let six: Vec<&[u8]> = std::iter::repeat_n(bytes_of(&original), 6).flatten().collect();
    assert_eq!(bytes_of(&packets(&directory, &out)), six);
    let endless = ["--top-speed", "--loops", "0", "--packets", "100000"];
    let report = replay(&[&[REAL, "-o", "null:"], &endless[..]].concat(), 0);
    assert_eq!(report["total"]["delivered"], 100_000);
}

#[test]
fn rewritten_packets_are_as_asked_and_their_checksums_hold() {
    let directory = Directory::new("replay-rewrite");
    let (made, out) = (directory.file("made.pcapng"), directory.file("out.pcapng"));
    let mix = ["--size", "imix", "--protocol", "mix", "--ip", "4", "--flows", "20"];
    let make = ["generate", "-o", &made, "--packets", "500"];
    run_json(&[&make[..], &mix].concat(), 0);
    let rules = "src-mac=02:00:00:00:00:aa,vlan=77,ip=198.18.0.0/15=10.20.0.0/15";
    replay(&[&made, "-o", &out, "--top-speed", "--rewrite", rules], 0);
    let (before, after) = (packets(&directory, &made), packets(&directory, &out));
    for ((_, before), (_, after)) in before.iter().zip(&after) {
        assert_eq!(after[6..18], [2, 0, 0, 0, 0, 0xaa, 0x81, 0, 0, 77, 8, 0]);
        assert_eq!(after.len(), before.len() + 4);
        assert_eq!(after[30..32], [10, before[27] - 18 + 20], "{after:?}");
    }
    let check = ["ip", "tcp", "udp"].map(|what| format!("{what}.check_checksum:TRUE"));
    let wrong = "ip.checksum.status == 0 || udp.checksum.status == 0 || tcp.checksum.status == 0";
    let checks = ["-o", &check[0], "-o", &check[1], "-o", &check[2], "-r", &out];
    let count = |filter: &str| {
        let found = other("tshark", &[&checks[..], &["-Y", filter]].concat())?;
        Some(found.stdout.lines().count())
    };
    assert!(count(wrong).is_none_or(|wrong| wrong == 0), "tshark finds wrong checksums");
    let good = count("(tcp.checksum.status == 1 || udp.checksum.status == 1) && vlan.id == 77");
    assert!(good.is_none_or(|good| good == 500), "{good:?}");
    let report = replay(&[&out, "-o", "null:", "--top-speed", "--filter", "vlan 77 and tcp"], 0);
    let filtered = report["total"]["lost"]["filtered"].as_u64().unwrap();
    assert!(filtered > 0 && filtered < 500, "{report}");
}

#[test]
fn each_interface_goes_where_it_is_mapped() {
    let directory = Directory::new("replay-map");
    let [two, a, b] = ["two.pcapng", "a.pcapng", "b.pcapng"].map(|name| directory.file(name));
    run_json(&["capture", "gen:?packets=300", REAL, "-w", &two], 0);
    let number_of_real = {
        let names = other("capinfos", &["-I", &two]).map(|run| run.stdout).unwrap_or_default();
        usize::from(!names.contains("Interface #0 info:\n                     Name = real"))
    };
    let report = replay(&[&two, "-o", &a, "-o", &b, "--top-speed"], 0);
    let rows = report["ports"].as_array().unwrap();
    let delivered: Vec<u64> = rows.iter().map(|row| row["delivered"].as_u64().unwrap()).collect();
    let mut wanted = [300, REAL_PACKETS];
    if number_of_real == 0 {
        wanted.reverse();
    }
    assert_eq!(delivered, wanted, "{report}");
    let real = [&a, &b][number_of_real];
    let (played, original) = (packets(&directory, real), packets(&directory, REAL));
    assert_eq!(bytes_of(&played), bytes_of(&original));
    // One interface by name; the other is not mapped.
    let map = format!("real-traffic.pcap={b}");
    let report = replay(&[&two, "--map", &map, "--top-speed"], 0);
    assert_eq!(report["total"]["delivered"], REAL_PACKETS, "{report}");
    assert_eq!(report["total"]["lost"]["unmapped"], 300, "{report}");
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(0), "{report}");
    // A name that does not exist maps nothing, and a note says so.
    let (map, number) = (format!("wan={b}"), format!("7={a}"));
    let report = replay(&[&two, "--map", &map, "--map", &number, "--top-speed"], 0);
    assert_eq!(report["total"]["lost"]["unmapped"], 300 + REAL_PACKETS, "{report}");
    let notes = report["notes"].to_string();
    let [wan, seven] = ["from interface 'wan', which", "from interface 7, which"];
    assert!(notes.contains(wan) && notes.contains(seven), "{notes}");
    assert!(notes.contains("(real-traffic.pcap)"), "{notes}");
}

#[test]
fn behind_a_sink_that_breaks_the_others_get_their_part_and_the_ledger_closes() {
    let directory = Directory::new("replay-full");
    let [two, b] = ["two.pcapng", "b.pcapng"].map(|name| directory.file(name));
    run_json(&["capture", "gen:?packets=50000&size=imix", REAL, "-w", &two], 0);
    // Which sink is first depends on which interface came first.
    for sinks in [["/dev/full", &b], [&b, "/dev/full"]] {
        let report = replay(&[&two, "-o", sinks[0], "-o", sinks[1], "--top-speed"], 1);
        assert_eq!(report["total"]["unaccounted"], 0, "{report}");
        assert!(report["total"]["lost"]["disk_full"].as_u64() > Some(0), "{report}");
    }
}

#[test]
fn a_damaged_file_is_an_error_and_the_ledger_is_exact() {
    let directory = Directory::new("replay-damage");
    let file = directory.file("damaged.pcapng");
    run_json(&["capture", "gen:?packets=5000&size=imix", "-w", &file], 0);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 5000].fill(0xee);
    fs::write(&file, bytes).unwrap();
    let report = replay(&[&file, "-o", "null:", "--top-speed", "--loops", "2"], 1);
    let total = &report["total"];
    let delivered = total["delivered"].as_u64().unwrap();
    assert!(delivered > 4000 && delivered < 10_000, "the whole segments, twice: {report}");
    assert_eq!(total["lost"]["corrupt"], 10_000 - delivered, "the other ones: {report}");
    assert_eq!(total["offered"], 10_000);
    assert_eq!(report["damaged"], true);
    let notes = report["notes"].as_array().unwrap();
    assert!(!notes.is_empty() && notes.len() < 5, "the same damage is printed once: {report}");
}

#[test]
fn what_does_not_fit_is_counted_and_jumbo_frames_pass() {
    let Some(bed) = Bed::or_skip() else { return };
    bed.near.command("ip", &["link", "set", NEAR, "mtu", "600"]).unwrap();
    let directory = Directory::new("replay-mtu");
    let original = packets(&directory, REAL);
    let fitting: Vec<&[u8]> =
        bytes_of(&original).into_iter().filter(|bytes| bytes.len() <= 614).collect();
    let arguments = [REAL, "-o", NEAR, "--top-speed"];
    let count = fitting.len() as u64;
    let (sent, received) = over_the_cable(&bed, &directory, &arguments, count);
    assert_eq!(sent["total"]["lost"]["too_long"], REAL_PACKETS - count, "{sent}");
    assert_eq!(bytes_of(&packets(&directory, &received)), fitting);
    drop(bed);
    let bed = Bed::with_mtu(9000).unwrap();
    let jumbo = directory.file("jumbo.pcapng");
    run_json(&["generate", "-o", &jumbo, "--size", "9018", "--packets", "50"], 0);
    let (_, received) = over_the_cable(&bed, &directory, &[&jumbo, "-o", NEAR, "--rate", "1k"], 50);
    assert_eq!(bytes_of(&packets(&directory, &received)), bytes_of(&packets(&directory, &jumbo)));
}

#[test]
fn an_interrupt_leaves_an_exact_ledger() {
    let job = start(&["replay", REAL, "-o", "null:", "--speed", "0.01"]);
    let report = end(job, "-INT");
    assert_closed(&report);
    let delivered = report["total"]["delivered"].as_u64().unwrap();
    assert!(delivered > 0 && delivered < REAL_PACKETS, "{report}");
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    for (flags, word) in [
        ("-o null: --speed 0", "a factor above 0"),
        ("-o null: --speed 2 --rate 1k", "cannot be used with"),
        ("-o null: --rate 50%", "a percentage needs the link's rate"),
        ("-o null: --rate 11Gbit --link 10Gbit", "more than --link"),
        ("-o null: --rate 1000Tbit", "1 bit/s to 1 Tbit/s"),
        ("-o null: --burst 4", "--rate"),
        ("-o null: --rewrite vlan=9999", "0 to 4095"),
        ("--map 0", "INTERFACE=SINK"),
        ("", "--output"),
    ] {
        let flags = flags.split(' ').filter(|flag| !flag.is_empty());
        assert_says(&["replay", REAL].into_iter().chain(flags).collect::<Vec<_>>(), 2, word);
    }
    assert_says(&["replay", "-", "-o", "null:", "--loops", "2"], 2, "only once");
    let live = run(&["replay", "lo", "-o", "null:"]);
    assert!(
        live.code == Some(2) && live.stderr.contains("replay reads files"),
        "{live:?}",
        live = live.stderr
    );
}

//! The losses stated in a recording, in its closing counts and at the packets after each gap, match
//! the ledger.
//!
//! Needs root for `xdp:`, or `unshare -Urn` for the rest; otherwise each test is skipped.

use std::fs;

use crate::support::live::{Live, send_frames, send_frames_from, wait_until};
use crate::support::{Directory, is_root, judged_packets, last_object, other, run};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, signal};
use burstline_wire::files::{Counters, Decoder, FormatError, Step};
use serde_json::Value;

/// More than any ring of these jobs can hold.
const FRAMES: u64 = 100_000;

/// Causes of loss on an interface or at its ring, as listed in `crates/port/src/account.rs`.
const AT_INTERFACE: [&str; 3] = ["rx_ring_full", "fill_ring_empty", "frame_too_small"];

/// The losses that a file states for one of its interfaces.
#[derive(Debug, Default, Clone)]
struct Said {
    counters: Counters,
    /// The sum of all `epb_dropcount`.
    told: u64,
    packets: u64,
}

impl Said {
    /// By a whole file of one interface.
    fn by(path: &str) -> Self {
        let [said] = &Self::so_far(path)[..] else { panic!("{path}: one interface") };
        said.clone()
    }

    /// By each interface of a file that may be growing, in the file's order.
    fn so_far(path: &str) -> Vec<Self> {
        // A pending trigger has created no file yet.
        let (Ok(bytes), mut position) = (fs::read(path), 0) else { return Vec::new() };
        let (mut decoder, mut said) = (Decoder::new(), Vec::<Self>::new());
        loop {
            let step = decoder.next(&bytes, &mut position, true);
            said.resize_with(decoder.interfaces().len(), Self::default);
            match step {
                Step::Packet(record) => {
                    let of = &mut said[record.interface as usize];
                    of.packets += 1;
                    if record.has_options {
                        of.told += decoder.options().drops_before.unwrap_or(0);
                    }
                }
                // The last block of a growing file may be incomplete.
                Step::End | Step::Damage(_) => break,
                Step::Refused(FormatError::Empty) => return Vec::new(),
                step => panic!("{path}: {step:?}"),
            }
        }
        for (said, interface) in said.iter_mut().zip(decoder.interfaces()) {
            said.counters = interface.counters;
        }
        said
    }
}

/// Returns the losses of the last interval that a job has printed, by cause.
fn losses_so_far(live: &Live) -> Value {
    let text = live.text();
    let line = text.rsplit('\n').find(|line| line.ends_with('}'));
    line.map_or(Value::Null, |line| last_object(line)["lost"].clone())
}

fn lost_so_far(live: &Live) -> u64 {
    let losses = losses_so_far(live);
    losses.as_object().map_or(0, |lost| lost.values().filter_map(Value::as_u64).sum())
}

/// Returns what Wireshark's dissector of the file format finds: `ifdrop`, `osdrop`, and the sum of
/// `epb_dropcount`. `None` without tshark.
fn seen_by_tshark(path: &str) -> Option<[u64; 3]> {
    let names = ["interface.dropped", "interface.dropped_by_os", "packet.drop_count"];
    let names = names.map(|name| format!("pcapng.options.option.data.{name}"));
    let how = ["-r", path, "-X", "read_format:MIME Files Format", "-T", "fields"];
    let fields: Vec<_> = names.iter().flat_map(|name| ["-e", name]).collect();
    let found = other("tshark", &[&how[..], &fields].concat())?;
    let mut sums = [0; 3];
    for (sum, column) in sums.iter_mut().zip(found.stdout.trim_end_matches('\n').split('\t')) {
        let values = column.split(',').filter(|value| !value.is_empty());
        *sum = values.map(|value| value.parse::<u64>().unwrap()).sum();
    }
    Some(sums)
}

/// A packet socket for what comes in at an interface of the far host.
fn source_in(interface: &str) -> String {
    format!("afpacket:{interface}?direction=in")
}

/// Stops a capture, sends more than its ring can hold, and resumes it.
fn record_with_a_gap(bed: &Bed, source: &str, flags: &str) {
    let directory = Directory::new(&format!("recorded-{}", &source[..3]));
    let file = directory.file("a.pcapng");
    let job = format!("capture '{source}' --buffer 4m {flags} -w {file}");
    let live = Live::start(bed, &directory, &job);
    let process = live.program.process_id();
    send_frames(bed, 10);
    let count = if flags.contains("--keep") { "\"received\":10" } else { "\"delivered\":10" };
    wait_until("they came", || live.text().contains(count));
    signal(process, "-STOP").unwrap();
    send_frames(bed, FRAMES);
    signal(process, "-CONT").unwrap();
    wait_until("the loss is known", || lost_so_far(&live) > 0);
    // The recorder learns of it a few times per second, and marks the packets that follow.
    wait_until("a packet tells of it", || {
        send_frames(bed, 10);
        Said::so_far(&file).iter().any(|said| said.told > 0)
    });
    live.interrupt();
    let (_, report) = live.end();
    let total = &report["total"];
    let lost = |cause: &str| total["lost"][cause].as_u64().unwrap_or(0);
    let missed: u64 = AT_INTERFACE.iter().map(|cause| lost(cause)).sum();
    assert!(missed > 0, "nothing was lost: {report}");
    let host = total["lost_total"].as_u64().unwrap() - missed - lost("passed");
    let said = Said::by(&file);
    let what = format!("{source} {flags}: {said:?}: {report}");
    assert_eq!(said.counters.missed, Some(missed), "{what}");
    assert_eq!(said.counters.lost, Some(host), "{what}");
    // A file for a trigger ends while packets arrive.
    let received = total["offered"].as_u64().filter(|_| !flags.contains("--keep"));
    assert_eq!(said.counters.received, received, "{what}");
    assert_eq!(said.counters.delivered, Some(said.packets), "{what}");
    assert_eq!(said.told, missed + host, "{what}");
    assert!(judged_packets(&file).iter().all(|&(_, packets)| packets == said.packets));
    if let Some(seen) = seen_by_tshark(&file) {
        assert_eq!(seen, [missed, host, said.told], "{what}");
    }
    let noted = run(&["count", &file]);
    let note =
        format!("{file}: {FAR} lost packets before this file: ifdrop {missed}, osdrop {host}");
    assert!(noted.stdout.contains(&note), "{}", noted.stdout);
}

#[test]
fn a_packet_sockets_recording_says_what_the_ring_had_no_room_for() {
    let Some(bed) = Bed::or_skip() else { return };
    for format in ["segmented", "pcapng"] {
        record_with_a_gap(&bed, &source_in(FAR), &format!("--format {format}"));
    }
}

#[test]
fn an_xdp_sockets_recording_says_what_its_rings_had_no_room_for() {
    if !is_root() {
        return skip("needs root");
    }
    let Some(bed) = Bed::or_skip() else { return };
    for flags in ["--format segmented", "--format pcapng", "--keep 1h --trigger drop --after 1h"] {
        record_with_a_gap(&bed, &format!("xdp:{FAR}"), flags);
    }
}

/// Two interfaces in one file: only one of them loses packets.
#[test]
fn a_recording_states_each_interfaces_own_losses() {
    let Some(bed) = Bed::or_skip() else { return };
    let quiet = "w1";
    bed.connect("w0", quiet, 1500).unwrap();
    let directory = Directory::new("recorded-two");
    for format in ["segmented", "pcapng"] {
        let file = directory.file(&format!("{format}.pcapng"));
        let (in_a, in_b) = (source_in(quiet), source_in(FAR));
        let job = format!("capture '{in_a}' '{in_b}' --buffer 4m --format {format} -w {file}");
        let live = Live::start(&bed, &directory, &job);
        let send_to_both = || {
            send_frames_from(&bed, "w0", 10);
            send_frames(&bed, 10);
        };
        send_to_both();
        wait_until("they came", || live.text().contains("\"delivered\":20"));
        signal(live.program.process_id(), "-STOP").unwrap();
        send_frames(&bed, FRAMES);
        signal(live.program.process_id(), "-CONT").unwrap();
        wait_until("the loss is known", || lost_so_far(&live) > 0);
        wait_until("a packet tells of it", || {
            send_to_both();
            Said::so_far(&file).iter().any(|said| said.told > 0)
        });
        live.interrupt();
        let (_, report) = live.end();
        let lost = report["total"]["lost_total"].as_u64();
        let [a, b] = &Said::so_far(&file)[..] else { panic!("{file}: two interfaces") };
        let what = format!("{format}: {a:?}, {b:?}: {report}");
        assert_eq!((a.counters.missed, a.counters.lost, a.told), (Some(0), Some(0), 0), "{what}");
        assert_eq!((a.counters.received, a.counters.delivered), (Some(a.packets), Some(a.packets)));
        assert_eq!((b.counters.missed, Some(b.told)), (lost, lost), "{what}");
        assert_eq!((b.counters.lost, b.counters.delivered), (Some(0), Some(b.packets)), "{what}");
        assert_eq!(b.counters.received, Some(b.packets + b.told), "{what}");
    }
}

/// Records what another job publishes. One of the two is stopped while more packets arrive than fit
/// into the publisher's ring, or into the log.
fn record_a_log_with_a_gap(is_publishers: bool) {
    let Some(bed) = Bed::or_skip() else { return };
    let folder = |who| Directory::new(&format!("recorded-log-{who}-{is_publishers}"));
    let (of_publisher, of_recorder) = (folder("publisher"), folder("recorder"));
    let (name, file) = (of_publisher.file("tap"), of_recorder.file("a.pcapng"));
    // A ring of 4 MiB, and a log of 1 MiB.
    let source = format!("afpacket:{FAR}?direction=in&blocks=16");
    let job = format!(
        "capture '{source}' --buffer 1m --segment 64k --pages 4k --publish \
         '{name}?lossless=forever'"
    );
    let publisher = Live::start(&bed, &of_publisher, &job);
    let reads = if is_publishers { "?lossless" } else { "" };
    let job = format!("capture 'log:{name}{reads}' --format pcapng -w {file}");
    let recorder = Live::start(&bed, &of_recorder, &job);
    send_frames(&bed, 10);
    wait_until("they came", || recorder.text().contains("\"delivered\":10"));
    let (stopped, cause) = match is_publishers {
        // The publisher's own reader also loses packets.
        true => (&publisher, "rx_ring_full"),
        false => (&recorder, "reader_overrun"),
    };
    let process = stopped.program.process_id();
    signal(process, "-STOP").unwrap();
    send_frames(&bed, FRAMES);
    signal(process, "-CONT").unwrap();
    wait_until("packets tell of all the loss", || {
        send_frames(&bed, 10);
        let lost = losses_so_far(stopped)[cause].as_u64().unwrap_or(0);
        let said = Said::so_far(&file);
        lost > 0 && said.iter().any(|said| said.told >= lost)
    });
    recorder.interrupt();
    let (_, recorded) = recorder.end();
    publisher.interrupt();
    let (_, published) = publisher.end();
    let lost = |report: &Value, cause: &str| report["total"]["lost"][cause].as_u64().unwrap_or(0);
    let (before, overrun) = (lost(&published, "rx_ring_full"), lost(&recorded, "reader_overrun"));
    let said = Said::by(&file);
    let what = format!("{said:?}: {published}: {recorded}");
    let [missed, host] = [said.counters.missed, said.counters.lost].map(Option::unwrap);
    assert_eq!((host, said.told), (overrun, missed + host), "{what}");
    match is_publishers {
        true => assert!(before > 0 && (missed, host) == (before, 0), "{what}"),
        // The publisher marks its losses at packets that the recorder may have missed.
        false => assert!(overrun > 0 && missed <= before, "{what}"),
    }
    if let Some(seen) = seen_by_tshark(&file) {
        assert_eq!(seen, [missed, host, said.told], "{what}");
    }
    let note =
        format!("{file}: {FAR} lost packets before this file: ifdrop {missed}, osdrop {host}");
    let noted = run(&["count", &file]);
    assert!(noted.stdout.contains(&note), "{}", noted.stdout);
}

#[test]
fn a_recording_of_a_log_says_what_its_publisher_lost() {
    record_a_log_with_a_gap(true);
}

#[test]
fn a_recording_of_a_log_says_what_it_was_too_slow_for() {
    record_a_log_with_a_gap(false);
}

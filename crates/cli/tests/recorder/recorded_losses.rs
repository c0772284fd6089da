//! The losses stated in a recording, in its closing counts and at the packets after each gap, match
//! the ledger.
//!
//! ```text
//!   afpacket: xdp: tap:   the kernel's queue is full                       ifdrop
//!   dpdk:                 the kernel's queue in front of a virtual driver  ifdrop
//!                         is full, or the driver counts a packet as missed
//!   nicsim:               the card did not take it                         ifdrop
//!   memif: vhost:         the port refuses an entry of the peer's ring     osdrop
//!   log:                  the publisher lost it                            ifdrop
//!                         the recorder was too slow for the log            osdrop
//! ```
//!
//! A peer of `memif:` or `vhost:` that finds no free slot keeps its packet or drops it on its own
//! side. Nothing in the shared memory tells us, so no recording states it. Both ports take packets
//! by the same code (`crates/port/src/peer/source.rs`). Only `memif:` is tested here, because
//! `burstline_memif` has a client, and `burstline_vhost` has no guest's side.
//!
//! Needs root for `xdp:` and `net_af_xdp`, or `unshare -Urn` for the rest; otherwise each test is
//! skipped.

use std::fs;
use std::path::Path;

use crate::support::live::{Live, send_frames, send_frames_from, send_from, wait_until};
use crate::support::{
    Directory, REAL, REAL_PACKETS, assert_closed, is_root, judged_packets, last_object, other, run,
    run_json,
};
use burstline_memif::{DeviceOptions, Port};
use burstline_peer::{LONGEST, OFFLOAD_BYTES, Put, ToPeer};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, Frames, signal};
use burstline_wire::files::{Counters, Decoder, FormatError, Step};
use serde_json::Value;

/// More than any ring of these jobs can hold.
const FRAMES: u64 = 100_000;

/// Causes of loss on an interface or at its ring, as listed in `crates/port/src/account.rs`.
const AT_INTERFACE: [&str; 6] =
    ["rx_ring_full", "fill_ring_empty", "frame_too_small", "imissed", "ierrors", "rx_nombuf"];

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

/// Returns the sum of these losses, without packets that a job leaves to the host.
fn lost_so_far(live: &Live) -> u64 {
    let losses = losses_so_far(live);
    let lost = losses.as_object().into_iter().flatten().filter(|(cause, _)| *cause != "passed");
    lost.filter_map(|(_, packets)| packets.as_u64()).sum()
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

/// Returns how many packets a report counts as lost to a cause.
fn lost_to(report: &Value, cause: &str) -> u64 {
    report["total"]["lost"][cause].as_u64().unwrap_or(0)
}

fn lost_at_interface(report: &Value) -> u64 {
    AT_INTERFACE.iter().map(|cause| lost_to(report, cause)).sum()
}

/// Checks that tshark and `count` find the losses that a file states for its only interface.
fn check_by_readers(file: &str, interface: &str, said: &Said, what: &str) {
    let [missed, host] = [said.counters.missed, said.counters.lost].map(Option::unwrap);
    if let Some(seen) = seen_by_tshark(file) {
        assert_eq!(seen, [missed, host, said.told], "{what}");
    }
    let noted = run(&["count", file]);
    let note = format!(
        "{file}: {interface} lost packets while this was recorded: ifdrop {missed}, osdrop {host}"
    );
    assert!(noted.stdout.contains(&note), "{}", noted.stdout);
}

/// Stops a job, sends more than its ring can hold, and resumes it.
fn overrun(live: &Live, send: &dyn Fn(u64)) {
    let process = live.program.process_id();
    signal(process, "-STOP").unwrap();
    send(FRAMES);
    signal(process, "-CONT").unwrap();
}

/// A job that records one source, and what it is to record.
struct Recorder<'a> {
    live: Live,
    file: String,
    source: &'a str,
    /// The name of its interface in the file.
    interface: &'a str,
    flags: &'a str,
    /// Sends this many packets that the source accepts.
    send: &'a dyn Fn(u64),
    /// The last field: it is removed when the job has ended.
    _directory: Directory,
}

impl<'a> Recorder<'a> {
    /// Starts a job, and returns when it has ten packets.
    fn start(
        bed: &Bed,
        source: &'a str,
        interface: &'a str,
        flags: &'a str,
        send: &'a dyn Fn(u64),
    ) -> Self {
        let directory = Directory::new(&format!("recorded-{}", &source[..3]));
        let file = directory.file("a.pcapng");
        let job = format!("capture '{source}' --buffer 4m {flags} -w {file}");
        let live = Live::start(bed, &directory, &job);
        send(10);
        let count = if flags.contains("--keep") { "\"received\":10" } else { "\"delivered\":10" };
        wait_until("they came", || live.text().contains(count));
        Self { live, file, source, interface, flags, send, _directory: directory }
    }

    fn overrun(&self) {
        overrun(&self.live, self.send);
    }

    /// Waits until the ledger has this many lost packets.
    fn wait_for_loss(&self, packets: u64) {
        wait_until("all of the loss is known", || lost_so_far(&self.live) == packets);
    }

    /// Ends the job when packets tell of its loss, and compares file, readers and ledger. Returns
    /// the report.
    fn check(self) -> Value {
        let Self { _directory, live, file, source, interface, flags, send } = self;
        // The recorder learns of it a few times per second, and marks the packets that follow.
        wait_until("packets tell of all the loss", || {
            send(10);
            let (lost, said) = (lost_so_far(&live), Said::so_far(&file));
            lost > 0 && said.iter().any(|said| said.told >= lost)
        });
        live.interrupt();
        let (_, report) = live.end();
        let total = &report["total"];
        let missed = lost_at_interface(&report);
        let host = total["lost_total"].as_u64().unwrap() - missed - lost_to(&report, "passed");
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
        check_by_readers(&file, interface, &said, &what);
        report
    }
}

/// Records while the job is stopped in between, and its ring has no room.
fn record_with_a_gap(bed: &Bed, source: &str, interface: &str, flags: &str, send: &dyn Fn(u64)) {
    let recorder = Recorder::start(bed, source, interface, flags, send);
    recorder.overrun();
    let report = recorder.check();
    assert!(lost_at_interface(&report) > 0, "nothing was lost: {report}");
}

/// As [`record_with_a_gap`], with frames that come by the cable.
fn record_the_cable_with_a_gap(bed: &Bed, source: &str, interface: &str, flags: &str) {
    let send = |count| {
        send_frames(bed, count);
    };
    record_with_a_gap(bed, source, interface, flags, &send);
}

#[test]
fn a_packet_sockets_recording_says_what_the_ring_had_no_room_for() {
    let Some(bed) = Bed::or_skip() else { return };
    for format in ["segmented", "pcapng"] {
        record_the_cable_with_a_gap(&bed, &source_in(FAR), FAR, &format!("--format {format}"));
    }
}

#[test]
fn an_xdp_sockets_recording_says_what_its_rings_had_no_room_for() {
    if !is_root() {
        return skip("needs root");
    }
    let Some(bed) = Bed::or_skip() else { return };
    for flags in ["--format segmented", "--format pcapng", "--keep 1h --trigger drop --after 1h"] {
        record_the_cable_with_a_gap(&bed, &format!("xdp:{FAR}"), FAR, flags);
    }
}

#[test]
fn a_taps_recording_says_what_its_queue_had_no_room_for() {
    let Some(bed) = Bed::or_skip() else { return };
    let name = "t0";
    let send = |count| {
        send_from(&bed.far, name, false, Frames::new(count, 100));
    };
    for format in ["segmented", "pcapng"] {
        let flags = format!("--format {format}");
        record_with_a_gap(&bed, &format!("tap:{name}"), name, &flags, &send);
    }
}

/// Puts frames into the ring of a client of `memif:`.
fn put_frames(client: &Port, count: u64, length: usize) {
    let (frames, berth) = (Frames::new(count, length), &client.lanes().lane(0).to);
    let mut put = 0;
    wait_until("the ring has room", || {
        // No ring is there before the two are connected.
        let Some(mut ring) = berth.take() else { return false };
        while put < count && ring.put(&frames.frame(put), &[0; OFFLOAD_BYTES]) == Put::Done {
            put += 1;
        }
        ring.publish();
        berth.give_back(ring);
        put == count
    });
}

#[test]
fn a_memifs_recording_says_which_packets_it_refused() {
    const REFUSED: u64 = 20;
    let Some(bed) = Bed::or_skip() else { return };
    for format in ["segmented", "pcapng"] {
        let directory = Directory::new("recorded-memif-peer");
        let (socket, flags) = (directory.file("socket"), format!("--format {format}"));
        let options = DeviceOptions { queues: 1, is_client: true, id: 0, log2_slots: 10 };
        let client = Port::open(Path::new(&socket), &options).unwrap();
        let send = |count| put_frames(&client, count, 100);
        let source = format!("memif:{socket}");
        let recorder = Recorder::start(&bed, &source, &socket, &flags, &send);
        put_frames(&client, REFUSED, LONGEST + 1);
        recorder.wait_for_loss(REFUSED);
        let report = recorder.check();
        let lost = &report["total"]["lost_total"];
        assert_eq!((lost, lost_to(&report, "too_long")), (&REFUSED.into(), REFUSED), "{report}");
    }
}

#[test]
fn a_simulated_cards_recording_says_what_the_card_did_not_take() {
    let directory = Directory::new("recorded-nicsim");
    for (setting, cause) in [("link_down=10-30", "card_link_down"), ("mtu=500", "card_too_long")] {
        let file = directory.file(&format!("{cause}.pcapng"));
        let source = format!("nicsim:a?source={REAL}&{setting}");
        let report = run_json(&["capture", &source, "-w", &file], 0);
        assert_closed(&report);
        let (lost, all) = (lost_to(&report, cause), &report["total"]["lost_total"]);
        assert!(lost > 0 && all.as_u64() == Some(lost), "{report}");
        let said = Said::by(&file);
        assert_eq!((said.counters.missed, said.counters.lost), (Some(lost), Some(0)), "{said:?}");
        assert_eq!(said.packets, REAL_PACKETS - lost, "{said:?}");
    }
}

/// The losses are found at any time while the job runs; each is in one file.
#[test]
fn the_ledgers_of_all_files_close_and_add_up() {
    let directory = Directory::new("recorded-several");
    let load = directory.file("load.pcapng");
    run_json(&["capture", "gen:?packets=6000&size=1000", "-w", &load], 0);
    let source = format!("nicsim:a?source={load}&link_down=10-30");
    for (part, name, flags) in [
        ("rotated", "x.pcapng", &["-b", "packets:1000"][..]),
        ("striped", "{a,b}.pcapng", &[]),
        ("both", "{a,b}.pcapng", &["-b", "packets:1000"]),
    ] {
        let folder = directory.file(part);
        fs::create_dir(&folder).unwrap();
        let to = format!("{folder}/{name}");
        let report = run_json(&[&["capture", &source, "-w", &to][..], flags].concat(), 0);
        let lost = lost_to(&report, "card_link_down");
        assert!(lost > 0 && report["total"]["lost_total"].as_u64() == Some(lost), "{report}");
        let mut sum = [0; 4];
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path().to_string_lossy().into_owned();
            let Counters { received, missed, lost, delivered, .. } = Said::by(&path).counters;
            let counts = [received, missed, lost, delivered].map(Option::unwrap);
            assert_eq!(counts[0], counts[1..].iter().sum::<u64>(), "{path}: {counts:?}");
            sum.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        }
        let total = |what: &str| report["total"][what].as_u64().unwrap();
        assert_eq!(sum, [total("offered"), lost, 0, total("delivered")], "{name} {flags:?}");
    }
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use burstline_testbed::NEAR;

    use super::*;

    /// Bytes of a frame that is longer than a buffer of `net_af_xdp`.
    const LONG: usize = 2900;

    #[test]
    fn a_drivers_recording_says_what_the_kernel_had_no_room_for_in_front_of_it() {
        let Some(bed) = Bed::or_skip() else { return };
        let more = "huge=no&memory=128&pool=2047";
        let device = "net_af_packet0";
        let source = format!("dpdk:{device},iface={FAR},framecnt=512,blocksz=4096?{more}");
        record_the_cable_with_a_gap(&bed, &source, device, "--format segmented");
        let (device, interface) = ("net_tap0", "t1");
        let send = |count| {
            send_from(&bed.far, interface, false, Frames::new(count, 100));
        };
        let source = format!("dpdk:{device},iface={interface}?{more}");
        record_with_a_gap(&bed, &source, device, "--format pcapng", &send);
    }

    #[test]
    fn a_drivers_recording_says_what_the_driver_counts_as_missed() {
        if !is_root() {
            return skip("needs root");
        }
        let Some(bed) = Bed::or_skip() else { return };
        for (host, end) in [(&bed.near, NEAR), (&bed.far, FAR)] {
            host.command("ip", &["link", "set", end, "mtu", "3000"]).unwrap();
        }
        let send = |count| {
            send_frames(&bed, count);
        };
        let device = "net_af_xdp0";
        let source = format!("dpdk:{device},iface={FAR}?huge=no&memory=128&pool=4095");
        let recorder = Recorder::start(&bed, &source, device, "--format segmented", &send);
        send_from(&bed.near, NEAR, false, Frames::new(10, LONG));
        recorder.wait_for_loss(10);
        let report = recorder.check();
        assert_eq!(lost_to(&report, "imissed"), 10, "{report}");
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
        // Rings of 4 MiB each. `--buffer` is the size of the log behind them, which has room.
        let [in_a, in_b] = [quiet, FAR].map(|end| source_in(end) + "&blocks=16");
        let job = format!("capture '{in_a}' '{in_b}' --format {format} -w {file}");
        let live = Live::start(&bed, &directory, &job);
        let send_to_both = || {
            send_frames_from(&bed, "w0", 10);
            send_frames(&bed, 10);
        };
        send_to_both();
        wait_until("they came", || live.text().contains("\"delivered\":20"));
        overrun(&live, &|count| {
            send_frames(&bed, count);
        });
        wait_until("the loss is known", || lost_so_far(&live) > 0);
        wait_until("a packet tells of it", || {
            send_to_both();
            Said::so_far(&file).iter().any(|said| said.told > 0)
        });
        live.interrupt();
        let (_, report) = live.end();
        let lost = report["total"]["lost_total"].as_u64();
        let mut said = Said::so_far(&file);
        // In the file they are in the order of their first packets.
        said.sort_by_key(|said| said.told);
        let [a, b] = &said[..] else { panic!("{file}: two interfaces") };
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
    overrun(stopped, &|count| {
        send_frames(&bed, count);
    });
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
    let (before, overrun) =
        (lost_to(&published, "rx_ring_full"), lost_to(&recorded, "reader_overrun"));
    let said = Said::by(&file);
    let what = format!("{said:?}: {published}: {recorded}");
    let [missed, host] = [said.counters.missed, said.counters.lost].map(Option::unwrap);
    assert_eq!((host, said.told), (overrun, missed + host), "{what}");
    match is_publishers {
        true => assert!(before > 0 && (missed, host) == (before, 0), "{what}"),
        // The publisher marks its losses at packets that the recorder may have missed.
        false => assert!(overrun > 0 && missed <= before, "{what}"),
    }
    check_by_readers(&file, FAR, &said, &what);
}

#[test]
fn a_recording_of_a_log_says_what_its_publisher_lost() {
    record_a_log_with_a_gap(true);
}

#[test]
fn a_recording_of_a_log_says_what_it_was_too_slow_for() {
    record_a_log_with_a_gap(false);
}

//! Outputs that fail, and outputs that must not be written.

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burstline_log::{Burst, Meta, Scratch};
use burstline_port::{
    InterfaceTotals, Loss, OpenOptions, OutputOptions, PortError, PortState, Rotation, Sink,
    Source, Tally,
};
use burstline_skip::skip;
use burstline_sys::direct::{Creation, free_bytes};
use burstline_wire::files::{Decoder, LossCause, Step};

use common::{Folder, drain_by_lending, open_file, packets, pcap, pump, sink, source};

const FORMATS: [&str; 4] = ["segment=64k", "format=pcapng", "format=pcap-ns", "format=pcap"];

/// The number of interfaces assigned to packets.
const INTERFACES: usize = 3;

/// Assigns the packets of a burst to several interfaces, in an order without a period. Adds them to
/// the tally of each.
fn from_several<'a>(
    burst: &Burst<'a>,
    choice: &'a mut Scratch,
    given: &mut [Tally; INTERFACES],
    turn: &mut u64,
) -> Burst<'a> {
    choice.select(burst, burst.first_packet(), |packet| {
        *turn += 1;
        let port = (*turn * *turn / 7 % INTERFACES as u64) as u8;
        given[usize::from(port)].add(&Tally::one(packet));
        Some((u32::MAX, Meta { port, ..packet.meta() }))
    })
}

/// Sends until the output fails, and returns its error. After `most` packets it is flushed, and
/// must fail then at the latest.
fn pump_from_several(
    from: &mut dyn Source,
    to: &mut dyn Sink,
    given: &mut [Tally; INTERFACES],
    turn: &mut u64,
    most: u64,
) -> PortError {
    let (mut scratch, mut choice) = (Scratch::new(), Scratch::new());
    loop {
        let lent = from.lend(&mut scratch, u64::MAX).unwrap();
        assert!(lent.state != PortState::Ended, "there was room for all");
        let burst = from_several(&lent.burst, &mut choice, given, turn);
        if let Err(error) = to.transmit(&burst) {
            return error;
        }
        if *turn >= most {
            return to.flush().unwrap_err();
        }
    }
}

/// Sends until the output fails; returns the error. Checks the ledger and the readable packets.
fn fill(path: &Path, format: &str) -> PortError {
    fill_and_flush(path, format, u64::MAX)
}

/// As [`fill`], with a flush after `most` packets.
fn fill_and_flush(path: &Path, format: &str, most: u64) -> PortError {
    let job = OpenOptions::default();
    let mut from = source("gen:?packets=100000&size=imix&start=1", &job).unwrap();
    let mut to = sink(&format!("file:{}?{format}", path.display()), &job).unwrap();
    let (mut given, mut turn) = ([Tally::default(); INTERFACES], 0);
    let error = pump_from_several(&mut *from, &mut *to, &mut given, &mut turn, most);
    let PortError::OutputFailed { kept_packets, bytes, .. } = &error else { panic!("{error}") };
    let (kept_packets, bytes) = (*kept_packets, *bytes);
    // Later bursts are refused, and counted.
    let (mut scratch, offered) = (Scratch::new(), to.account().offered);
    let lent = from.lend(&mut scratch, 10).unwrap();
    let mut choice = Scratch::new();
    let burst = from_several(&lent.burst, &mut choice, &mut given, &mut turn);
    to.transmit(&burst).unwrap_err();
    to.finish().unwrap();
    let (account, lost) = (to.account(), to.lost());
    assert_eq!(account.offered, offered + 10);
    assert_eq!(lost.losses(), account.lost);
    assert_eq!(account.in_flight, 0);
    assert_eq!(account.lost.of(Loss::DiskFull), account.lost.total());
    assert_eq!(account.offered - account.lost.total(), kept_packets, "{format}");
    if fs::metadata(path).unwrap().is_file() {
        // Only closing counts follow the kept part, if they had room.
        let closing = fs::metadata(path).unwrap().len() - bytes;
        assert!(closing <= INTERFACES as u64 * 200, "{format}: {closing}");
        if bytes > 0 {
            let mut read = open_file(path);
            let packets = drain_by_lending(&mut *read, u64::MAX);
            assert_eq!(packets.len() as u64, kept_packets, "{format}");
            // The lost bytes are reported exactly.
            for (port, given) in given.iter().enumerate() {
                // A classic file records no interface: there the packets of this one are unknown.
                if !format.starts_with("format=pcap") || format == "format=pcapng" {
                    let kept = given.without(&lost.tally_of(port as u8));
                    let found = packets.iter().filter(|packet| usize::from(packet.port) == port);
                    let bytes = found.clone().map(|packet| packet.bytes.len() as u64).sum();
                    assert_eq!((found.count() as u64, bytes), (kept.packets, kept.bytes), "{port}");
                }
            }
            let kept: u64 = packets.iter().map(|packet| packet.bytes.len() as u64).sum();
            let given: u64 = given.iter().map(|given| given.bytes).sum();
            assert_eq!(kept, given - lost.total().bytes, "{format}");
            // A recording without its closing counts reports that; nothing else is wrong.
            let notes = read.account().notes;
            let is_open = |note: &String| note.contains("the recording is not closed");
            let most = usize::from(closing == 0);
            assert!(notes.len() <= most && notes.iter().all(is_open), "{format}: {notes:?}");
        }
    }
    error
}

#[test]
fn a_full_device_is_one_clear_error() {
    let error = fill(Path::new("/dev/full"), "format=pcapng");
    let text = error.to_string();
    assert!(text.contains("/dev/full") && text.contains("No space left"), "{text}");
    assert!(text.contains("0 packets in 0 bytes are safe"), "{text}");
}

#[test]
fn a_full_disk_leaves_a_whole_file_and_an_exact_count() {
    for format in FORMATS {
        // A removed file may still be open in a child that another test has just started.
        let folder = Folder::new();
        let Some(disk) = Disk::mount(&folder, "size=3m") else {
            return skip("mount is not permitted here");
        };
        let error = fill(&disk.0.join("full"), format);
        let PortError::OutputFailed { kept_packets, .. } = error else { panic!("{error}") };
        assert!(kept_packets > 1000, "{format}: {kept_packets}");
    }
}

/// A file system in memory.
struct Disk(PathBuf);

impl Disk {
    /// `None` if mounting is not permitted.
    fn mount(folder: &Folder, size: &str) -> Option<Self> {
        let place = folder.path("disk");
        fs::create_dir(&place).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", size, "tmpfs"])
            .arg(&place)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(place))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A child started by another test has copies of all descriptors until it runs.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Another program takes more of the disk than a file of the ring has.
#[test]
fn a_ring_of_small_files_makes_as_much_room_as_was_asked_for() {
    const MIB: u64 = 1 << 20;
    let folder = Folder::new();
    let Some(disk) = Disk::mount(&folder, "size=16m") else {
        return skip("mount is not permitted here");
    };
    let rotation = Rotation { packets: Some(100), ring_files: Some(1000), ..Rotation::default() };
    let (rotation, flush, least_free_bytes) = (Some(rotation), None, 4 * MIB);
    let output = OutputOptions { rotation, flush, least_free_bytes, ..OutputOptions::default() };
    let job = OpenOptions { output, ..OpenOptions::default() };
    let ring = disk.0.join("ring.pcapng");
    let mut to = sink(&format!("file:{}?format=pcapng", ring.display()), &job).unwrap();
    let mut record = |packets| {
        let mut from = source(&format!("gen:?packets={packets}&size=1000"), &job).unwrap();
        assert_eq!(pump(&mut *from, &mut *to).unwrap(), packets);
    };
    // 60 files of 100 KiB each; then 5 MiB are left, and 7 are wanted while packets come.
    record(6000_u64);
    fs::write(disk.0.join("others"), vec![7; 5 * MIB as usize]).unwrap();
    record(500);
    to.finish().unwrap();
    let free = free_bytes(File::open(&disk.0).unwrap()).unwrap();
    assert!(free >= 6 * MIB, "{free}");
    let left = fs::read_dir(&disk.0).unwrap().count();
    assert!((30..55).contains(&left), "{left}");
}

#[test]
fn a_limit_on_file_sizes_is_a_full_disk() {
    if !is_limited("a_limit_on_file_sizes_is_a_full_disk") {
        return;
    }
    let folder = Folder::new();
    for format in FORMATS {
        fill(&folder.path("limited"), format);
    }
}

#[test]
fn every_segment_that_was_written_before_one_fails_is_kept() {
    if !is_limited("every_segment_that_was_written_before_one_fails_is_kept") {
        return;
    }
    let folder = Folder::new();
    // Up to 64 segments of 64 KiB are being written. The limit is in segment 23, and it is random
    // whether a burst or the flush hits it; five thousand packets are some thirty segments.
    for round in 0..20 {
        let path = folder.path(&format!("limited-{round}"));
        let error = fill_and_flush(&path, "segment=64k", 5000);
        let PortError::OutputFailed { bytes, .. } = error else { panic!("{error}") };
        assert_eq!(bytes, 23 << 16, "round {round}");
    }
}

/// Whether files are limited to 1500 KiB. Otherwise runs the same test again in a limited child,
/// and requires it to succeed.
fn is_limited(test: &str) -> bool {
    const INNER: &str = "BURSTLINE_TEST_LIMITED";
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    // The signal is ignored, as in the program, and the limit applies only to the child.
    let script = "trap '' XFSZ; ulimit -f 1500; exec \"$0\" --exact \"$1\" --nocapture";
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(INNER, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    false
}

#[test]
fn an_output_that_is_read_or_written_already_is_refused_and_left_alone() {
    let folder = Folder::new();
    let bytes = pcap(0xa1b2_c3d4, false, 1, &packets(10));
    let path = folder.file("a.pcap", &bytes);
    let alias = folder.path("alias");
    fs::hard_link(&path, &alias).unwrap();
    let link = folder.path("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let job = OpenOptions::default();
    let address = |path: &Path| format!("file:{}", path.display());
    let _input = source(&address(&path), &job).unwrap();
    let _again = source(&address(&path), &job).unwrap();
    for other in [&path, &alias, &link] {
        for format in FORMATS {
            let error = sink(&format!("{}?{format}", address(other)), &job).err().unwrap();
            assert!(matches!(error, PortError::SameFile { .. }), "{error:?}");
        }
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let output = address(&folder.path("output"));
    let _output = sink(&output, &job).unwrap();
    assert!(matches!(sink(&output, &job), Err(PortError::SameFile { .. })));
    // Another job may write to it.
    sink(&address(&alias), &OpenOptions::default()).unwrap();
}

#[test]
fn a_file_that_another_program_moves_at_once_is_written() {
    let folder = Folder::new();
    let (path, moved) = (folder.path("new.pcapng"), folder.path("moved"));
    let address = format!("file:{}?format=pcapng", path.display());
    let is_over = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let _ = fs::rename(&path, &moved);
            }
        });
        let open = |_| {
            let output = OutputOptions { flush: None, ..OutputOptions::default() };
            sink(&address, &OpenOptions { output, ..OpenOptions::default() }).err()
        };
        let error = (0..1000).find_map(open);
        is_over.store(true, Relaxed); // a request, publishes no memory
        error
    });
    assert!(error.is_none(), "{error:?}");
}

#[test]
fn a_pipe_whose_reader_goes_is_named() {
    let folder = Folder::new();
    let path = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader_path = path.clone();
    let reader = std::thread::spawn(move || {
        let mut start = [0; 10_000];
        File::open(reader_path).unwrap().read_exact(&mut start).unwrap();
        start
    });
    let job = OpenOptions::default();
    let mut to = sink(&format!("file:{}", path.display()), &job).unwrap();
    let mut from = source("gen:?size=1518&start=1", &job).unwrap();
    let error = pump(&mut *from, &mut *to).expect_err("nobody reads");
    assert!(error.is_pipe_closed(), "{error}");
    let account = to.account();
    let lost = account.lost.of(Loss::PipeClosed);
    assert!(lost > 0 && lost == account.lost.total(), "{account:?}");
    let (start, mut position) = (reader.join().unwrap(), 0);
    let step = Decoder::new().next(&start, &mut position, false);
    assert!(matches!(step, Step::Packet(_)), "{step:?}");
}

/// Its reader may wait for the header, and packets may come late.
#[test]
fn a_pipe_begins_before_the_first_packet() {
    let folder = Folder::new();
    let path = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (tell, begun) = mpsc::channel();
    let reader_path = path.clone();
    let reader = std::thread::spawn(move || {
        let (mut pipe, mut bytes) = (File::open(reader_path).unwrap(), vec![0; 12]);
        pipe.read_exact(&mut bytes).unwrap();
        tell.send(()).unwrap();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let job = OpenOptions::default();
    let mut to = sink(&format!("file:{}", path.display()), &job).unwrap();
    begun.recv_timeout(Duration::from_secs(60)).expect("it has begun");
    assert_eq!(pump(&mut *source("gen:?packets=3&start=1", &job).unwrap(), &mut *to).unwrap(), 3);
    to.finish().unwrap();
    drop(to);
    let bytes = reader.join().unwrap();
    // The type of a section's header block. Source: draft-ietf-opsawg-pcapng, 4.1.
    let sections = bytes.windows(4).filter(|word| *word == [0x0a, 0x0d, 0x0d, 0x0a]).count();
    assert_eq!(sections, 1);
    assert_eq!(drain_by_lending(&mut *open_file(&folder.file("copy", &bytes)), 7).len(), 3);
}

#[test]
fn packets_of_another_link_type_are_dropped_by_name() {
    let folder = Folder::new();
    let job = OpenOptions::default();
    for (name, link) in [("ether", 1), ("raw", 101)] {
        folder.file(name, &pcap(0xa1b2_c3d4, false, link, &packets(20)));
    }
    let path = folder.path("mixed");
    let mut to = sink(&format!("file:{}", path.display()), &job).unwrap();
    let mut taken = Vec::new();
    for name in ["ether", "raw"] {
        let address = format!("file:{}", folder.path(name).display());
        taken.push(pump(&mut *source(&address, &job).unwrap(), &mut *to).unwrap());
    }
    to.finish().unwrap();
    assert_eq!(taken, [20, 0]);
    let account = to.account();
    assert_eq!((account.offered, account.lost.of(Loss::LinkMismatch)), (40, 20));
    assert_eq!(account.notes.len(), 1, "{:?}", account.notes);
    assert!(account.notes[0].contains("--link-types split"), "{:?}", account.notes);
    assert_eq!(drain_by_lending(&mut *open_file(&path), 7).len(), 20);
}

#[test]
fn packets_of_every_size_are_kept_or_named() {
    let folder = Folder::new();
    let lengths = [0_u32, 1, 4_000, 65_536, 262_143, 262_144];
    let list: Vec<_> =
        lengths.iter().map(|&length| (5, 0, length, vec![9; length as usize])).collect();
    folder.file("sizes", &pcap(0xa1b2_c3d4, false, 1, &list));
    let address = format!("file:{}", folder.path("sizes").display());
    for (format, kept) in
        [("segment=1M", 6), ("segment=64k", 3), ("format=pcapng", 6), ("format=pcap", 6)]
    {
        let job = OpenOptions::default();
        let path = folder.path("out");
        let mut to = sink(&format!("file:{}?{format}", path.display()), &job).unwrap();
        let taken = pump(&mut *source(&address, &job).unwrap(), &mut *to).unwrap();
        to.finish().unwrap();
        assert_eq!((taken, to.account().lost.of(Loss::TooLong)), (kept, 6 - kept), "{format}");
        assert_eq!(drain_by_lending(&mut *open_file(&path), 7).len() as u64, kept, "{format}");
    }
}

/// Losses before a packet are recorded in the file once, whatever happens to the packet.
#[test]
fn a_gap_in_front_of_packets_that_are_too_long_is_counted_once() {
    let folder = Folder::new();
    let list =
        [262_143_u32, 262_144, 60, 60].map(|length| (5, 0, length, vec![9; length as usize]));
    folder.file("sizes", &pcap(0xa1b2_c3d4, false, 1, &list));
    let address = format!("file:{}", folder.path("sizes").display());
    let (job, path) = (OpenOptions::default(), folder.path("out"));
    let mut to = sink(&format!("file:{}?segment=64k", path.display()), &job).unwrap();
    to.tell_gap(0, 7);
    assert_eq!(pump(&mut *source(&address, &job).unwrap(), &mut *to).unwrap(), 2);
    to.finish().unwrap();
    let (bytes, mut position) = (fs::read(&path).unwrap(), 0);
    let (mut decoder, mut told) = (Decoder::new(), Vec::new());
    loop {
        match decoder.next(&bytes, &mut position, true) {
            Step::Packet(record) if record.has_options => {
                told.push(decoder.options().drops_before.unwrap_or(0));
            }
            Step::End => break,
            _ => {}
        }
    }
    assert_eq!(told, [7]);
    let losses = decoder.recorded().losses;
    assert_eq!((losses[LossCause::Miss as usize], losses[LossCause::Drop as usize]), (7, 2));
}

#[test]
fn the_closing_counts_are_in_the_file_and_a_file_without_packets_is_valid() {
    let folder = Folder::new();
    for (format, packets) in [("segment=64k", 3), ("format=pcapng", 3), ("segment=1M", 0)] {
        let job = OpenOptions::default();
        let path = folder.path("counted");
        let name = format!("gen:?packets={packets}&start=1");
        let mut from = source(&name, &job).unwrap();
        let mut to = sink(&format!("file:{}?{format}", path.display()), &job).unwrap();
        pump(&mut *from, &mut *to).unwrap();
        to.set_totals(&[InterfaceTotals {
            port: 0,
            received: Some(9),
            missed: 4,
            lost: 2,
            unwanted: 1,
        }]);
        to.finish().unwrap();
        let (bytes, mut position) = (fs::read(&path).unwrap(), 0);
        let mut decoder = Decoder::new();
        while decoder.next(&bytes, &mut position, true) != Step::End {}
        let counters = decoder.interfaces()[0].counters;
        assert_eq!((counters.received, counters.missed), (Some(9), Some(4)), "{format}");
        assert_eq!((counters.lost, counters.delivered), (Some(2), Some(packets)), "{format}");
        assert_eq!(counters.accepted, Some(8), "{format}");
        assert_eq!(decoder.interfaces()[0].name, name);
    }
}

#[test]
fn dev_null_takes_everything_and_stays_what_it_is() {
    let job = OpenOptions::default();
    let mut to = sink("file:/dev/null", &job).unwrap();
    let mut from = source("gen:?packets=5000", &job).unwrap();
    assert_eq!(pump(&mut *from, &mut *to).unwrap(), 5000);
    to.finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert_eq!((to.account().lost.total(), to.account().in_flight), (0, 0));
    let error = sink("file:/dev/null?format=segmented", &job).err().unwrap();
    assert!(error.to_string().contains("for a pipe use format=pcapng"), "{error}");
}

#[test]
fn a_paced_generator_loses_what_a_full_log_cannot_take() {
    let job = OpenOptions::default();
    let mut port = source("gen:?packets=2000&rate=1M&size=1518", &job).unwrap();
    let (_log, mut writer, mut reader) = common::log(4096, 3);
    let mut delivered = 0;
    loop {
        let received = port.receive(&mut writer, u64::MAX).unwrap();
        delivered += received.packets;
        assert_ne!(received.state, PortState::Blocked);
        common::check_ledger(&*port, delivered);
        if received.state == PortState::Ended {
            break;
        }
    }
    writer.publish();
    let mut read = 0;
    while let Some(burst) = reader.next_burst() {
        read += burst.len() as u64;
    }
    let account = port.account();
    assert_eq!((account.offered, read), (2000, delivered));
    assert_eq!(account.lost.of(Loss::LogFull), 2000 - delivered);
    assert!(delivered < 2000);
}

/// Otherwise each failed start with `--resume` would leave files of another number.
#[test]
fn files_that_take_turns_are_made_together_or_not_at_all() {
    let folder = Folder::new();
    let [first, second] = ["a/x", "b/x"].map(|name| folder.path(name));
    let address = format!("file:{}?segment=64k", folder.path("{a,b}/x").display());
    let refused = |is_new: bool| {
        let creation = Creation { is_new, ..Creation::default() };
        let output = OutputOptions { creation, ..OutputOptions::default() };
        let refused = sink(&address, &OpenOptions { output, ..OpenOptions::default() });
        refused.err().unwrap().to_string()
    };
    fs::create_dir(folder.path("a")).unwrap();
    let no_folder = refused(false);
    assert!(no_folder.contains("b/x") && !first.exists(), "{no_folder}");
    // Somebody else's, though it is empty.
    File::create(&first).unwrap();
    refused(false);
    assert!(first.exists());
    fs::remove_file(&first).unwrap();
    fs::create_dir(folder.path("b")).unwrap();
    fs::write(&second, "precious").unwrap();
    let taken = refused(true);
    assert!(taken.contains("already exists") && !first.exists(), "{taken}");
    assert_eq!(fs::read_to_string(&second).unwrap(), "precious");
}

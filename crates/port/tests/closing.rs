//! What files say when they are closed, what ends them, and what becomes of a file that another
//! program removes or moves.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use burstline_log::{Meta, Scratch};
use burstline_port::{
    FileNaming, Flush, InterfaceTotals, Loss, OpenOptions, OutputOptions, Rotation, Sink,
};
use burstline_sys::clock;
use burstline_wire::files::{Counters, Decoder, LossCause, Step};

use common::{Folder, drain_by_lending, open_file, pump, sink, source};

/// Sends packets of 1,000 bytes.
fn send(to: &mut dyn Sink, packets: u64) {
    let from = format!("gen:?packets={packets}&size=1000&start=1");
    let mut from = source(&from, &OpenOptions::default()).unwrap();
    assert_eq!(pump(&mut *from, to).unwrap(), packets);
}

/// Reads a file to its end.
fn decoded(path: &Path) -> Decoder {
    let (bytes, mut position) = (fs::read(path).unwrap(), 0);
    let mut decoder = Decoder::new();
    while decoder.next(&bytes, &mut position, true) != Step::End {}
    decoder
}

/// Returns what a file says of its only interface: received, missed, lost, not asked for,
/// delivered.
fn said(path: &Path) -> [u64; 5] {
    let Counters { received, missed, accepted, lost, delivered } =
        decoded(path).interfaces()[0].counters;
    let received = received.unwrap();
    [received, missed.unwrap(), lost.unwrap(), received - accepted.unwrap(), delivered.unwrap()]
}

/// Checks that the ledger closes.
fn assert_closes(said: &[u64; 5]) {
    let [received, rest @ ..] = said;
    assert_eq!(*received, rest.iter().sum::<u64>(), "{said:?}");
}

fn options(output: OutputOptions) -> OpenOptions {
    OpenOptions { output, ..OpenOptions::default() }
}

/// Files of so many packets, with numbers.
fn of_packets(packets: u64) -> Option<Rotation> {
    let naming = FileNaming::Counted;
    Some(Rotation { packets: Some(packets), naming, ..Rotation::default() })
}

#[test]
fn each_file_of_a_rotation_has_the_ledger_of_its_own_time() {
    for format in ["format=pcapng", "segment=64k"] {
        let folder = Folder::new();
        let job = options(OutputOptions { rotation: of_packets(10), ..OutputOptions::default() });
        let path = folder.path("x");
        let mut to = sink(&format!("file:{}?{format}", path.display()), &job).unwrap();
        let totals = InterfaceTotals { missed: 5, ..InterfaceTotals::default() };
        send(&mut *to, 10);
        to.set_totals(&[totals]);
        to.tell_gap(0, 5);
        send(&mut *to, 15);
        let received = Some(25 + 5 + 2 + 1);
        to.set_totals(&[InterfaceTotals { received, lost: 2, unwanted: 1, ..totals }]);
        to.finish().unwrap();
        let all = ["x", "x1", "x2"].map(|name| said(&folder.path(name)));
        assert_eq!(all, [[15, 5, 0, 0, 10], [10, 0, 0, 0, 10], [8, 0, 2, 1, 5]], "{format}");
    }
}

#[test]
fn the_ledgers_of_striped_files_close_and_add_up() {
    for rotation in [None, of_packets(300)] {
        let folder = Folder::new();
        fs::create_dir(folder.path("a")).unwrap();
        fs::create_dir(folder.path("b")).unwrap();
        let job = options(OutputOptions { rotation, ..OutputOptions::default() });
        let path = folder.path("{a,b}/x");
        let mut to = sink(&format!("file:{}?segment=64k", path.display()), &job).unwrap();
        let totals = InterfaceTotals { missed: 4, ..InterfaceTotals::default() };
        for round in 0..20 {
            send(&mut *to, 50);
            if round == 10 {
                to.tell_gap(0, 4);
                to.set_totals(&[totals]);
            }
        }
        let received = Some(1000 + 4 + 2 + 1);
        to.set_totals(&[InterfaceTotals { received, lost: 2, unwanted: 1, ..totals }]);
        to.finish().unwrap();
        let mut sum = [0; 5];
        for stripe in ["a", "b"] {
            for entry in fs::read_dir(folder.path(stripe)).unwrap() {
                let said = said(&entry.unwrap().path());
                assert_closes(&said);
                assert!(said[4] > 0, "it has packets: {said:?}");
                sum.iter_mut().zip(said).for_each(|(sum, more)| *sum += more);
            }
        }
        assert_eq!(sum, [1007, 4, 2, 1, 1000]);
    }
}

#[test]
fn segments_tell_what_a_slow_reader_missed_from_what_the_source_lost() {
    let folder = Folder::new();
    let path = folder.path("x");
    let job = OpenOptions::default();
    let mut to = sink(&format!("file:{}?segment=64k", path.display()), &job).unwrap();
    to.tell_gap(0, 4);
    to.tell_overrun(0, 3);
    send(&mut *to, 10);
    // No packet reports these.
    to.tell_gap(0, 2);
    to.tell_overrun(0, 1);
    to.finish().unwrap();
    let losses = decoded(&path).recorded().losses;
    let of = |cause: LossCause| losses[cause as usize];
    assert_eq!((of(LossCause::Miss), of(LossCause::Overrun)), (6, 4));
}

/// What another program does to an open file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Removes,
    Replaces,
    RemovesFolder,
}

/// Opens a file in a folder of its own, and writes 100 packets.
fn half_written(folder: &Folder, output: OutputOptions) -> (Box<dyn Sink>, PathBuf) {
    let _ = fs::remove_dir_all(folder.path("r"));
    fs::create_dir(folder.path("r")).unwrap();
    let path = folder.path("r/x.pcapng");
    let mut to = sink(&format!("file:{}", path.display()), &options(output)).unwrap();
    send(&mut *to, 100);
    to.flush().unwrap();
    (to, path)
}

#[test]
fn packets_of_a_file_that_was_removed_are_lost() {
    let folder = Folder::new();
    for flush in [None, Some(Flush::default())] {
        for harm in [Harm::Removes, Harm::Replaces, Harm::RemovesFolder] {
            let on_close = vec!["rm".to_owned(), "{}".to_owned()];
            let output = OutputOptions { flush, on_close, ..OutputOptions::default() };
            let (mut to, path) = half_written(&folder, output);
            match harm {
                Harm::Removes => fs::remove_file(&path).unwrap(),
                Harm::Replaces => {
                    fs::write(folder.path("other"), "precious").unwrap();
                    fs::rename(folder.path("other"), &path).unwrap();
                }
                Harm::RemovesFolder => fs::remove_dir_all(folder.path("r")).unwrap(),
            }
            let error = to.finish().unwrap_err().to_string();
            let what = format!("{flush:?} {harm:?}: {error}");
            assert!(error.contains("it was removed or replaced while it was written"), "{what}");
            assert_eq!(to.lost().losses().of(Loss::WriteError), 100, "{what}");
            assert_eq!(to.account().in_flight, 0, "{what}");
            if let Harm::Replaces = harm {
                assert_eq!(fs::read_to_string(&path).unwrap(), "precious", "{what}");
            }
        }
    }
}

#[test]
fn a_file_that_was_moved_keeps_its_packets_and_no_command_is_run_for_another() {
    let folder = Folder::new();
    let on_close = vec!["rm".to_owned(), "{}".to_owned()];
    let output = OutputOptions { on_close, ..OutputOptions::default() };
    let (mut to, path) = half_written(&folder, output);
    let moved = folder.path("r/y.pcapng");
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "precious").unwrap();
    to.finish().unwrap();
    let notes = to.account().notes.join("\n");
    assert!(notes.contains("was moved while it was written"), "{notes}");
    assert!(notes.contains("--on-close is not run"), "{notes}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(drain_by_lending(&mut *open_file(&moved), u64::MAX).len(), 100);
}

#[test]
fn a_file_of_a_rotation_that_was_removed_ends_the_job() {
    let folder = Folder::new();
    let job = options(OutputOptions { rotation: of_packets(50), ..OutputOptions::default() });
    let path = folder.path("x");
    let mut to = sink(&format!("file:{}?format=pcapng", path.display()), &job).unwrap();
    send(&mut *to, 50);
    fs::remove_file(&path).unwrap();
    let mut from = source("gen:?packets=50&start=1", &OpenOptions::default()).unwrap();
    let error = pump(&mut *from, &mut *to).unwrap_err();
    assert_eq!(error.loss(), Loss::WriteError, "{error}");
    // The thread that syncs may have found it, too.
    let _ = to.finish();
    let offered = to.account().offered;
    assert!(offered > 50);
    assert_eq!(to.lost().losses().of(Loss::WriteError), offered);
}

/// Sends one packet of this time.
fn send_at(to: &mut dyn Sink, time_ns: u64) {
    let mut scratch = Scratch::new();
    scratch.push(0, 60, &Meta::new(time_ns, 60, 0));
    assert_eq!(to.transmit(&scratch.burst(&[0; 60], 0)).unwrap(), 1);
}

#[test]
fn a_file_whose_time_is_over_ends_on_an_idle_link() {
    let (folder, naming) = (Folder::new(), FileNaming::Counted);
    let rotation = Some(Rotation { duration_ns: Some(1), naming, ..Rotation::default() });
    let job = options(OutputOptions { rotation, ..OutputOptions::default() });
    let open = |name: &str| {
        let path = folder.path(name);
        sink(&format!("file:{}?format=pcapng", path.display()), &job).unwrap()
    };
    let (mut live, mut old) = (open("live"), open("old"));
    send_at(&mut *live, clock::realtime_ns());
    // A recording's packets are of no time that the clock knows.
    send_at(&mut *old, 1_700_000_000_000_000_000);
    let mut is_over = false;
    for _ in 0..6000 {
        live.look_at_clock().unwrap();
        old.look_at_clock().unwrap();
        is_over = live.account().file.is_none();
        if is_over {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(is_over, "not within a minute");
    assert_eq!(said(&folder.path("live")), [1, 0, 0, 0, 1]);
    assert!(old.account().file.is_some());
    // Losses that are known only now are in a file, too; else there is none without packets.
    let all = InterfaceTotals { received: Some(4), missed: 3, ..InterfaceTotals::default() };
    live.set_totals(&[all]);
    live.finish().unwrap();
    assert_eq!(said(&folder.path("live1")), [3, 3, 0, 0, 0]);
    old.finish().unwrap();
    assert!(!folder.path("old1").exists());
}

//! Properties of every sink.

use burstline_log::Scratch;
use burstline_port::{FaultInjector, FaultPlan, Loss, OpenOptions, PortState, Sink, Tracer};

use crate::backends::{PACKETS, options, sources};
use crate::common::{Folder, Got, drain_by_lending, open_file, pump, sink, source};

const FORMATS: [&str; 5] =
    ["segment=64k", "segment=1M", "format=pcapng", "format=pcap-ns", "format=pcap"];

#[test]
fn a_file_gives_back_what_was_sent_to_it() {
    let folder = Folder::new();
    for backend in sources(&folder).into_iter().filter(|backend| !backend.is_slow) {
        for format in FORMATS {
            let job = options();
            let path = folder.path("out");
            let mut from = (backend.open)();
            let mut to = sink(&format!("file:{}?{format}", path.display()), &job).unwrap();
            let (mut scratch, mut sent) = (Scratch::new(), Vec::new());
            loop {
                let lent = from.lend(&mut scratch, 97).unwrap();
                sent.extend(lent.burst.packets().map(|packet| crate::common::Got::new(&packet)));
                assert_eq!(to.transmit(&lent.burst).unwrap(), lent.burst.len() as u64);
                let account = to.account();
                assert_eq!((account.offered, account.lost.total()), (sent.len() as u64, 0));
                if lent.state == PortState::Ended {
                    break;
                }
            }
            to.finish().unwrap();
            assert_eq!(to.account().in_flight, 0, "{} {format}", backend.name);
            let read = drain_by_lending(&mut *open_file(&path), u64::MAX);
            assert_eq!(read.len(), sent.len(), "{} {format}", backend.name);
            let unit = if format == "format=pcap" { 1000 } else { 1 };
            for (read, sent) in read.iter().zip(&sent) {
                assert_eq!(read.bytes, sent.bytes, "{} {format}", backend.name);
                assert_eq!(read.time_ns, sent.time_ns / unit * unit);
                assert_eq!(read.original_length, sent.original_length);
                if !format.contains("pcap-ns") && unit == 1 {
                    assert_eq!((read.drops_before, read.flags), (sent.drops_before, sent.flags));
                }
            }
        }
    }
}

#[test]
fn a_log_gives_its_readers_what_was_sent_to_it() {
    let folder = Folder::new();
    let quick = sources(&folder).into_iter().filter(|backend| !backend.is_slow);
    for (number, backend) in quick.enumerate() {
        let name = folder.path(&format!("tap-{number}")).display().to_string();
        let mut from = (backend.open)();
        let mut to = sink(&format!("log:{name}?lossless=yes"), &options()).unwrap();
        let mut reader = source(&format!("log:{name}?lossless&from=oldest"), &options()).unwrap();
        let (mut scratch, mut sent, mut read) = (Scratch::new(), Vec::new(), Vec::new());
        loop {
            let lent = from.lend(&mut scratch, 97).unwrap();
            sent.extend(lent.burst.packets().map(|packet| Got::new(&packet)));
            assert_eq!(to.transmit(&lent.burst).unwrap(), lent.burst.len() as u64);
            let is_over = lent.state == PortState::Ended;
            while read.len() < sent.len() {
                let lent = reader.lend(&mut scratch, 50).unwrap();
                read.extend(lent.burst.packets().map(|packet| Got::new(&packet)));
            }
            if is_over {
                break;
            }
        }
        to.finish().unwrap();
        while reader.lend(&mut scratch, 50).unwrap().state != PortState::Ended {}
        let account = to.account();
        assert_eq!((account.offered, account.lost.total()), (sent.len() as u64, 0));
        assert_eq!(read.len(), sent.len(), "{}", backend.name);
        for (read, sent) in read.iter().zip(&sent) {
            let (got, given) = ((&read.bytes, read.time_ns), (&sent.bytes, sent.time_ns));
            assert_eq!(got, given, "{}", backend.name);
            assert_eq!(read.original_length, sent.original_length, "{}", backend.name);
            assert_eq!((read.drops_before, read.flags), (sent.drops_before, sent.flags));
        }
    }
}

#[test]
fn a_log_whose_reader_stands_still_loses_by_name_and_goes_on() {
    let folder = Folder::new();
    let name = folder.path("still").display().to_string();
    let address = format!("log:{name}?lossless=yes&bytes=2m&wait_ms=20");
    let mut to = sink(&address, &options()).unwrap();
    let mut reader = source(&format!("log:{name}?lossless&from=oldest"), &options()).unwrap();
    let mut scratch = Scratch::new();
    let send = |to: &mut dyn Sink| {
        let mut from = source("gen:?packets=3000&size=1518", &options()).unwrap();
        pump(&mut *from, to).unwrap()
    };
    // 4.5 MB into a log of 2 MiB.
    let mut taken = send(&mut *to);
    let lost = to.account().lost.of(Loss::LogFull);
    assert!(lost > 0 && taken > 500 && taken + lost == 3000, "{taken} {lost}");
    let mut read = 0;
    let mut read_all = |taken: u64| {
        while read < taken {
            read += reader.lend(&mut scratch, 100).unwrap().burst.len() as u64;
        }
        while !reader.lend(&mut scratch, 100).unwrap().burst.is_empty() {}
    };
    read_all(taken);
    taken += send(&mut *to);
    read_all(taken);
    let account = to.account();
    assert_eq!((account.offered, taken + account.lost.total()), (6000, 6000), "{account:?}");
    assert_eq!(to.lost().losses(), account.lost);
    assert_eq!(to.lost().total().bytes, account.lost.total() * 1514, "of the only interface");
    to.finish().unwrap();
}

#[test]
fn a_flush_makes_all_that_was_sent_readable_and_takes_no_second_slot() {
    let folder = Folder::new();
    for format in FORMATS {
        let path = folder.path("flushed");
        let address = format!("file:{}?{format}", path.display());
        let job = OpenOptions::default();
        let mut to = sink(&address, &job).unwrap();
        let mut from = crate::common::source("gen:?packets=30&size=64", &job).unwrap();
        let (mut scratch, mut sizes) = (Scratch::new(), Vec::new());
        for count in 1..=30 {
            let lent = from.lend(&mut scratch, 1).unwrap();
            to.transmit(&lent.burst).unwrap();
            to.flush().unwrap();
            assert_eq!(to.account().in_flight, 0);
            assert_eq!(drain_by_lending(&mut *open_file(&path), 1024).len(), count, "{format}");
            sizes.push(std::fs::metadata(&path).unwrap().len());
        }
        if format.starts_with("segment=") {
            assert!(sizes.iter().all(|&size| size == sizes[0]), "{format}: {sizes:?}");
        }
        to.finish().unwrap();
    }
}

#[test]
fn a_sink_that_discards_takes_everything() {
    let folder = Folder::new();
    for address in ["null:", "gen:"] {
        let mut to = sink(address, &options()).unwrap();
        let mut from = (sources(&folder)[0].open)();
        assert_eq!(crate::common::pump(&mut *from, &mut *to).unwrap(), PACKETS);
        let account = to.account();
        assert_eq!((account.offered, account.lost.total()), (PACKETS, 0));
    }
}

#[test]
fn wrapped_sinks_close_their_ledgers() {
    let folder = Folder::new();
    let path = folder.path("wrapped");
    let inner = sink(&format!("file:{}", path.display()), &options()).unwrap();
    let plan =
        FaultPlan { seed: 1, drop: 0.25, truncate: 0.1, corrupt: 0.1, ..FaultPlan::default() };
    let faulty = FaultInjector::new(inner, plan);
    let mut to: Box<dyn Sink> = Box::new(Tracer::new(Box::new(faulty), Box::new(std::io::sink())));
    let mut from = (sources(&folder)[0].open)();
    let taken = crate::common::pump(&mut *from, &mut *to).unwrap();
    to.finish().unwrap();
    let account = to.account();
    assert_eq!(account.offered, PACKETS);
    assert_eq!(taken + account.lost.of(Loss::Injected), PACKETS);
    assert_eq!(to.lost().losses(), account.lost);
    let read = drain_by_lending(&mut *open_file(&path), u64::MAX);
    assert_eq!(read.len() as u64, taken);
}

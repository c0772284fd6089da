//! `log:` ports whose writer is succeeded by another, with as many logs or more; and a failing one.

use std::time::Duration;

use burstline_log::{Appended, Ending, Log, LogConfig, Meta, Scratch, Writer};
use burstline_port::{Port, PortState, PortTable, Source, open_sources};
use burstline_share::{LosslessReaders, PublishConfig, Publisher};
use burstline_sys::memory::PageChoice;
use burstline_sys::seqpacket::SeqPacket;
use burstline_wire::headers::LinkType;

use crate::backends::options;
use crate::common::Folder;

/// Publishes a name with this many logs.
fn publish(name: &str, logs: usize) -> (Publisher, Vec<Writer>) {
    let create = || {
        Log::create(LogConfig {
            bytes: 16 * 4096,
            segment_bytes: 4096,
            pages: PageChoice::Size4K,
            ..LogConfig::default()
        })
        .unwrap()
    };
    let (logs, writers) = (0..logs).map(|_| create()).unzip();
    let config = PublishConfig { lossless: LosslessReaders::Forever, ..PublishConfig::new(name) };
    (Publisher::start(&config, logs).unwrap(), writers)
}

fn append(writer: &mut Writer, packets: u64) {
    for number in 0..packets {
        assert_eq!(writer.append(&[7; 60], &Meta::new(number, 60, 0)), Appended::Whole);
    }
    writer.publish();
}

/// Reads until `is_enough`, or the port's end. Returns whether it ended.
fn read(port: &mut dyn Source, is_enough: impl Fn(&dyn Port) -> bool) -> bool {
    let mut scratch = Scratch::new();
    while !is_enough(port) {
        match port.lend(&mut scratch, u64::MAX).unwrap().state {
            PortState::Ended => return true,
            PortState::Idle => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
    false
}

fn offered(port: &dyn Port) -> u64 {
    port.account().offered
}

fn ports(name: &str) -> Vec<Box<dyn Source>> {
    let address = format!("log:{name}?lossless").parse().unwrap();
    open_sources(&address, &options()).unwrap()
}

/// Returns the port of a one-log name, after its writer stopped at 5 packets and it noticed.
fn ports_left_behind(name: &str) -> Vec<Box<dyn Source>> {
    let (publisher, mut writers) = publish(name, 1);
    let mut ports = ports(name);
    append(&mut writers[0], 5);
    writers.remove(0).finish(Ending::Stopped);
    drop(publisher);
    assert!(!read(&mut *ports[0], |port| port.account().writer_down == 1));
    ports
}

#[test]
fn a_port_that_is_slow_passes_over_no_writer() {
    let folder = Folder::new();
    let name = folder.path("tap").display().to_string();
    let (publisher, mut writers) = publish(&name, 2);
    let mut ports = ports(&name);
    let [quick, slow] = &mut ports[..] else { panic!("{} ports", ports.len()) };
    let end = |publisher: Publisher, writers: Vec<Writer>, ending| {
        writers.into_iter().for_each(|writer| writer.finish(ending));
        drop(publisher);
    };
    writers.iter_mut().for_each(|writer| append(writer, 5));
    end(publisher, writers, Ending::Stopped);
    for (down, packets, ending) in [(1, 3, Ending::Stopped), (2, 1, Ending::Final)] {
        let before = offered(&**quick);
        assert!(!read(&mut **quick, |port| port.account().writer_down == down));
        let (publisher, mut writers) = publish(&name, 2);
        writers.iter_mut().for_each(|writer| append(writer, packets));
        read(&mut **quick, |port| offered(port) == before + packets);
        end(publisher, writers, ending);
    }
    for port in [quick, slow] {
        assert!(read(&mut **port, |_| false));
        let account = port.account();
        let notes = &account.notes;
        assert_eq!((account.offered, account.writer_down), (9, 2), "{notes:?}");
        assert_eq!((account.lost.total(), account.in_flight), (0, 0));
    }
}

#[test]
fn logs_that_only_the_next_writer_has_are_told_and_hold_nobody_up() {
    let folder = Folder::new();
    let name = folder.path("tap").display().to_string();
    let mut ports = ports_left_behind(&name);
    let port = &mut *ports[0];

    let (publisher, mut writers) = publish(&name, 3);
    append(&mut writers[0], 2);
    read(port, |port| offered(port) == 7);
    let notes = port.account().notes;
    let told = format!("epoch {}, publishes 2 more logs than", publisher.epoch());
    assert!(notes.iter().any(|note| note.contains(&told)), "{notes:?}");
    // More than the log can hold: an idle lossless reader would block the writer.
    append(&mut writers[1], 5000);
    assert_eq!(writers[1].statistics().full, 0);
    writers.remove(0).finish(Ending::Final);
    assert!(read(port, |_| false));
}

#[test]
fn a_next_writer_that_answers_nobody_delays_nothing() {
    let folder = Folder::new();
    let path = folder.path("tap");
    let name = path.display().to_string();
    let mut ports = ports_left_behind(&name);
    let port = &mut *ports[0];

    let _ = std::fs::remove_file(&path);
    let silent = SeqPacket::bind(&path).unwrap();
    silent.listen(1).unwrap();
    let caller = std::thread::spawn(move || {
        loop {
            match silent.accept() {
                Ok(call) => break (silent, call),
                Err(_) => std::thread::sleep(Duration::from_millis(1)), // no connection yet
            }
        }
    });
    assert!(!read(port, |_| caller.is_finished()));
    // The caller still waits for an answer; the port does not.
    port.finish().unwrap();
    assert!(read(port, |_| false));
    let notes = port.account().notes;
    assert!(!notes.iter().any(|note| note.contains("answer")), "{notes:?}");
    drop(caller.join().unwrap());
}

#[test]
fn packets_that_a_port_fails_at_are_in_flight() {
    let folder = Folder::new();
    let name = folder.path("tap").display().to_string();
    let (_publisher, mut writers) = publish(&name, 1);
    let options = options();
    for number in 0..PortTable::MAX_ENTRIES {
        options.table.add(&number.to_string(), LinkType::ETHERNET).unwrap();
    }
    let address = format!("log:{name}?lossless").parse().unwrap();
    let mut ports = open_sources(&address, &options).unwrap();
    append(&mut writers[0], 5);
    let port = &mut ports[0];
    assert!(port.lend(&mut Scratch::new(), u64::MAX).is_err(), "there is no number for its port");
    let account = port.account();
    assert_eq!((account.offered, account.in_flight, account.lost.total()), (5, 5, 0));
}

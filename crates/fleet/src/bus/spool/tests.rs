use super::*;

use std::fs;

use burstline_flow::{BootId, SensorName};
use burstline_sys::temporary::TemporaryFolder;

const SIZE: u64 = 1 << 20;

fn open(folder: &TemporaryFolder) -> Result<Spool, BusError> {
    let sensor = SensorName::new("one").unwrap();
    let origin = Origin { sensor, boot: BootId::default(), ports: Vec::new() };
    let place = SpoolPlace { folder: folder.path().to_owned(), bytes: SIZE };
    Spool::open(&place, "nats", &origin)
}

fn body(number: u64) -> Vec<u8> {
    vec![number as u8; 10_000]
}

/// Appends messages of one record and two packets each.
fn append(spool: &mut Spool, numbers: std::ops::Range<u64>) -> Vec<Place> {
    let append = |number| spool.append(number, 3, [1, 2], &body(number)).unwrap().unwrap();
    numbers.map(append).collect()
}

fn numbers(spool: &mut Spool) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in spool.left() {
        let Body::Disk(place) = entry.body else { panic!("{entry:?}") };
        assert_eq!(spool.read(&place).unwrap(), body(entry.number));
        assert!(entry.is_earlier);
        assert_eq!((entry.records, entry.packets, entry.hour), (1, 2, 3));
        found.push(entry.number);
    }
    found
}

fn bytes_on_disk(spool: &Spool) -> u64 {
    let paths = segments_of(&spool.folder).unwrap();
    paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

#[test]
fn what_is_not_settled_survives_the_program() {
    let folder = TemporaryFolder::create("burstline-spool-").unwrap();
    let mut spool = open(&folder).unwrap();
    let places = append(&mut spool, 0..20);
    for place in &places[..9] {
        spool.settle(place);
    }
    // 25 records had ended, 20 of them were written here.
    spool.tell(&Made { records: 25, packets: 50, ..Made::default() }, &LostRecords::default());
    let boot = spool.boot.clone();
    drop(spool); // as if killed: no close
    let mut again = open(&folder).unwrap();
    let last = again.last.clone().unwrap();
    assert_eq!((last.boot_id, last.records, last.packets), (boot, 5, 10));
    assert_eq!(numbers(&mut again), (9..20).collect::<Vec<_>>());
    again.close();
    let mut ended = open_after(again, &folder);
    assert_eq!((numbers(&mut ended).len(), &ended.last), (11, &None), "it came to its end");
}

#[test]
fn a_full_spool_takes_nothing_until_something_is_settled() {
    let folder = TemporaryFolder::create("burstline-spool-").unwrap();
    let mut spool = open(&folder).unwrap();
    let mut places = Vec::new();
    while let Some(place) = spool.append(0, 3, [1, 2], &body(0)).unwrap() {
        places.push(place);
    }
    assert_eq!(places.len() as u64, SIZE / (10_000 + HEAD as u64));
    assert!(bytes_on_disk(&spool) <= SIZE);
    places.iter().for_each(|place| spool.settle(place));
    assert!(spool.append(1, 3, [1, 2], &body(1)).unwrap().is_some());
    spool.close();
    assert!(bytes_on_disk(&spool) < SIZE / 4, "settled segments are removed");
    assert_eq!(numbers(&mut open_after(spool, &folder)), [1]);
}

fn open_after(spool: Spool, folder: &TemporaryFolder) -> Spool {
    drop(spool);
    open(folder).unwrap()
}

#[test]
fn half_a_message_and_a_damaged_one_are_cut_off() {
    for damage in [
        |file: &File, end: u64| file.set_len(end - 1),
        |file: &File, end: u64| file.write_all_at(&[0xff], end - 5_000),
    ] {
        let folder = TemporaryFolder::create("burstline-spool-").unwrap();
        let mut spool = open(&folder).unwrap();
        append(&mut spool, 0..3);
        let path = segments_of(&spool.folder).unwrap().remove(0);
        let file = File::options().write(true).open(&path).unwrap();
        damage(&file, file.metadata().unwrap().len()).unwrap();
        let mut again = open_after(spool, &folder);
        assert_eq!(again.notes.len(), 1, "{:?}", again.notes);
        assert_eq!(numbers(&mut again), [0, 1]);
        // The next message does not follow garbage.
        append(&mut again, 5..6);
        let mut found = numbers(&mut open_after(again, &folder));
        // Files created at the same time have no order.
        found.sort_unstable();
        assert_eq!(found, [0, 1, 5]);
    }
}

#[test]
fn a_damaged_message_is_lost_alone() {
    let folder = TemporaryFolder::create("burstline-spool-").unwrap();
    let mut spool = open(&folder).unwrap();
    append(&mut spool, 0..3);
    let path = segments_of(&spool.folder).unwrap().remove(0);
    File::options().write(true).open(&path).unwrap().write_all_at(&[0xff], 100).unwrap();
    let mut again = open_after(spool, &folder);
    assert!(again.notes[0].ends_with("the message at 0 is damaged: 1 record"), "{:?}", again.notes);
    let left = again.left();
    let read = left.iter().map(|entry| {
        let Body::Disk(place) = entry.body else { panic!("{entry:?}") };
        again.read(&place).is_ok()
    });
    assert_eq!(read.collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn behind_a_damaged_head_the_next_message_is_found() {
    // Of the second message: its magic number, its length.
    for place in [0, 20] {
        let folder = TemporaryFolder::create("burstline-spool-").unwrap();
        let mut spool = open(&folder).unwrap();
        append(&mut spool, 0..4);
        let path = segments_of(&spool.folder).unwrap().remove(0);
        let file = File::options().write(true).open(&path).unwrap();
        let second = 10_000 + HEAD as u64;
        file.write_all_at(&[0xff], second + place).unwrap();
        let mut again = open_after(spool, &folder);
        let said = format!("{second} bytes at {second} are damaged; their content is lost");
        assert!(again.notes.len() == 1 && again.notes[0].ends_with(&said), "{:?}", again.notes);
        assert_eq!(numbers(&mut again), [0, 2, 3]);
    }
}

#[test]
fn a_spool_has_one_program() {
    let folder = TemporaryFolder::create("burstline-spool-").unwrap();
    let spool = open(&folder).unwrap();
    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, BusError::Spool(TreeError::Taken { .. })), "{refused}");
    drop(spool);
    open(&folder).unwrap();
}

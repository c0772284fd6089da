use burstline_sys::memory::PageChoice;

use crate::{
    Appended, BUCKETS, Buckets, Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start,
    UntrustedReader, Writer, bucket_of,
};

const WORKERS: usize = 3;

fn log(segments: usize, segment_bytes: usize) -> (Log, Writer) {
    let (bytes, pages, has_buckets) = (segments * segment_bytes, PageChoice::Size4K, true);
    let config = LogConfig { bytes, segment_bytes, pages, has_buckets, ..LogConfig::default() };
    Log::create(config).unwrap()
}

fn hash_of(number: u64) -> u32 {
    (number as u32).wrapping_mul(0x85eb_ca6b)
}

/// Appends packet `number`; every eleventh one has facts.
fn append(writer: &mut Writer, number: u64, length: usize) {
    let drops_before = u64::from(number.is_multiple_of(11));
    let meta = Meta { drops_before, ..Meta::new(number, length as u32, 1) };
    let meta = Meta { hash: hash_of(number), ..meta };
    assert_eq!(writer.append(&vec![number as u8; length], &meta), Appended::Whole);
}

fn parts(log: &Log) -> Vec<Log> {
    (0..WORKERS).map(|own| log.part(Buckets::of_worker(own, WORKERS))).collect()
}

fn worker_of(number: u64) -> usize {
    usize::from(bucket_of(hash_of(number))) * WORKERS / BUCKETS
}

/// A reader of either kind.
enum Any {
    Trusting(Reader),
    Wary(UntrustedReader),
}

macro_rules! each {
    ($any:expr, $reader:ident => $body:expr) => {
        match $any {
            Any::Trusting($reader) => $body,
            Any::Wary($reader) => $body,
        }
    };
}

fn readers(log: &Log, is_wary: bool) -> Vec<Any> {
    let config = ReaderConfig { policy: Policy::Lossy, window: 1, start: Start::Segment };
    let attach = |part: Log| {
        let reader = part.attach(config).unwrap();
        if is_wary { Any::Wary(reader.into()) } else { Any::Trusting(reader) }
    };
    parts(log).into_iter().map(attach).collect()
}

/// After any takes, returns and laps, each reader gets its own packets in order, and the rest is
/// missed.
#[cfg_attr(miri, ignore = "it would take minutes")]
#[test]
fn parts_are_disjoint_whole_and_counted() {
    let lengths: [usize; 2] = [60, 0]; // a segment has more empty packets than its column has bytes
    for (is_wary, length) in lengths.into_iter().flat_map(|l| [(false, l), (true, l)]) {
        let (segment_bytes, flood) = (8192, 4000);
        let (log, mut writer) = log(6, segment_bytes);
        let (mut readers, mut number) = (readers(&log, is_wary), 0_u64);
        let mut next = [0_u64; WORKERS]; // the lowest packet number that may come next
        for round in 0..120_u64 {
            // Every fourth round appends more than the log holds.
            for _ in 0..if round % 4 == 3 { flood } else { 50 + round } {
                append(&mut writer, number, length);
                number += 1;
                if number % 37 == 0 {
                    writer.publish();
                }
            }
            writer.publish();
            for (own, reader) in readers.iter_mut().enumerate() {
                let most = [u64::MAX, 7, 1][round as usize % 3];
                while each!(reader, reader => reader.take_up_to(most)) > 0 {
                    let packets: Vec<u64> = each!(reader, reader => {
                        let burst = reader.taken().unwrap();
                        for packet in burst.packets() {
                            let time_ns = packet.time_ns();
                            assert_eq!(packet.bytes(), vec![time_ns as u8; length]);
                            let drops = u64::from(time_ns.is_multiple_of(11));
                            assert_eq!(packet.drops_before(), drops);
                        }
                        let times: Vec<u64> =
                            burst.packets().map(|packet| packet.time_ns()).collect();
                        let statistics = reader.statistics();
                        let end = burst.first_packet() + burst.len() as u64;
                        assert_eq!(end, statistics.delivered + statistics.missed);
                        times
                    });
                    assert!(packets.iter().all(|&number| worker_of(number) == own));
                    for &packet in &packets {
                        assert!(packet >= next[own]);
                        next[own] = packet + 1;
                    }
                    if packets.len() > 2 {
                        let (back, stay) = (packets.len() / 2, packets.len().div_ceil(2));
                        each!(reader, reader => {
                            reader.put_back(1);
                            reader.put_back(back as u64 - 1);
                            assert_eq!(reader.taken().unwrap().len(), stay);
                        });
                        next[own] = packets[stay - 1] + 1;
                    }
                }
            }
        }
        drop(writer);
        let mut expected = [0_u64; WORKERS];
        (0..number).for_each(|number| expected[worker_of(number)] += 1);
        for (own, mut reader) in readers.into_iter().enumerate() {
            let (statistics, offered, lag, is_finished) = each!(&mut reader, reader => {
                assert_eq!(reader.take_up_to(9), 0);
                (reader.statistics(), reader.offered(), reader.lag(), reader.is_finished())
            });
            assert_eq!(statistics.delivered + statistics.missed, expected[own]);
            assert_eq!((offered, lag, is_finished), (expected[own], 0, true));
            assert_eq!(parts(&log)[own].published(), expected[own]);
            assert!(statistics.missed > 0 && statistics.delivered > 0);
        }
    }
}

/// A late reader counts from its own start, wherever that is.
#[test]
fn a_part_begins_where_its_reader_does() {
    for start in [Start::Now, Start::Segment, Start::Oldest] {
        let (log, mut writer) = log(32, 4096);
        (0..100).for_each(|number| append(&mut writer, number, 60));
        writer.publish();
        let whole = log.attach(ReaderConfig { start, ..ReaderConfig::default() }).unwrap();
        let attach = |part: Log| part.attach(ReaderConfig { start, ..ReaderConfig::default() });
        let mut readers: Vec<_> =
            parts(&log).into_iter().map(|part| attach(part).unwrap()).collect();
        (100..300).for_each(|number| append(&mut writer, number, 60));
        drop(writer);
        let mut whole = whole;
        while whole.next_burst().is_some() {}
        let mut sum = 0;
        for reader in &mut readers {
            let mut delivered = 0;
            while let Some(burst) = reader.next_burst() {
                delivered += burst.len() as u64;
            }
            assert_eq!((reader.offered(), reader.statistics().missed), (delivered, 0));
            sum += delivered;
        }
        assert_eq!(sum, whole.statistics().delivered, "{start:?}");
    }
}

#[test]
fn a_held_burst_of_a_part_outlives_the_next_ones() {
    let (log, mut writer) = log(8, 4096);
    let config = ReaderConfig { window: 2, ..ReaderConfig::default() };
    let mut reader = log.part(Buckets::of_worker(1, 2)).attach(config).unwrap();
    (0..60).for_each(|number| append(&mut writer, number, 60));
    writer.publish();
    let held = reader.hold_burst().unwrap();
    let times = |held: &crate::HeldBurst| -> Vec<u64> {
        held.burst().packets().map(|packet| packet.time_ns()).collect()
    };
    let before = times(&held);
    (60..if cfg!(miri) { 600 } else { 2000 }).for_each(|number| append(&mut writer, number, 60));
    writer.publish();
    while reader.next_burst().is_some() {}
    assert!(!before.is_empty() && before == times(&held));
    assert!(held.burst().packets().all(|packet| bucket_of(packet.desc().hash()) >= 128));
}

/// The counts of a log without readers include exactly the published packets.
#[test]
fn the_writer_counts_what_it_publishes() {
    let (log, mut writer) = log(4, 4096);
    (0..1000).for_each(|number| append(&mut writer, number, 60));
    writer.publish();
    append(&mut writer, 1000, 60);
    assert_eq!(writer.bucket_counts().unwrap().iter().sum::<u64>(), 1000);
    assert_eq!(parts(&log).iter().map(Log::published).sum::<u64>(), 1000);
    writer.publish();
    assert_eq!(log.part(Buckets::of_worker(0, 1)).published(), log.published());
}

#[test]
#[should_panic(expected = "no parts")]
fn a_log_without_buckets_has_no_parts() {
    let pages = PageChoice::Size4K;
    let (log, writer) = Log::create(LogConfig { pages, ..LogConfig::default() }).unwrap();
    assert_eq!(writer.bucket_counts(), None);
    let _ = log.part(Buckets::of_worker(0, 1));
}

//! Readers and writers that start, leave, stop and die.

use burstline_log::{
    Appended, Buckets, Ending, Log, LogConfig, Meta, Policy, Start, Writer, bucket_of,
};
use burstline_share::{
    AttachConfig, Attachment, Follower, Next, PublishConfig, Publisher, ReaderStatus, ShareError,
    WriterLink, query,
};

use crate::common::{
    Directory, Role, SEGMENT_BYTES, append, config, in_place, log, open, publish, read, until,
};

#[test]
fn a_reader_in_another_process_reads_to_the_end() {
    let directory = Directory::new();
    let (publisher, log, mut writer) = publish(&PublishConfig::new(directory.name("tap")));
    let mut role = Role::start("reader", &[&directory.name("tap")]);
    assert_eq!(role.hear("attached"), "1");
    append(&mut writer, 0, 1000);
    until("it has said what it read", || publisher.readers()[0].delivered == 1000);
    let status = publisher.readers().remove(0);
    assert_eq!((status.pid, status.missed, status.lag_packets), (role.pid(), 0, 0));
    assert_eq!((status.policy, status.is_claimed), (Policy::Lossy, true));
    append(&mut writer, 1000, 2000);
    drop(writer);
    assert_eq!(role.hear("account"), "2000 0 2000");
    role.end();
    until("its seat is free", || log.readers() == 0);
    assert_eq!(directory.files(), ["tap", "tap.lock"]);
    drop(publisher);
    assert_eq!(directory.files(), ["tap.lock"]);
}

#[test]
fn several_logs_are_one_name() {
    let (_directory, name) = Directory::with_tap();
    let ((first, mut one), (second, mut two)) = (log(), log());
    let publisher = Publisher::start(&PublishConfig::new(&name), vec![first, second]).unwrap();
    let mut all = open(&name).unwrap();
    let only = AttachConfig { log: Some(1), ..AttachConfig::default() };
    let mut second = Attachment::open(&name, &only).unwrap();
    append(&mut one, 0, 10);
    append(&mut two, 0, 20);
    assert_eq!((read(&mut all.readers[0]), read(&mut all.readers[1])), (10, 20));
    assert_eq!((second.readers.len(), read(&mut second.readers[0])), (1, 20));
    let seats: Vec<_> = publisher.readers().iter().map(|r| (r.log, r.seat)).collect();
    assert_eq!(seats, [(0, 0), (1, 0), (1, 1)]);
    let beyond = AttachConfig { log: Some(2), ..AttachConfig::default() };
    let error = Attachment::open(&name, &beyond).unwrap_err().to_string();
    assert!(error.ends_with("it has 2 logs, numbered from 0; there is no log 2"));
}

/// Attaches to the current publisher at the path of a link's publisher.
fn reopen(link: &WriterLink) -> Result<Attachment, ShareError> {
    open(&link.path().to_string_lossy())
}

#[test]
fn a_query_tells_of_logs_and_readers() {
    let (_directory, name) = Directory::with_tap();
    let (publisher, _log, mut writer) = publish(&PublishConfig::new(&name));
    append(&mut writer, 0, 100);
    let mut attachment = open(&name).unwrap();
    append(&mut writer, 100, 130);
    attachment.readers[0].next_burst().unwrap();
    let status = query(&name).unwrap();
    assert_eq!((status.epoch, status.pid), (publisher.epoch(), std::process::id()));
    assert_eq!(status.path, publisher.socket_path());
    assert_eq!((status.logs.len(), status.logs[0].published), (1, 130));
    assert_eq!((status.logs[0].readers, status.logs[0].max_readers), (1, 8));
    // A second may end between the two.
    let timeless = |readers: &[ReaderStatus]| -> Vec<ReaderStatus> {
        readers.iter().map(|reader| ReaderStatus { attached_s: 0, ..reader.clone() }).collect()
    };
    assert_eq!(timeless(&status.readers), timeless(&publisher.readers()));
    let reader = &status.readers[0];
    assert_eq!((reader.delivered, reader.lag_packets, reader.held_segments), (30, 0, 1));
    assert!(!reader.command.is_empty());
}

#[test]
fn a_killed_writer_is_drained_and_the_next_one_has_its_epoch() {
    let (directory, name) = Directory::with_tap();
    let mut role = Role::start("publisher", &[&name, "777"]);
    let first: u64 = role.hear("epoch").parse().unwrap();
    let mut old = open(&name).unwrap();
    role.go_on();
    role.hear("written");
    assert!(!old.link.is_gone());
    role.kill();
    until("the link tells", || old.link.is_gone());
    let reader = &mut old.readers[0];
    assert_eq!((read(reader), reader.offered(), reader.ending()), (777, 777, None));
    assert!(!reader.is_finished() && reader.next_burst().is_none());
    assert_eq!(reader.port_name(0), Some((1, "eth0".into())));
    let absent = reopen(&old.link).unwrap_err();
    assert!(matches!(absent, ShareError::Absent { is_stale: true, .. }), "{absent}");

    let mut role = Role::start("publisher", &[&name, "5"]);
    assert_eq!(role.hear("epoch"), (first + 1).to_string());
    let mut new = reopen(&old.link).unwrap();
    assert_eq!((old.link.epoch(), new.link.epoch()), (first, first + 1));
    role.go_on();
    role.hear("written");
    role.go_on();
    role.end();
    assert_eq!(read(&mut new.readers[0]), 5);
    assert_eq!(new.readers[0].ending(), Some(Ending::Stopped));
    assert!(new.readers[0].is_finished());
    assert_eq!(directory.files(), ["tap.lock"]);
}

#[test]
fn who_looks_for_the_next_writer_takes_no_seat_with_one_that_has_ended() {
    let directory = Directory::new();
    let config = PublishConfig::new(directory.name("tap"));
    let attach = AttachConfig::default();
    let (publisher, log, writer) = publish(&config);
    let Attachment { readers, link, .. } = Attachment::open(&config.name, &attach).unwrap();
    drop(writer);
    let look = || Attachment::open_next(&link, &attach).unwrap();
    assert!(look().is_none(), "it is there still");
    assert_eq!((publisher.readers().len(), publisher.visits().total), (1, 1));
    drop((publisher, log));
    assert!(look().is_none(), "nobody is");
    let (next, ..) = publish(&config);
    let new = look().unwrap();
    assert_eq!((readers.len(), new.readers.len(), new.link.epoch()), (1, 1, next.epoch()));
    assert_eq!(next.visits().total, 1);
}

#[test]
fn a_program_that_a_publisher_has_started_inherits_nothing_of_it() {
    let (_directory, name) = Directory::with_tap();
    let mut role = Role::start("starting_publisher", &[&name]);
    let child = role.hear("child");
    // The child has its name once exec has closed the close-on-exec descriptors.
    let name_of_child = || std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap();
    until("the child runs", || name_of_child() == "sleep\n");
    let config = AttachConfig { start: Start::Oldest, ..AttachConfig::default() };
    let mut old = Attachment::open(&name, &config).unwrap();
    let files = std::fs::read_dir(format!("/proc/{child}/fd")).unwrap();
    // A file that disappears in the meantime is the loader's; inherited ones stay.
    let files = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let is_publishers = |file: &std::path::PathBuf| {
        let file = file.to_string_lossy();
        file.contains("memfd") || file.contains(&name)
    };
    let inherited: Vec<_> = files.filter(is_publishers).collect();
    role.kill();
    // The child lives, but holds neither the readers nor the name.
    until("the link tells", || old.link.is_gone());
    assert_eq!(read(&mut old.readers[0]), 10);
    let (publisher, ..) = publish(&PublishConfig::new(&name));
    assert_eq!(publisher.epoch(), old.link.epoch() + 1);
    let pid = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(inherited, Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_name_is_one_publishers() {
    let (directory, name) = Directory::with_tap();
    let mut role = Role::start("publisher", &[&name, "0"]);
    let first: u64 = role.hear("epoch").parse().unwrap();
    let taken = Publisher::start(&PublishConfig::new(&name), vec![log().0]).unwrap_err();
    assert_eq!(
        taken.to_string(),
        format!(
            "{name}: published by process {0} already: choose another name, or end it (kill {0})",
            role.pid()
        )
    );
    assert!(query(&name).is_ok(), "the publisher is none the worse for it");
    role.kill();
    assert_eq!(directory.files(), ["tap", "tap.lock"]);
    let (publisher, ..) = publish(&PublishConfig::new(&name));
    assert_eq!(publisher.epoch(), first + 1);
}

#[test]
fn without_its_lock_a_publisher_keeps_its_name_and_the_next_one_has_another_number() {
    let directory = Directory::new();
    let (name, lock) = (directory.name("tap"), directory.name("tap.lock"));
    let mut role = Role::start("publisher", &[&name, "3"]);
    let first: u64 = role.hear("epoch").parse().unwrap();
    let mut old = open(&name).unwrap();
    role.go_on();
    role.hear("written");
    std::fs::remove_file(&lock).unwrap();
    let taken = Publisher::start(&PublishConfig::new(&name), vec![log().0]).unwrap_err();
    assert!(matches!(taken, ShareError::Taken { pid, .. } if pid == role.pid()), "{taken}");
    role.kill();
    assert_eq!(read(&mut old.readers[0]), 3);
    // The lock file is empty the first time, and missing the second time.
    let (second, ..) = publish(&PublishConfig::new(&name));
    assert!(second.epoch() > first);
    let number = second.epoch();
    drop(second);
    std::fs::remove_file(&lock).unwrap();
    until("a millisecond is over", || burstline_sys::clock::monotonic_ns() / 1_000_000 > number);
    let (third, ..) = publish(&PublishConfig::new(&name));
    let new = reopen(&old.link).unwrap();
    assert!(third.epoch() > number && new.link.epoch() == third.epoch());
}

/// Appends a packet of one of two workers.
fn append_of(writer: &mut Writer, worker: usize) {
    let buckets = Buckets::of_worker(worker, 2);
    let hash = (0..).find(|&hash| buckets.holds(bucket_of(hash))).unwrap();
    let meta = Meta { hash, ..Meta::new(1, 1000, 0) };
    assert_eq!(writer.append(&[7; 1000], &meta), Appended::Whole);
    writer.publish();
}

/// A single poll of a part skips several bursts of other parts only.
#[test]
fn a_part_is_read_to_its_end_though_its_next_packet_lies_far_behind_those_of_others() {
    for attach in [AttachConfig::default(), in_place()] {
        let (_directory, name) = Directory::with_tap();
        let config = LogConfig { bytes: 64 * SEGMENT_BYTES, has_buckets: true, ..config() };
        let (log, mut writer) = Log::create(config).unwrap();
        let part = log.part(Buckets::of_worker(1, 2));
        let publisher = Publisher::start(&PublishConfig::new(&name), vec![part]).unwrap();
        let mut follower = Follower::open(&name, &attach, false).unwrap();
        // The other part's packets fill more than half of the log.
        (0..40 * SEGMENT_BYTES / 1000).for_each(|_| append_of(&mut writer, 0));
        append_of(&mut writer, 1);
        // The log was not ended, as if the writer had been killed.
        drop(publisher);
        until("the reader knows", || follower.link().is_gone());
        std::thread::sleep(std::time::Duration::from_millis(20)); // it checks every 10 ms
        let (mut packets, mut looks) = (0, 0);
        loop {
            match follower.next(1_000_000_000, || false).unwrap() {
                Next::Burst { held, .. } => packets += held.burst().len(),
                Next::End => break,
                _ => looks += 1,
            }
            assert!(looks < 1000, "it goes on");
        }
        assert_eq!((packets, follower.sums().missed), (1, 0), "{attach:?}");
    }
}

//! Clients that send nonsense, nothing or too much, or stay too long harm no other client.

use std::fs::File;
use std::os::fd::AsFd;

use burstline_log::{Log, LogConfig, MAX_READERS, MIN_SEGMENT_BYTES, Policy};
use burstline_share::{
    AttachConfig, Attachment, Feed, Held, LosslessReaders, PublishConfig, Publisher, Refusal, query,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{
    Directory, Noise, Role, append, config, in_place, open, publish, read, refusal, until,
};
use crate::permissions::{as_nobody, for_root};
use crate::wire::{self, ask, attach, connect, hear};

#[test]
fn one_reader_too_many_is_told_the_number() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, log, _writer) = publish(&PublishConfig::new(&name));
    let mut readers: Vec<_> = (0..8).map(|_| open(&name).unwrap()).collect();
    let error = open(&name).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{name}: the publisher refuses: all 8 seats of a log are taken, including its own \
             threads': end a reader; burstline doctor logs lists them"
        )
    );
    readers.pop();
    until("the seat is free", || log.readers() == 7);
    open(&name).unwrap();
}

#[test]
fn windows_that_would_hold_every_segment_are_refused() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, log, _writer) = publish(&PublishConfig::new(&name));
    let open = |window| {
        let config = AttachConfig { window, ..AttachConfig::default() };
        Attachment::open(&name, &config)
    };
    let _wide = open(8).unwrap();
    assert_eq!(refusal(open(7).unwrap_err()), Refusal::Pool { windows: 15, segments: 16 });
    for asked in [0, 9, 1 << 40] {
        let told = (asked as u64).min(u32::MAX.into());
        assert_eq!(refusal(open(asked).unwrap_err()), Refusal::Window { asked: told, most: 8 });
    }
    assert_eq!(log.readers(), 1, "those who were refused have no seat");
}

#[test]
fn lossless_only_where_it_is_allowed_and_only_for_so_long() {
    let (_directory, name) = Directory::with_tap();
    let config = AttachConfig { policy: Policy::Lossless, ..AttachConfig::default() };
    let (refusing, ..) = publish(&PublishConfig::new(&name));
    assert_eq!(refusal(Attachment::open(&name, &config).unwrap_err()), Refusal::Lossless);
    drop(refusing);

    let lossless = LosslessReaders::For { deadline_ns: 1_000_000 };
    let allowing = PublishConfig { lossless, ..PublishConfig::new(&name) };
    let (publisher, log, mut writer) = publish(&allowing);
    // The log itself has no deadline: this reader, which keeps up, is never demoted.
    let own = log.attach(burstline_log::ReaderConfig {
        policy: Policy::Lossless,
        ..burstline_log::ReaderConfig::default()
    });
    let mut own = Feed::Trusting(own.unwrap());
    let mut slow = Attachment::open(&name, &config).unwrap();
    let mut written = 0;
    while !slow.readers[0].is_demoted() {
        append(&mut writer, written, written + 32);
        written += 32;
        read(&mut own);
    }
    assert!(publisher.readers()[0].is_demoted && !own.is_demoted());
    assert_eq!(own.statistics().missed, 0);
    drop(writer);
    let reader = &mut slow.readers[0];
    while !reader.is_finished() {
        read(reader);
    }
    let seen = reader.statistics();
    assert_eq!((seen.delivered + seen.missed, reader.offered()), (written, written));
}

#[test]
fn another_version_is_told_both_numbers() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, ..) = publish(&PublishConfig::new(&name));
    for version in [0, 1, u16::MAX] {
        // Whatever else a later version sends, the answer is about the version.
        for mut bytes in [attach(version), wire::header(version, 77)] {
            bytes.push(1);
            assert_eq!(
                ask(&name, &bytes, &[]).unwrap().refusal(),
                (1, wire::VERSION.into(), version.into())
            );
        }
    }
}

#[test]
fn malformed_messages_are_refused_and_cost_nothing() {
    let (_directory, name) = Directory::with_tap();
    let mut role = Role::start("publisher", &[&name, "100"]);
    role.hear("epoch");
    let before = open_files(&role);
    let good = attach(wire::VERSION);
    for length in (0..200).chain(2040..2060) {
        // Zeros, a valid message shortened or extended, and noise after a valid header.
        let mut longer = good.clone();
        longer.resize(length, 0);
        let mut noise = wire::header(wire::VERSION, 1);
        let mut random = Noise(1 + length as u64);
        noise.resize_with(length.max(16), || random.next() as u8);
        for bytes in [vec![0; length], longer, noise] {
            // An empty message looks like the end of the connection.
            if bytes == good || bytes.is_empty() {
                continue;
            }
            let answer = ask(&name, &bytes, &[]);
            let Some(answer) = answer else { panic!("{length}: no answer") };
            assert!([2, 6].contains(&answer.refusal().0) || length == 32, "{length}");
        }
        if length == 0 {
            assert!(ask(&name, &[], &[]).is_none());
        }
    }
    let mut random = Noise(0x5eed);
    for _ in 0..500 {
        let mut bytes = good.clone();
        for _ in 0..1 + random.next() % 3 {
            let at = random.next() as usize % bytes.len();
            bytes[at] ^= 1 << (random.next() % 8);
        }
        if let Some(answer) = ask(&name, &bytes, &[]) {
            assert!([wire::WELCOME, wire::REFUSED].contains(&answer.kind), "{bytes:?}");
        }
    }
    until("every seat is free", || query(&name).unwrap().readers.is_empty());
    until("every descriptor is closed", || open_files(&role) <= before);
    let mut attachment = open(&name).unwrap();
    role.go_on();
    role.hear("written");
    assert_eq!(read(&mut attachment.readers[0]), 100);
    role.kill();
}

fn open_files(role: &Role) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", role.pid())).unwrap().count()
}

#[test]
fn descriptors_that_nobody_asked_for_do_not_come_in() {
    let (_directory, name) = Directory::with_tap();
    let mut role = Role::start("publisher", &[&name, "0"]);
    role.hear("epoch");
    let before = open_files(&role);
    let zero = File::open("/dev/zero").unwrap();
    let files = [zero.as_fd(); 4];
    let mut held = Vec::new();
    for count in 1..=4 {
        let socket = connect(&name);
        socket.send(&attach(wire::VERSION), &files[..count]).unwrap();
        assert_eq!(hear(&socket).unwrap().refusal().0, 2);
        held.push(socket);
    }
    until("all of them are closed", || open_files(&role) <= before);
    role.kill();
}

#[test]
fn a_good_one_gets_in_past_200_who_say_nothing() {
    let (_directory, name) = Directory::with_tap();
    let (publisher, log, mut writer) = publish(&PublishConfig::new(&name));
    let silent: Vec<_> = (0..200).map(|_| connect(&name)).collect();
    let mut attachment = open(&name).unwrap();
    append(&mut writer, 0, 50);
    assert_eq!(read(&mut attachment.readers[0]), 50);
    // All are informed, whether a newcomer took their place or their time was over.
    for socket in &silent {
        let (code, _, waiting) = hear(socket).unwrap().refusal();
        assert!(code == 11 && waiting <= 64, "{code} {waiting}");
    }
    assert_eq!((publisher.readers().len(), log.readers()), (1, 1));
}

#[test]
fn a_user_who_connects_without_end_pushes_nobody_else_out() {
    let Some((_directory, name)) = for_root() else { return };
    let config = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, log, _writer) = publish(&config);
    until("it is heard within its second", || {
        let patient = connect(&name);
        let flood = as_nobody(&[], || (0..200).map(|_| connect(&name)).collect::<Vec<_>>());
        // The first of them are informed that they made room, so all of them were processed. Later
        // ones may be too many for a second.
        let (code, _, most) = hear(&flood[0]).unwrap().refusal();
        assert!((code == 11 && most <= 64) || (code == 12 && most == 200), "{code} {most}");
        // If the client is gone, its time must be over.
        let _ = patient.send(&attach(wire::VERSION), &[]);
        let answer = hear(&patient).unwrap();
        let is_welcome = answer.kind == wire::WELCOME;
        assert!(is_welcome || answer.refusal().1 >= 1000, "{answer:?}");
        is_welcome
    });
    until("its seat is free", || log.readers() == 0);
}

#[test]
fn an_answer_that_is_larger_than_a_socket_is_heard_to_its_end() {
    const LOGS: u64 = 64;
    const READERS: u64 = 40;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let (_directory, name) = Directory::with_tap();
    let config = LogConfig {
        bytes: 64 * MIN_SEGMENT_BYTES,
        segment_bytes: MIN_SEGMENT_BYTES,
        max_readers: READERS as usize,
        ..config()
    };
    let (logs, _writers): (Vec<_>, Vec<_>) =
        (0..LOGS).map(|_| Log::create(config.clone()).unwrap()).unzip();
    let _publisher = Publisher::start(&PublishConfig::new(&name), logs).unwrap();
    let _readers: Vec<_> = (0..READERS)
        .map(|_| {
            let socket = connect(&name);
            socket.send(&attach(wire::VERSION), &[]).unwrap();
            (0..LOGS).for_each(|_| assert_eq!(hear(&socket).unwrap().kind, wire::WELCOME));
            socket
        })
        .collect();
    until("all of it is heard within its second", || {
        let slow = connect(&name);
        slow.send(&wire::header(wire::VERSION, wire::QUERY), &[]).unwrap();
        // A later client was served, so everything that fits in the socket was sent by now.
        ask(&name, &wire::header(wire::VERSION, 77), &[]).unwrap();
        let answers: Vec<_> = std::iter::from_fn(|| hear(&slow)).collect();
        let of = |kind| answers.iter().filter(move |answer| answer.kind == kind).count() as u64;
        let is_whole = of(wire::END) == 1;
        assert!(is_whole || of(wire::REFUSED) == 1 || of(wire::READERS) > 0);
        if is_whole {
            assert_eq!((of(wire::LOG), of(wire::READERS)), (LOGS, LOGS * READERS / 16));
        }
        is_whole
    });
    assert_eq!(query(&name).unwrap().readers.len() as u64, LOGS * READERS);
}

#[test]
fn a_word_too_many_ends_the_connection() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, log, _writer) = publish(&PublishConfig::new(&name));
    let socket = connect(&name);
    socket.send(&attach(wire::VERSION), &[]).unwrap();
    let answer = hear(&socket).unwrap();
    assert_eq!((answer.kind, answer.files.len()), (wire::WELCOME, 3));
    assert_eq!(log.readers(), 1);
    socket.send(&attach(wire::VERSION), &[]).unwrap();
    until("its seat is free", || log.readers() == 0);
    assert!(hear(&socket).is_none());
}

#[test]
fn a_child_that_holds_the_socket_does_not_hold_the_seat() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, log, _writer) = publish(&PublishConfig::new(&name));
    let mut role = Role::start("forker", &[&name]);
    let child: i32 = role.hear("child").parse().unwrap();
    assert_eq!(log.readers(), 1);
    role.kill();
    until("its seat is free", || log.readers() == 0);
    let child = rustix::process::Pid::from_raw(child).unwrap();
    // The child held the socket all the time.
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_killed_reader_frees_its_seat_each_of_200_times() {
    let (_directory, name) = Directory::with_tap();
    let (publisher, log, mut writer) = publish(&PublishConfig::new(&name));
    let mut written = 0;
    for _ in 0..200 {
        // With 8 seats, a seat that stayed taken would soon be missed.
        let mut role = Role::start("idler", &[&name]);
        role.hear("attached");
        append(&mut writer, written, written + 100);
        written += 100;
        role.kill();
    }
    until("every seat is free", || log.readers() == 0);
    assert!(publisher.readers().is_empty());
    assert!(log.config().max_readers < 200 && MAX_READERS < 200);
}

#[test]
fn a_held_burst_keeps_the_seat() {
    let (_directory, name) = Directory::with_tap();
    let (_publisher, log, mut writer) = publish(&PublishConfig::new(&name));
    let mut attachment = Attachment::open(&name, &in_place()).unwrap();
    append(&mut writer, 0, 10);
    let held = attachment.readers[0].hold_burst().unwrap();
    assert!(matches!(held, Held::Pinned(_)));
    drop(attachment);
    // The log is overwritten many times, except for the segment of the burst.
    append(&mut writer, 10, 50_000);
    assert_eq!(log.readers(), 1);
    for (number, found) in (0..).zip(held.burst().packets()) {
        assert_eq!(found.bytes(), crate::common::packet(number));
    }
    drop(held);
    until("its seat is free", || log.readers() == 0);
}

#[test]
fn readers_of_a_publisher_that_ends_keep_what_they_pin() {
    let (_directory, name) = Directory::with_tap();
    let (publisher, log, mut writer) = publish(&PublishConfig::new(&name));
    let mut attachment = Attachment::open(&name, &in_place()).unwrap();
    append(&mut writer, 0, 10);
    let burst = attachment.readers[0].next_burst().unwrap();
    drop(publisher);
    append(&mut writer, 10, 50_000);
    for (number, found) in (0..).zip(burst.packets()) {
        assert_eq!(found.bytes(), crate::common::packet(number));
    }
    // A child started by another test holds the publisher's sockets until it runs.
    until("the link tells", || attachment.link.is_gone());
    assert_eq!(log.readers(), 1, "nobody knows when it goes, so its seat is its own for ever");
}

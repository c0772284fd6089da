//! Tests that one user's share of a name leaves enough for others, and for the writer.

use std::os::unix::fs::chown;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Appended, Log, LogConfig, MAX_WINDOW, Meta, Policy, Writer};
use burstline_share::{
    AttachConfig, Attachment, Feed, LosslessReaders, Offer, PublishConfig, Publisher, Refusal,
    ShareError, query,
};

use crate::common::{
    Directory, SEGMENT_BYTES, append, config, open, packet, publish, read, refusal, until,
};
use crate::permissions::{as_nobody, as_user, for_root};
use crate::wire::{ask, connect};

/// Another user calls until 100 calls are refused, or the number in `BURSTLINE_STORM`. Those that
/// are heard must be within its share. Other refusals fail the test, unless `may_be` accepts them.
fn storm(call: impl Fn() -> Result<(), ShareError> + Sync, may_be: fn(&Refusal) -> bool) {
    let most_refused = std::env::var("BURSTLINE_STORM").map_or(100, |calls| calls.parse().unwrap());
    let began = Instant::now();
    let (mut heard, mut refused) = (0_u64, 0);
    as_nobody(&[], || {
        while refused < most_refused {
            match call().map_err(refusal) {
                Ok(()) => heard += 1,
                Err(Refusal::TooOften { uid: 65_534, most: 200 }) => refused += 1,
                Err(refusal) if may_be(&refusal) => {}
                Err(refusal) => panic!("{refusal}"),
            }
        }
    });
    let most = 200 + 200 * (began.elapsed().as_secs() + 1);
    assert!((1..=most).contains(&heard), "{heard} calls, at most {most}");
}

#[test]
fn who_held_the_writer_up_does_not_do_it_again_by_attaching_anew() {
    let (_directory, name) = Directory::with_tap();
    let lossless = LosslessReaders::For { deadline_ns: 1_000_000 };
    let allowing = PublishConfig { lossless, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&allowing);
    let config = AttachConfig { policy: Policy::Lossless, ..AttachConfig::default() };
    let open = || Attachment::open(&name, &config);
    let slow = open().unwrap();
    let mut written = 0;
    while !slow.readers[0].is_demoted() {
        append(&mut writer, written, written + 32);
        written += 32;
    }
    // Whether the reader is still there or has left.
    // Ten seconds, less the time that this thread had no core.
    let is_told = |error| matches!(refusal(error), Refusal::HeldUp { wait_s: 1..=10, .. });
    assert!(is_told(open().unwrap_err()));
    drop(slow);
    assert!(is_told(open().unwrap_err()));
    Attachment::open(&name, &AttachConfig::default()).unwrap();
}

/// The deadline of [`hold_up`], in ns.
const DEADLINE_NS: u64 = 1_000_000_000;
/// How often a reader does so, at most.
const TURNS: usize = 10;

/// Writes until the reader at `turn` has held up the writer for half of the deadline; the other
/// readers take what is there. Returns the number of packets written in all.
fn hold_up(writer: &mut Writer, readers: &mut [Feed], turn: usize, mut written: u64) -> u64 {
    let half = Duration::from_nanos(DEADLINE_NS / 2);
    let mut held_since: Option<Instant> = None;
    while !readers[turn].is_demoted() && held_since.is_none_or(|since| since.elapsed() < half) {
        let bytes = packet(written);
        match writer.append(&bytes, &Meta::new(written, bytes.len() as u32, 0)) {
            Appended::Full => held_since = held_since.or_else(|| Some(Instant::now())),
            _ => written += 1,
        }
        writer.publish();
        for (_, reader) in readers.iter_mut().enumerate().filter(|(at, _)| *at != turn) {
            while reader.next_burst().is_some() {}
        }
    }
    written
}

/// A user's `seats` readers hold up the writer in turn, for half of the deadline each.
fn take_turns(seats: usize) {
    let (_directory, name) = Directory::with_tap();
    let lossless = LosslessReaders::For { deadline_ns: DEADLINE_NS };
    let allowing = PublishConfig { lossless, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&allowing);
    let config = AttachConfig { policy: Policy::Lossless, ..AttachConfig::default() };
    let open = || Attachment::open(&name, &config);
    let mut readers: Vec<_> = (0..seats).map(|_| open().unwrap().readers.pop().unwrap()).collect();
    let mut written = 0;
    for turn in 0..TURNS {
        let turn = turn % seats;
        written = hold_up(&mut writer, &mut readers, turn, written);
        if readers[turn].is_demoted() {
            let refused = refusal(open().unwrap_err());
            assert!(matches!(refused, Refusal::HeldUp { wait_s: 1..=10, .. }), "{refused}");
            return;
        }
        while readers[turn].next_burst().is_some() {}
    }
    panic!("{TURNS} times half of the deadline, and no reader was demoted");
}

#[test]
fn a_reader_that_lets_go_before_each_deadline_is_demoted_and_refused() {
    take_turns(1);
}

#[test]
fn a_users_readers_do_not_get_a_deadline_each() {
    take_turns(3);
}

#[test]
fn another_users_lossless_reader_stays_one() {
    let Some((_directory, name)) = for_root() else { return };
    let lossless = LosslessReaders::For { deadline_ns: DEADLINE_NS };
    let allowing = PublishConfig { lossless, mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&allowing);
    let config = AttachConfig { policy: Policy::Lossless, ..AttachConfig::default() };
    let open = || Attachment::open(&name, &config).unwrap().readers.pop().unwrap();
    let mut readers = [as_nobody(&[], open), open()];
    let mut written = 0;
    for _ in 0..TURNS {
        written = hold_up(&mut writer, &mut readers, 0, written);
        while !readers[0].is_demoted() && readers[0].next_burst().is_some() {}
    }
    assert!(readers[0].is_demoted(), "{TURNS} times half of the deadline");
    while readers[1].next_burst().is_some() {}
    let seen = readers[1].statistics();
    assert_eq!((readers[1].is_demoted(), seen.delivered, seen.missed), (false, written, 0));
    Attachment::open(&name, &config).unwrap();
    let refused = as_nobody(&[], || refusal(Attachment::open(&name, &config).unwrap_err()));
    assert!(matches!(refused, Refusal::HeldUp { uid: 65_534, .. }), "{refused}");
}

#[test]
fn a_storm_of_attaches_is_bounded_and_leaves_others_alone() {
    let Some((_directory, name)) = for_root() else { return };
    let config = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&config);
    let mut own = open(&name).unwrap();
    let (name, mut written, mut seen) = (&name, 0, 0);
    thread::scope(|scope| {
        // The publisher may not have noticed yet that the previous readers left.
        let may_be = |refusal: &Refusal| matches!(refusal, Refusal::UsersSeats { .. });
        let storming = scope.spawn(move || storm(|| open(name).map(drop), may_be));
        while !storming.is_finished() {
            append(&mut writer, written, written + 32);
            written += 32;
            seen += read(&mut own.readers[0]);
        }
        storming.join().unwrap();
    });
    assert_eq!(seen, written, "the reader of the same user as the writer has every packet");
    open(name).unwrap();
}

#[test]
fn queries_of_other_users_are_bounded() {
    let Some((_directory, name)) = for_root() else { return };
    let (_publisher, ..) = publish(&PublishConfig { mode: 0o666, ..PublishConfig::new(&name) });
    storm(|| query(&name).map(drop), |_| false);
    (0..300).for_each(|_| drop(query(&name).unwrap()));
}

/// Another user sends nonsense, nothing, or closes at once. Only so many of these are read as it
/// may connect; the rest hear why, and end. A third user's queries and attaches are answered.
#[test]
fn connects_that_never_ask_are_bounded_and_leave_others_alone() {
    let Some((_directory, name)) = for_root() else { return };
    let config = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&config);
    let most_refused: u64 =
        std::env::var("BURSTLINE_STORM").map_or(1000, |calls| calls.parse().unwrap());
    let (mut read_by_it, mut refused, began) = (0_u64, 0, Instant::now());
    let most = || 200 + 200 * (began.elapsed().as_secs() + 1);
    let is_over = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let honest = scope.spawn(|| {
            as_user(40_001, &[], || {
                let mut served = 0;
                while !is_over.load(Relaxed) || served < 3 {
                    query(&name).unwrap();
                    match open(&name).map(drop).map_err(refusal) {
                        Ok(()) => served += 1,
                        // The publisher has not noticed yet that its last readers left.
                        Err(Refusal::UsersSeats { .. }) => {}
                        Err(refusal) => panic!("{refusal}"),
                    }
                    thread::sleep(Duration::from_millis(20)); // a hundred calls a second at most
                }
                served
            })
        });
        as_nobody(&[], || {
            while refused < most_refused && read_by_it <= most() {
                drop(connect(&name)); // neither says nor hears anything
                match ask(&name, &[7; 1000], &[]).expect("an answer").refusal() {
                    (2, 1000, 0) => read_by_it += 1,
                    (12, 65_534, 200) => refused += 1,
                    refusal => panic!("{refusal:?}"),
                }
            }
        });
        is_over.store(true, Relaxed); // orders no memory
        honest.join().unwrap()
    });
    assert!((1..=most()).contains(&read_by_it), "{read_by_it} were read, at most {}", most());
    assert!(served >= 3);
    let mut own = open(&name).unwrap();
    append(&mut writer, 0, 50);
    assert_eq!(read(&mut own.readers[0]), 50);
}

#[test]
fn one_user_does_not_take_every_seat() {
    let Some((_directory, name)) = for_root() else { return };
    let config = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, log, mut writer) = publish(&config);
    let seats = log.config().max_readers;
    let mut taken = Vec::new();
    let refused = as_nobody(&[], || {
        loop {
            match open(&name) {
                Ok(attachment) => taken.push(attachment),
                Err(error) => break refusal(error),
            }
        }
    });
    let most = seats / 2;
    assert_eq!(taken.len(), most);
    assert_eq!(refused, Refusal::UsersSeats { has: most as u64, most: most as u64 });
    let mut own = open(&name).unwrap();
    append(&mut writer, 0, 50);
    assert_eq!(read(&mut own.readers[0]), 50);
}

/// Publishes logs of 16, 64 and 256 segments as a user of its own. Another user takes all windows
/// that it gets, the largest first; then root and the owner attach.
#[test]
fn one_users_windows_leave_some_for_root_and_the_owner() {
    const OWNER: u32 = 40_001;
    if for_root().is_none() {
        return;
    }
    for segments in [16, 64, 256] {
        let (directory, name) = Directory::with_tap();
        chown(directory.path(), Some(OWNER), None).unwrap();
        let bytes = segments * SEGMENT_BYTES;
        let (log, _writer) = Log::create(LogConfig { bytes, max_readers: 17, ..config() }).unwrap();
        let publishing = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
        let _publisher =
            as_user(OWNER, &[], || Publisher::start(&publishing, vec![log.clone()]).unwrap());
        let open =
            |window| Attachment::open(&name, &AttachConfig { window, ..AttachConfig::default() });
        let (most, mut taken) = ((segments - 2) / 2, Vec::new());
        as_nobody(&[], || {
            for window in (1..=MAX_WINDOW).rev() {
                let refused = loop {
                    match open(window) {
                        Ok(attachment) => taken.push(attachment),
                        Err(error) => break refusal(error),
                    }
                };
                let has = log.windows() as u64;
                match refused {
                    Refusal::UsersWindows { windows, most } => {
                        assert_eq!((windows, most), (has + window as u64, has.max(most)));
                    }
                    Refusal::UsersSeats { has: 8, most: 8 } => {}
                    refusal => panic!("{segments}: {refusal}"),
                }
            }
        });
        assert_eq!(log.windows(), most.div_ceil(2), "half of the half for others");
        let reserved = ((segments - 2) / 4).min(MAX_WINDOW);
        // Another user takes what is left for others.
        let _others = as_user(40_002, &[], || {
            (1..=MAX_WINDOW)
                .rev()
                .flat_map(|window| std::iter::from_fn(move || open(window).ok()))
                .collect::<Vec<_>>()
        });
        assert!(log.windows() <= most && (log.windows() == most || log.readers() == 15));
        let _root = open(reserved).unwrap();
        let _owner = as_user(OWNER, &[], || open(reserved)).unwrap();
    }
}

#[test]
fn a_seat_that_is_not_claimed_is_taken_back() {
    let (_directory, name) = Directory::with_tap();
    let (publisher, log, _writer) = publish(&PublishConfig::new(&name));
    let offer = Offer::ask(&name, &AttachConfig::default()).unwrap();
    let claimed = open(&name).unwrap();
    assert_eq!(log.readers(), 2);
    thread::sleep(Duration::from_secs(5));
    // A request for a seat makes the publisher check.
    until("the seat that nobody claimed is free", || {
        let _ = query(&name);
        log.readers() == 1
    });
    assert!(publisher.readers()[0].is_claimed && !claimed.link.is_gone());
    // The reader of that seat comes too late.
    let files = offer.logs.into_iter().next().unwrap();
    assert!(burstline_log::UntrustedReader::attach(files).is_err());
    // A child started by another test holds the publisher's sockets until it runs.
    until("the link tells", || offer.link.is_gone());
}

//! Tests that one user's share of a name leaves enough for others, and for the writer.

use std::thread;
use std::time::{Duration, Instant};

use burstline_log::Policy;
use burstline_share::{
    AttachConfig, Attachment, LosslessReaders, Offer, PublishConfig, Refusal, ShareError, query,
};

use crate::common::{Directory, append, open, publish, read, refusal, until};
use crate::permissions::{as_nobody, for_root};

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

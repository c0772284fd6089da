//! Fake publishers: the client reports the fault and is not harmed.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use burstline_log::AttachError;
use burstline_share::{Refusal, ShareError, query};
use burstline_sys::memory::{PageChoice, Region, RegionRequest};
use burstline_sys::seqpacket::SeqPacket;

use crate::common::{Directory, SEGMENT_BYTES, append, log, open, read, refusal};
use crate::wire::{OTHER, PUBLISHER, VERSION, fake_publisher, header, welcome};

/// Returns our client's error for a publisher with these answers.
fn verdict(say: impl Fn(&SeqPacket) + Send + 'static) -> ShareError {
    let (_directory, name) = Directory::with_tap();
    let publisher = fake_publisher(&name, 1, say);
    let error = open(&name).unwrap_err();
    publisher.join().unwrap();
    let text = error.to_string();
    assert!(text.contains(&name) && !text.contains('\n'), "{text}");
    error
}

#[test]
fn answers_that_are_none() {
    let mut wrong: Vec<Vec<u8>> = vec![
        b"x".to_vec(),
        vec![0; 100],
        vec![0xff; 2048],
        header(VERSION, 99),
        header(VERSION, 8),      // an end, of no request
        welcome(1, 2, 1),        // the second log first
        welcome(0, 0, 1),        // of no logs
        welcome(0, 65, 1),       // of too many logs
        welcome(0, 1, 9),        // an invalid window
        welcome(0, 1, u32::MAX), // likewise
        welcome(0, 1, 1),        // without descriptors
    ];
    // (An empty message looks like the end of the connection.)
    wrong.extend((1..welcome(0, 1, 1).len()).map(|length| welcome(0, 1, 1)[..length].to_vec()));
    for answer in wrong {
        let said = answer.clone();
        let error = verdict(move |socket| socket.send(&said, &[]).unwrap());
        assert!(matches!(error, ShareError::Broken { .. }), "{answer:?}: {error}");
    }
    let hung_up = verdict(|_| ());
    assert!(matches!(hung_up, ShareError::Absent { is_stale: true, .. }), "{hung_up}");
    let too_long = verdict(|socket| socket.send(&[0; 5000], &[]).unwrap());
    assert!(matches!(too_long, ShareError::Broken { .. }), "{too_long}");
    let of_another_version = verdict(|socket| socket.send(&header(OTHER, 42), &[]).unwrap());
    let told = Refusal::Version { theirs: OTHER.into(), ours: VERSION.into() };
    assert_eq!(refusal(of_another_version), told);
}

#[test]
fn a_query_is_not_answered_for_ever() {
    let (_directory, name) = Directory::with_tap();
    let publisher = fake_publisher(&name, 1, |socket| {
        let mut log = header(VERSION, 6);
        log.extend([0; 48]);
        while socket.send(&log, &[]).is_ok() {}
    });
    let error = query(&name).unwrap_err();
    assert!(matches!(error, ShareError::Broken { .. }), "{error}");
    publisher.join().unwrap();
    let publisher = fake_publisher(&name, 1, |socket| {
        let mut status = header(VERSION, PUBLISHER);
        status.extend([0; 24]);
        // The only fault is that the answer does not end.
        let is_full = |error: &Error| error.kind() == ErrorKind::WouldBlock;
        while !socket.send(&status, &[]).is_err_and(|error| !is_full(&error)) {}
    });
    let error = query(&name).unwrap_err();
    assert!(matches!(error, ShareError::Silent { .. }), "{error}");
    publisher.join().unwrap();
}

fn region(bytes: usize) -> Region {
    let (name, pages) = ("fake".into(), PageChoice::Size4K);
    Region::create(&RegionRequest { name, bytes, pages, node: None }).unwrap()
}

fn own(file: BorrowedFd<'_>) -> OwnedFd {
    file.try_clone_to_owned().unwrap()
}

#[test]
fn descriptors_that_are_no_log() {
    let (log, _writer) = log();
    let seat = log.attach_remote(burstline_log::ReaderConfig::default()).unwrap();
    let good = || {
        let files = seat.files();
        [own(files.packets), own(files.control), own(files.page)]
    };
    let unsealed = Region::create_shared("unsealed", 1 << 20).unwrap();
    let (small, zeros) = (region(SEGMENT_BYTES), region(1 << 20));
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    let zero = OwnedFd::from(File::open("/dev/zero").unwrap());
    let directory = OwnedFd::from(File::open("/").unwrap());
    let plain = OwnedFd::from(File::open(std::env::current_exe().unwrap()).unwrap());
    let wrong: Vec<OwnedFd> = vec![
        own(unsealed.file()),
        own(small.file()),
        own(zeros.file()),
        pipe,
        zero,
        directory,
        plain,
        good().into_iter().nth(2).unwrap(),
    ];
    for (number, file) in wrong.iter().enumerate() {
        for at in 0..3 {
            let mut files = good();
            files[at] = own(file.as_fd());
            // A sealed region with any contents is valid packet memory, if it is large enough. A
            // page with any contents is a valid reader's page, if it has that size.
            let is_packets = at == 0 && number == 2;
            let is_page = at == 2 && number == 7;
            if is_packets || is_page {
                continue;
            }
            let error = verdict(move |socket| {
                let files = files.each_ref().map(AsFd::as_fd);
                socket.send(&welcome(0, 1, 1), &files).unwrap();
            });
            assert!(matches!(error, ShareError::Attach { .. }), "{number} at {at}: {error}");
        }
    }
    for count in [0, 1, 2, 4] {
        let [a, b, c] = good();
        let files = [a, b, c, own(zeros.file())];
        let error = verdict(move |socket| {
            let files = files.each_ref().map(AsFd::as_fd);
            socket.send(&welcome(0, 1, 1), &files[..count]).unwrap();
        });
        assert!(matches!(error, ShareError::Broken { .. }), "{count}: {error}");
    }
}

#[test]
fn a_seat_that_is_given_twice() {
    let (log, mut writer) = log();
    let seat = log.attach_remote(burstline_log::ReaderConfig::default()).unwrap();
    let (_directory, name) = Directory::with_tap();
    let files = seat.files();
    let files = [own(files.packets), own(files.control), own(files.page)];
    let publisher = fake_publisher(&name, 2, move |socket| {
        let files = files.each_ref().map(AsFd::as_fd);
        socket.send(&welcome(0, 1, 1), &files).unwrap();
    });
    let mut first = open(&name).unwrap();
    let second = open(&name).unwrap_err();
    assert!(matches!(second, ShareError::Attach { error: AttachError::Claimed, .. }), "{second}");
    append(&mut writer, 0, 10);
    assert_eq!(read(&mut first.readers[0]), 10);
    publisher.join().unwrap();
}

#[test]
fn a_publisher_that_says_nothing_is_not_waited_for_without_end() {
    let (_directory, name) = Directory::with_tap();
    let listener = SeqPacket::bind(std::path::Path::new(&name)).unwrap();
    listener.listen(8).unwrap();
    let error = query(&name).unwrap_err();
    assert!(
        error.to_string().contains(&format!("process {} has not answered", std::process::id())),
        "{error}"
    );
}

//! Tests who may read: the file's owner, group and mode, and the actual caller.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;

use burstline_share::{
    AttachConfig, Attachment, PublishConfig, Publisher, Refusal, ShareError, Trust, query,
};
use burstline_skip::skip;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_res_uid};

use crate::common::{Directory, append, log, open, publish, read, refusal, until};

const NOBODY: u32 = 65_534;
const GROUP: u32 = 54_321;

/// Returns a directory and a name in it, if this test can act as another user.
pub(crate) fn for_root() -> Option<(Directory, String)> {
    let is_root = geteuid().is_root();
    if !is_root {
        skip("it needs root to act as another user; use sudo");
    }
    is_root.then(Directory::with_tap)
}

/// Runs `work` on a thread as nobody, without capabilities.
pub(crate) fn as_nobody<T: Send>(groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    as_user(NOBODY, groups, work)
}

/// Runs `work` on a thread as another user, without capabilities.
pub(crate) fn as_user<T: Send>(number: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            set_thread_groups(&groups).unwrap();
            set_thread_gid(Gid::from_raw(number)).unwrap();
            let user = Uid::from_raw(number);
            set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        there.join().unwrap()
    })
}

#[test]
fn a_hundred_users_without_the_group_are_refused() {
    const USERS: std::ops::Range<u32> = 40_000..40_100;
    let Some((_directory, name)) = for_root() else { return };
    let group = Some(GROUP);
    let config = PublishConfig { mode: 0o660, group, ..PublishConfig::new(&name) };
    let (publisher, ..) = publish(&config);
    // With the group, the first of them may attach: so the folder does not keep them out.
    as_user(USERS.start, &[GROUP], || open(&name).map(drop)).unwrap();
    for number in USERS {
        let error = as_user(number, &[], || open(&name)).unwrap_err();
        assert!(matches!(error, ShareError::NotAllowed { uid, .. } if uid == number), "{error}");
    }
    until("no reader", || publisher.readers().is_empty());
    burstline_skip::ledger(USERS.len() as u64, USERS.len() as u64, &[]);
}

#[test]
fn owner_group_and_mode_are_as_asked() {
    let Some((directory, name)) = for_root() else { return };
    let permissions = || {
        let found = fs::symlink_metadata(&name).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    {
        let (_publisher, ..) = publish(&PublishConfig::new(&name));
        assert_eq!((permissions().0, permissions().2), (0, 0o600));
        let error = as_nobody(&[], || open(&name)).unwrap_err();
        assert!(matches!(error, ShareError::NotAllowed { uid: NOBODY, .. }), "{error}");
        open(&name).unwrap();
    }
    {
        let owner = Some(NOBODY);
        let (_publisher, ..) = publish(&PublishConfig { owner, ..PublishConfig::new(&name) });
        assert_eq!((permissions().0, permissions().2), (NOBODY, 0o600));
        as_nobody(&[], || open(&name).map(drop)).unwrap();
    }
    {
        let (group, mode) = (Some(GROUP), 0o660);
        let config = PublishConfig { group, mode, ..PublishConfig::new(&name) };
        let (_publisher, _log, mut writer) = publish(&config);
        assert_eq!(permissions(), (0, GROUP, 0o660));
        assert!(as_nobody(&[], || open(&name)).is_err());
        let mut member = as_nobody(&[1, GROUP], || open(&name)).unwrap();
        append(&mut writer, 0, 10);
        assert_eq!(read(&mut member.readers[0]), 10);
    }
    assert_eq!(directory.files(), ["tap.lock"]);
    assert_eq!(fs::metadata(directory.name("tap.lock")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_mode_that_somebody_changed_opens_nothing() {
    let Some((_directory, name)) = for_root() else { return };
    let (publisher, ..) = publish(&PublishConfig::new(&name));
    fs::set_permissions(&name, fs::Permissions::from_mode(0o777)).unwrap();
    for error in
        [as_nobody(&[], || open(&name)).unwrap_err(), as_nobody(&[], || query(&name).unwrap_err())]
    {
        assert_eq!(refusal(error), Refusal::NotAllowed { uid: NOBODY.into() });
    }
    assert!(publisher.readers().is_empty());
}

#[test]
fn a_writer_of_another_user_is_copied_unless_it_is_vouched_for() {
    let Some((directory, name)) = for_root() else { return };
    std::os::unix::fs::chown(directory.path(), Some(NOBODY), None).unwrap();
    let (log, mut writer) = log();
    let config = PublishConfig::new(&name);
    let publisher = as_nobody(&[], || Publisher::start(&config, vec![log])).unwrap();
    // SAFETY: the writer belongs to this test, and keeps to the protocol.
    let (own_user, anyone) = unsafe { (Trust::own_user(), Trust::anyone()) };
    let attach =
        |trust| Attachment::open(&name, &AttachConfig { trust, ..AttachConfig::default() });
    let error = attach(own_user).unwrap_err();
    assert!(matches!(error, ShareError::NotTrusted { uid: NOBODY, ours: 0, .. }), "{error}");
    for (trust, is_wary) in [(Trust::NOBODY, true), (Trust::PROGRAM, true), (anyone, false)] {
        let reader = &attach(trust).unwrap().readers[0];
        assert_eq!(reader.is_wary(), is_wary, "{trust:?}");
    }
    let mut attachment = attach(anyone).unwrap();
    append(&mut writer, 0, 10);
    assert_eq!(read(&mut attachment.readers[0]), 10);
    assert_eq!((attachment.link.uid(), query(&name).unwrap().uid), (NOBODY, NOBODY));
    // The lock belongs to the user nobody, who may not take root's lock either.
    drop(publisher);
    fs::remove_file(directory.name("tap.lock")).unwrap();
    let _roots = publish(&config);
    let error = as_nobody(&[], || Publisher::start(&config, vec![crate::common::log().0]));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("tap.lock") && error.contains("Permission denied"), "{error}");
}

#[test]
fn only_a_socket_is_replaced() {
    let (directory, name) = Directory::with_tap();
    let target = directory.name("precious");
    fs::write(&target, "precious").unwrap();
    let start = || Publisher::start(&PublishConfig::new(&name), vec![log().0]);
    let refuse = |what: &str| {
        let error = start().unwrap_err();
        assert!(matches!(error, ShareError::NotASocket { .. }), "{what}: {error}");
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        let left = directory.files();
        assert!(!left.iter().any(|file| file == ".tap" || file == "tap.lock"), "{left:?}");
    };
    fs::hard_link(&target, &name).unwrap();
    refuse("a file");
    fs::remove_file(&name).unwrap();
    std::os::unix::fs::symlink(&target, &name).unwrap();
    refuse("a link");
    fs::remove_file(&name).unwrap();
    fs::create_dir(&name).unwrap();
    refuse("a directory");
    fs::remove_dir(&name).unwrap();

    // As after a crash: a dead socket, an unfinished one, and nonsense in the lock.
    drop(burstline_sys::seqpacket::SeqPacket::bind(Path::new(&name)).unwrap());
    drop(burstline_sys::seqpacket::SeqPacket::bind(Path::new(&directory.name(".tap"))).unwrap());
    fs::write(directory.name("tap.lock"), [0xff; 100]).unwrap();
    let publisher = start().unwrap();
    assert!(publisher.epoch() > 0 && query(&name).unwrap().epoch == publisher.epoch());
    drop(publisher);
    assert_eq!(directory.files(), ["precious", "tap.lock"]);
}

#[test]
fn a_socket_that_is_not_ours_any_more_is_left_alone() {
    let (directory, name) = Directory::with_tap();
    let (publisher, ..) = publish(&PublishConfig::new(&name));
    fs::remove_file(&name).unwrap();
    let _theirs = burstline_sys::seqpacket::SeqPacket::bind(Path::new(&name)).unwrap();
    drop(publisher);
    assert_eq!(directory.files(), ["tap", "tap.lock"]);
}

#[test]
fn a_name_that_nobody_publishes() {
    let (_directory, name) = Directory::with_tap();
    let error = open(&name).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "no log is published as {name}: burstline doctor logs lists those that are; \
             start one with burstline capture SOURCE --publish {name}"
        )
    );
    drop(burstline_sys::seqpacket::SeqPacket::bind(Path::new(&name)).unwrap());
    let error = open(&name).unwrap_err().to_string();
    assert!(error.contains("(its publisher has stopped): "), "{error}");
    fs::remove_file(&name).unwrap();
    fs::write(&name, "").unwrap();
    let error = open(&name).unwrap_err();
    assert!(matches!(error, ShareError::NotASocket { .. }), "{error}");
}

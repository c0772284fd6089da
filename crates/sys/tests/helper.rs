//! Verifies what a job's helper does for threads that have become nobody, and what it refuses.
//!
//! A process has one helper and one confinement, so each test is a process: this program, started
//! again with a folder.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use burstline_sys::helper::{self, HelperOptions};
use burstline_sys::late::{self, Opening};
use burstline_sys::privileges::{self, Access, CallFilter, Confinement, LateFiles, Need, Refusal};
use burstline_sys::privileges::{Ruleset, landlock_version};
use burstline_sys::seqpacket::{Kind, peer_of};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::users::{Account, effective_user};

/// The folder of the helper.
const FOLDER: &str = "BURSTLINE_TEST_FOLDER";
/// The command for closed files.
const COMMAND: [&str; 4] = ["sh", "-c", "id -u; cat \"$1\"; exit 3", "{}"];

/// Runs a test in a process of its own, in a folder that is root's alone.
fn alone(test: &str, work: fn(&Path)) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        // On another thread: the test harness still has to end the process.
        let ran = std::thread::spawn(move || work(Path::new(&folder))).join();
        return ran.unwrap();
    }
    if effective_user() != 0 {
        burstline_skip::skip("it takes root to become another user");
        return;
    }
    let folder = TemporaryFolder::create("burstline-helper-").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn confinement(user: Option<Account>, folder: Option<&Path>) -> Confinement {
    let files = Ruleset::new().unwrap();
    if let (Some(files), Some(folder)) = (&files, folder) {
        files.allow(folder, Access::Write).unwrap();
        files.allow(Path::new("/etc/hostname"), Access::Read).unwrap();
    }
    let late = LateFiles { has_modes: true, has_names: true, ..LateFiles::default() };
    let late = if folder.is_some() { late } else { LateFiles::default() };
    let calls = CallFilter::with_late_files(&[Need::Folders], late, Refusal::Kill);
    Confinement { user, files, calls: Some(calls) }
}

/// Starts the helper, and becomes nobody.
fn begin(folder: &Path) {
    let command = COMMAND.map(str::to_owned).to_vec();
    let options = HelperOptions { command, folders: vec![folder.to_owned()] };
    helper::start(options, || Ok(confinement(None, Some(folder)))).unwrap();
    assert!(helper::is_started());
    let nobody = Account::nobody();
    let number = nobody.user;
    assert!(privileges::name_confinement(confinement(Some(nobody), None)));
    privileges::give_up().unwrap();
    assert_eq!((effective_user(), late::user()), (number, 0));
}

#[test]
fn files_are_made_moved_and_removed_in_the_helpers_name() {
    alone("files_are_made_moved_and_removed_in_the_helpers_name", |folder| {
        begin(folder);
        let [one, two, inner] = ["one", "two", "a/b"].map(|name| folder.join(name));
        assert_eq!(fs::write(&one, "x").unwrap_err().kind(), ErrorKind::PermissionDenied);
        let mut file = Opening::write().create_new().mode(0o600).open(&one).unwrap();
        file.write_all(b"text").unwrap();
        let again = Opening::write().create_new().open(&one).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        let found = late::metadata(&one).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777, found.len()), (0, 0o600, 4));
        late::set_owner_and_mode(&file, [None, None], Some(0o640)).unwrap();
        assert_eq!(late::symlink_metadata(&one).unwrap().mode() & 0o7777, 0o640);
        late::rename(&one, &two).unwrap();
        assert_eq!(late::metadata(&one).unwrap_err().kind(), ErrorKind::NotFound);
        late::create_folders(&inner).unwrap();
        late::create_folders(&inner).unwrap();
        let mut names = late::names_in(folder).unwrap();
        names.sort();
        assert_eq!(names, ["a", "two"].map(OsString::from));
        late::remove_file(&two).unwrap();
        assert!(!late::is_file(&two));
        helper::end();
        let ended = late::remove_file(&two).unwrap_err().to_string();
        assert_eq!(ended, "the process that opens files for this job has ended");
    });
}

#[test]
fn peers_see_the_helpers_user() {
    alone("peers_see_the_helpers_user", |folder| {
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let others = TemporaryFolder::create("burstline-helper-").unwrap();
        let elsewhere = others.path().join("socket");
        let _elsewhere = UnixListener::bind(&elsewhere).unwrap();
        let link = folder.join("link");
        symlink(&elsewhere, &link).unwrap();
        begin(folder);
        let direct = std::os::unix::net::UnixStream::connect(&path).unwrap_err();
        // The list of calls has no sockets that connect.
        assert_eq!(direct.kind(), ErrorKind::InvalidInput);
        let timeout = Some(Duration::from_secs(1));
        let _connected = late::connect(&path, Kind::Stream, timeout).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(peer_of(&accepted).unwrap().uid, 0);
        let refused = |path: &Path, kind: Kind| {
            late::connect(path, kind, timeout).unwrap_err().raw_os_error()
        };
        assert_eq!(refused(&path, Kind::Messages), Some(libc::EPROTOTYPE));
        assert_eq!(refused(&elsewhere, Kind::Stream), Some(libc::EACCES));
        // The link itself is no socket.
        assert_eq!(refused(&link, Kind::Stream), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn what_its_own_rights_do_not_cover_is_refused() {
    alone("what_its_own_rights_do_not_cover_is_refused", |folder| {
        let others = TemporaryFolder::create("burstline-helper-").unwrap();
        let has_landlock = landlock_version() > 0;
        begin(folder);
        let setuid = folder.join("setuid");
        let file = Opening::write().create_new().mode(0o4755).open(&setuid).unwrap();
        late::set_owner_and_mode(&file, [None, None], Some(0o6755)).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o755, "no program of root's");
        let reader = late::open(&setuid).unwrap();
        let refused = late::set_owner_and_mode(&reader, [None, None], Some(0o777)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "it may only be read");
        if !has_landlock {
            return burstline_skip::without("no Landlock here: files of others are not closed");
        }
        let refused = |outcome: std::io::Result<()>, what: &str| {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::PermissionDenied, "{what}");
        };
        refused(late::open(Path::new("/etc/shadow")).map(drop), "another file");
        refused(late::remove_file(Path::new("/etc/hostname")), "a file to read");
        let outside = others.path().join("x");
        refused(Opening::write().or_create().open(&outside).map(drop), "another folder");
        refused(late::create_folder(&outside, 0o700), "a folder there");
        refused(late::run(&[], Path::new("/etc/passwd")).map(drop), "a command for it");
        let climbing = folder.join("../../etc/passwd");
        refused(late::run(&[], &climbing).map(drop), "or by another way");
    });
}

#[test]
fn the_command_it_knows_is_run_for_files_of_its_folder() {
    alone("the_command_it_knows_is_run_for_files_of_its_folder", |folder| {
        let file: PathBuf = folder.join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        begin(folder);
        // Whatever the job asks for: the helper's own command is run.
        let other = ["touch".to_owned(), "/etc/burstline-was-here".to_owned()];
        let ended = late::run(&other, &file).unwrap();
        assert_eq!(ended.code(), Some(3));
        assert!(!Path::new("/etc/burstline-was-here").exists());
    });
}

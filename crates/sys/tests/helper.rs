//! Verifies what a job's helper does for threads that have become nobody, and what it refuses.
//!
//! A process has one helper and one confinement, so each test is a process: this program, started
//! again with a folder.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burstline_sys::helper::launcher::{self, Program};
use burstline_sys::helper::{self, Door, Extension, Grant, GrantKind, HelperOptions, Names};
use burstline_sys::late::{self, Opening};
use burstline_sys::namespace;
use burstline_sys::privileges::Ruleset;
use burstline_sys::privileges::{self, Access, CallFilter, Confinement, LateFiles, Need, Refusal};
use burstline_sys::raw_socket::{raw_socket, set_with_rights};
use burstline_sys::readiness;
use burstline_sys::seqpacket::{Kind, peer_of};
use burstline_sys::tap::{Tap, TapOptions};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::users::{Account, effective_user};

/// The folder of the helper.
const FOLDER: &str = "BURSTLINE_TEST_FOLDER";
/// A file that may be read.
const HOSTNAME: &str = "/etc/hostname";
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
        files.allow(Path::new(HOSTNAME), Access::Read).unwrap();
    }
    let late = LateFiles {
        has_modes: true,
        has_names: true,
        is_helper: true,
        opens_ports: true,
        ..LateFiles::default()
    };
    let late = if folder.is_some() { late } else { LateFiles::default() };
    let calls = CallFilter::with_late_files(&[Need::Folders], late, Refusal::Kill);
    Confinement { user, files, calls: Some(calls) }
}

/// Starts the helper, and becomes nobody.
fn begin(folder: &Path) {
    start(folder, folder_and_hostname(folder));
    become_nobody();
}

fn folder_and_hostname(folder: &Path) -> Vec<Grant> {
    vec![
        Grant::of(folder.to_owned(), GrantKind::Write),
        Grant::of(HOSTNAME.into(), GrantKind::Read),
    ]
}

fn start(folder: &Path, grants: Vec<Grant>) {
    let command = COMMAND.map(str::to_owned).to_vec();
    let sockets = vec![folder.join("socket"), folder.join("link")];
    let name_characters = "~".to_owned();
    let options =
        HelperOptions { grants, sockets, command, name_characters, ..HelperOptions::default() };
    helper::start(options, || Ok(confinement(None, Some(folder)))).unwrap();
}

fn become_nobody() {
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

/// A job whose user is named does the rest in that user's name.
#[test]
fn a_job_asks_only_for_what_it_begins_with() {
    alone("a_job_asks_only_for_what_it_begins_with", |folder| {
        let [first, other] = ["first", "other"].map(|name| folder.join(name));
        for path in [&first, &other] {
            fs::write(path, "x").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let options = HelperOptions {
            grants: vec![Grant::of_one(first.clone(), GrantKind::Write)],
            gives_files: true,
            is_partial: true,
            has_files_of_others: true,
            ..HelperOptions::default()
        };
        helper::start(options, || Ok(confinement(None, Some(folder)))).unwrap();
        become_nobody();
        let file = Opening::read_and_write().open(&first).unwrap();
        late::set_owner_and_mode(&file, [Some(1000), Some(1000)], Some(0o640)).unwrap();
        let found = late::metadata(&first).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (1000, 1000, 0o640));
        // Nobody may not, and the helper is not asked.
        for path in [&other, &folder.join("new")] {
            let refused = Opening::write().or_create().open(path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{path:?}");
        }
        assert!(late::bind(&folder.join("x"), Kind::Messages, [None; 2], None).is_err());
    });
}

#[test]
fn peers_see_the_helpers_user() {
    alone("peers_see_the_helpers_user", |folder| {
        let [path, other, link] = ["socket", "other", "link"].map(|name| folder.join(name));
        let listener = UnixListener::bind(&path).unwrap();
        let _other = UnixListener::bind(&other).unwrap();
        symlink(&other, &link).unwrap();
        begin(folder);
        let direct = UnixStream::connect(&path).unwrap_err();
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
        assert_eq!(refused(&other, Kind::Stream), Some(libc::EACCES), "it is not listed");
        // The link itself is no socket.
        assert_eq!(refused(&link, Kind::Stream), Some(libc::EINVAL));
    });
}

/// The names of all jobs are in one folder.
#[test]
fn the_socket_of_a_name_is_removed_and_nothing_else_is_done_there() {
    alone("the_socket_of_a_name_is_removed_and_nothing_else_is_done_there", |folder| {
        let [socket, other, file] = ["mine", "other", "file"].map(|name| folder.join(name));
        let _listeners = [&socket, &other].map(|path| UnixListener::bind(path).unwrap());
        fs::write(&file, "x").unwrap();
        let grants = [&socket, &file].map(|path| Grant::of(path.clone(), GrantKind::Socket));
        start(folder, grants.to_vec());
        become_nobody();
        assert!(late::symlink_metadata(&socket).unwrap().file_type().is_socket());
        late::remove_file(&socket).unwrap();
        assert!(!late::exists(&socket));
        for refused in [
            late::remove_file(&other),
            late::remove_file(&file),
            late::open(&file).map(drop),
            late::rename(&file, &socket),
            Opening::write().create_new().open(&socket).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
    });
}

/// A folder may have more than the job's files, such as the script for closed ones.
#[test]
fn only_files_of_the_jobs_names_are_changed_or_read() {
    alone("only_files_of_the_jobs_names_are_changed_or_read", |folder| {
        let [mine, script, inner] = ["x_1", "keep.sh", "a/x_1"].map(|name| folder.join(name));
        fs::write(&script, "x").unwrap();
        fs::create_dir(folder.join("a")).unwrap();
        let grant = Grant::of(folder.to_owned(), GrantKind::Write);
        let named = |prefix: &str| Grant {
            name_prefix: prefix.to_owned(),
            is_deep: false,
            ..grant.clone()
        };
        start(folder, vec![named("x"), named("y")]);
        become_nobody();
        Opening::write().create_new().open(&mine).unwrap();
        Opening::write().create_new().open(&folder.join("y_1")).unwrap();
        assert_eq!(late::run(&[], &mine).unwrap().code(), Some(3));
        for refused in [
            Opening::write().open(&script).map(drop),
            Opening::write().create_new().open(&inner).map(drop),
            late::remove_file(&script),
            late::rename(&mine, &script),
            late::run(&[], &script).map(drop),
            late::open(&script).map(drop),
            late::metadata(&script).map(drop),
            late::open(&inner).map(drop),
            late::names_in(inner.parent().unwrap()).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        late::open(&mine).unwrap();
        assert_eq!(late::names_in(folder).unwrap().len(), 4);
    });
}

/// What a user has asked to write or read is one file, also if a folder is there.
#[test]
fn a_grant_of_one_file_has_nothing_below_it() {
    alone("a_grant_of_one_file_has_nothing_below_it", |folder| {
        let [to_write, to_read] = ["w", "r"].map(|name| folder.join(name));
        for path in [&to_write, &to_read] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("key"), "x").unwrap();
        }
        let near = folder.join("near");
        fs::create_dir_all(near.join("a")).unwrap();
        ["key", "a/key"].iter().for_each(|name| fs::write(near.join(name), "x").unwrap());
        let write = Grant::of_one(to_write.clone(), GrantKind::Write);
        let read = Grant::of_one(to_read.clone(), GrantKind::Read);
        let others = Grant { is_deep: false, ..Grant::of(near.clone(), GrantKind::Read) };
        start(folder, vec![write, read, others]);
        become_nobody();
        for refused in [
            late::open(&to_write.join("key")).map(drop),
            late::open(&to_read.join("key")).map(drop),
            Opening::write().create_new().open(&to_write.join("x")).map(drop),
            late::create_folder(&to_write.join("x"), 0o700),
            late::remove_file(&to_write.join("key")),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert!(late::metadata(&to_read).unwrap().is_dir());
        assert!(late::open(&near.join("key")).is_ok());
        let deeper = late::open(&near.join("a/key")).unwrap_err();
        assert_eq!(deeper.kind(), ErrorKind::PermissionDenied, "a folder that is not deep");
    });
}

/// `-w r/d%Y-%m/%B/x.pcapng` has folders in it, and no others are made there.
#[test]
fn only_folders_that_are_named_after_the_time_are_made() {
    alone("only_folders_that_are_named_after_the_time_are_made", |folder| {
        let flat = folder.join("flat");
        fs::create_dir(&flat).unwrap();
        let grant = Grant {
            name_prefix: "x".to_owned(),
            folders: ["d%Y-%m", "%B"].map(str::to_owned).to_vec(),
            ..Grant::of(folder.to_owned(), GrantKind::Write)
        };
        let near = Grant { is_deep: false, ..Grant::of(flat.clone(), GrantKind::Write) };
        start(folder, vec![near, grant]);
        become_nobody();
        let made = folder.join("d2026-11/November");
        late::create_folder(made.parent().unwrap(), 0o700).unwrap();
        late::create_folder(&made, 0o750).unwrap();
        let file = made.join("x_1");
        Opening::write().create_new().open(&file).unwrap();
        assert_eq!(late::names_in(&made).unwrap(), ["x_1"]);
        late::open_folder(&made).unwrap().sync_all().unwrap();
        late::open(&file).unwrap();
        for refused in ["journal", "2026-11", "d2026-11x", "d2026-11/n;", "x", "flat/x"] {
            let refused = late::create_folder(&folder.join(refused), 0o700);
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        let deeper = late::create_folder(&made.join("November"), 0o700);
        assert_eq!(deeper.unwrap_err().kind(), ErrorKind::PermissionDenied);
    });
}

#[test]
fn what_no_grant_covers_is_refused() {
    alone("what_no_grant_covers_is_refused", |folder| {
        let others = TemporaryFolder::create("burstline-helper-").unwrap();
        let outside = others.path().join("x");
        fs::write(&outside, "x").unwrap();
        let (link, pipe) = (folder.join("link"), folder.join("pipe"));
        symlink(&outside, &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        begin(folder);
        let setuid = folder.join("setuid");
        let file = Opening::write().create_new().mode(0o4755).open(&setuid).unwrap();
        late::set_owner_and_mode(&file, [None, None], Some(0o6755)).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o755, "no program of root's");
        let reader = late::open(&setuid).unwrap();
        let refused = |outcome: io::Result<()>, what: &str| {
            let error = outcome.unwrap_err();
            let known = [libc::EACCES, libc::EXDEV, libc::EINVAL].map(Some);
            assert!(known.contains(&error.raw_os_error()), "{what}: {error}");
        };
        let mode = Some(0o777);
        refused(late::set_owner_and_mode(&reader, [None, None], mode), "it may only be read");
        assert!(late::open(Path::new(HOSTNAME)).is_ok());
        refused(late::remove_file(Path::new(HOSTNAME)), "a file to read");
        refused(late::open(Path::new("/etc/shadow")).map(drop), "another file");
        refused(late::metadata(Path::new("/etc/shadow")).map(drop), "what it is");
        refused(Opening::write().or_create().open(&outside).map(drop), "another folder");
        refused(late::create_folder(&outside, 0o700), "a folder there");
        refused(late::open(&link).map(drop), "a link there");
        let climbing = folder.join("..").join(others.path().file_name().unwrap()).join("x");
        refused(late::open(&climbing).map(drop), "by another way");
        refused(late::open(Path::new("/proc/self/mem")).map(drop), "the helper's memory");
        // Neither reads nor writes, so a ruleset asks for no right; a file without a name.
        for flags in [libc::O_WRONLY | libc::O_RDWR, libc::O_TMPFILE, libc::O_TRUNC, libc::O_PATH] {
            refused(Opening::read().with(flags).open(folder).map(drop), "flags");
        }
        // A pipe that nobody reads holds nobody up.
        let held_up = Opening::write().open(&pipe).unwrap_err();
        assert_eq!(held_up.raw_os_error(), Some(libc::ENXIO));
        helper::end();
    });
}

/// Whatever the job asks for: the helper's own command is run, for a file that is there.
#[test]
fn the_command_it_knows_is_run_for_files_of_its_folder() {
    alone("the_command_it_knows_is_run_for_files_of_its_folder", |folder| {
        let names = ["file", "a~b", "x; id", "-rf"].map(|name| folder.join(name));
        names.iter().for_each(|path| fs::write(path, "").unwrap());
        begin(folder);
        let other = ["touch".to_owned(), "/etc/burstline-was-here".to_owned()];
        for path in &names[..2] {
            assert_eq!(late::run(&other, path).unwrap().code(), Some(3), "{}", path.display());
        }
        assert!(!Path::new("/etc/burstline-was-here").exists());
        for path in [&names[2], &folder.join("gone"), Path::new("/etc/passwd"), folder] {
            late::run(&other, path).unwrap_err();
        }
        late::run(&other, &names[3]).unwrap_err();
    });
}

/// Another process that got hold of the job's socket is not served.
#[test]
fn a_child_of_the_job_is_not_served() {
    alone("a_child_of_the_job_is_not_served", |folder| {
        let path = folder.join("x");
        start(folder, folder_and_hostname(folder));
        // SAFETY: the child only asks for a file, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            become_nobody();
            let opened = Opening::write().create_new().open(&path);
            // SAFETY: it ends this process, and nothing else.
            unsafe { libc::_exit(i32::from(opened.is_ok())) };
        }
        let child = rustix::process::Pid::from_raw(child).unwrap();
        let ended = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        assert_eq!(ended.unwrap().unwrap().1.exit_status(), Some(0));
        become_nobody();
        assert!(!late::exists(&path));
        Opening::write().create_new().open(&path).unwrap();
    });
}

/// Allows what a client names: the path of a socket, a tap device or an interface. Passes it on.
fn porter(door: &Door) {
    let listener = UnixListener::from(door.listener().try_clone_to_owned().unwrap());
    listener.set_nonblocking(false).unwrap();
    for client in listener.incoming() {
        let mut client = client.unwrap();
        let mut name = String::new();
        client.read_to_string(&mut name).unwrap();
        let mut extension = Extension::default();
        match &name[..1] {
            "/" => extension.grants.push(Grant::of((&name).into(), GrantKind::Socket)),
            "t" => extension.taps.push(name.clone()),
            _ => extension.interfaces.push(name.clone()),
        }
        door.extend(extension);
        door.pass(client.as_fd(), name.as_bytes()).unwrap();
    }
}

/// Stands for what loads programs: returns its first file if interface 1 may be used.
fn loader(bytes: &[u8], files: Vec<OwnedFd>, may_use: &dyn Fn(u32) -> bool) -> io::Result<OwnedFd> {
    assert_eq!(bytes, b"load");
    let file = files.into_iter().next().filter(|_| may_use(1));
    file.ok_or_else(|| io::Error::from_raw_os_error(libc::EACCES))
}

#[test]
fn ports_are_opened_once_a_user_asks_for_them() {
    alone("ports_are_opened_once_a_user_asks_for_them", |folder| {
        namespace::enter_new_network().unwrap();
        let path = folder.join("door");
        let listener = UnixListener::bind(&path).unwrap();
        let options = HelperOptions {
            porter: Some(porter),
            loader: Some(loader),
            grants: vec![Grant::of(path.clone(), GrantKind::Socket)],
            sockets: vec![path.clone()],
            ..HelperOptions::default()
        };
        helper::start(options, || {
            Ok(Confinement { files: None, ..confinement(None, Some(folder)) })
        })
        .unwrap();
        // A root who is not confined: the user. Threads have rights apart.
        let (ask, asked) = mpsc::channel::<String>();
        let door = path.clone();
        let user = thread::spawn(move || {
            for name in asked {
                let mut door = UnixStream::connect(&door).unwrap();
                door.write_all(name.as_bytes()).unwrap();
                door.shutdown(Shutdown::Write).unwrap();
                let _ = door.read(&mut [0]); // until the job has it
            }
        });
        become_nobody();
        let denied = |error: io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let tap = |name: &str| Tap::open(name, &TapOptions::default()).map_err(|e| e.to_string());
        let load = || {
            let bytes = helper::bytes_to_pass(b"bytes").unwrap();
            helper::load(b"load", &[bytes.as_fd()]).expect("this thread needs it")
        };
        denied(raw_socket(libc::AF_PACKET).unwrap_err());
        denied(load().unwrap_err());
        assert!(tap("t0").is_err());
        // A user who asks before the job has handed over its listener is heard, too.
        ask.send("t9".to_owned()).unwrap();
        readiness::wait(&[listener.as_fd()], u64::MAX).unwrap();
        let clients = helper::serve(listener.as_fd()).unwrap().expect("this thread needs it");
        let is_heard = |name: &str| {
            let client = clients.receive().unwrap().expect("the helper lives");
            assert_eq!(io::read_to_string(client.request).unwrap(), name);
        };
        is_heard("t9");
        denied(helper::serve(listener.as_fd()).unwrap_err());
        let next = |name: &str| {
            ask.send(name.to_owned()).unwrap();
            is_heard(name);
        };
        next("t0");
        let opened = tap("t0").unwrap();
        assert!(opened.interface().is_up && opened.depth() == TapOptions::default().depth);
        denied(raw_socket(libc::AF_PACKET).unwrap_err());
        assert!(tap("t1").is_err(), "nobody has asked for it");
        denied(load().unwrap_err());
        next("lo");
        assert!(tap("lo").is_err(), "it is no tap device of the job");
        let packets = raw_socket(libc::AF_PACKET).unwrap();
        set_with_rights(&packets, libc::SO_RCVBUFFORCE, 8 << 20).unwrap();
        denied(set_with_rights(&packets, libc::SO_MARK, 1).unwrap_err());
        denied(set_with_rights(&clients, libc::SO_RCVBUFFORCE, 8 << 20).unwrap_err());
        denied(raw_socket(libc::AF_INET).unwrap_err());
        let mut loaded = String::new();
        fs::File::from(load().unwrap()).read_to_string(&mut loaded).unwrap();
        assert_eq!(loaded, "bytes");
        // Where users find it, no socket of the job takes its place.
        let bind = |path: &Path| late::bind(path, Kind::Stream, [None; 2], Some(0o600));
        let other = folder.join("peer");
        denied(bind(&other).unwrap_err());
        next(other.to_str().unwrap());
        drop(bind(&other).unwrap());
        late::remove_file(&path).unwrap();
        denied(bind(&path).unwrap_err());
        drop(ask);
        user.join().unwrap();
    });
}

/// Returns all that a program writes to its first output, and how it ended.
fn launched(command: &[&str]) -> io::Result<(String, std::process::ExitStatus)> {
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let (mut output, theirs) = io::pipe()?;
    let (_, errors) = io::pipe()?;
    let mut program = Program::start(&command, theirs.into(), errors.into())?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok((text, status));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_launcher_starts_its_commands_as_root_and_no_others() {
    alone("a_launcher_starts_its_commands_as_root_and_no_others", |folder| {
        let spool = folder.join("spool");
        fs::create_dir(&spool).unwrap();
        // So that nobody sees whether it is there.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o711)).unwrap();
        fs::write(spool.join("file"), "x").unwrap();
        let known: [&[&str]; 3] = [&["sh", "-c", "id -u; exit 7"], &["sleep", "600"], &["/none"]];
        let words = |command: &&[&str]| command.iter().map(OsString::from).collect();
        launcher::start(known.iter().map(words).collect(), Some(spool.clone()), None).unwrap();
        assert!(privileges::name_confinement(confinement(Some(Account::nobody()), None)));
        privileges::give_up().unwrap();
        let (text, status) = launched(known[0]).unwrap();
        assert_eq!((text.as_str(), status.code()), ("0\n", Some(7)));
        // Neither another one, nor the same once more.
        let kinds = [&["sh", "-c", "id -u"][..], known[0], known[2]]
            .map(|command| launched(command).unwrap_err().kind());
        let refused = ErrorKind::PermissionDenied;
        assert_eq!(kinds, [refused, refused, ErrorKind::NotFound]);
        // It is killed when the job wants it no longer.
        let (mut output, theirs) = io::pipe().unwrap();
        let (_, errors) = io::pipe().unwrap();
        let command: Vec<OsString> = words(&known[1]);
        let mut program = Program::start(&command, theirs.into(), errors.into()).unwrap();
        assert_eq!(program.try_wait().unwrap(), None);
        program.kill();
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        helper::end();
        assert_eq!(fs::symlink_metadata(&spool).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_helper_connects_to_later_sockets_of_some_names() {
    alone("a_helper_connects_to_later_sockets_of_some_names", |folder| {
        let near = Grant { is_deep: false, ..Grant::of(folder.to_owned(), GrantKind::Read) };
        let names = Names { folders: vec![folder.to_owned()], is_name: |name| name != "control" };
        let options = HelperOptions {
            grants: vec![near],
            names: Some(names),
            has_files_of_others: true,
            ..HelperOptions::default()
        };
        helper::start(options, || Ok(confinement(None, Some(folder)))).unwrap();
        let [later, control] = ["later", "control"].map(|name| folder.join(name));
        let _listening = [&later, &control].map(|path| UnixListener::bind(path).unwrap());
        // Root connects to it by CAP_DAC_OVERRIDE only.
        chown(&later, Some(1), Some(1)).unwrap();
        fs::set_permissions(&later, fs::Permissions::from_mode(0o600)).unwrap();
        let inner = folder.join("inner");
        fs::create_dir(&inner).unwrap();
        let _inner = UnixListener::bind(inner.join("later")).unwrap();
        become_nobody();
        let timeout = Some(Duration::from_secs(1));
        let connect = |path: &Path| late::connect(path, Kind::Stream, timeout);
        assert!(connect(&later).is_ok());
        for refused in [control, inner.join("later")] {
            assert_eq!(connect(&refused).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
    });
}

#[test]
fn a_socket_is_renamed_to_a_name_of_the_job_and_a_file_is_not() {
    alone("a_socket_is_renamed_to_a_name_of_the_job_and_a_file_is_not", |folder| {
        let [name, hidden, other, file] =
            ["name", ".name", "other", "file"].map(|name| folder.join(name));
        let sockets = [&name, &hidden].map(|path| Grant::of(path.clone(), GrantKind::Socket));
        let grant = Grant::of(folder.to_owned(), GrantKind::Write);
        let files = Grant { name_prefix: "file".to_owned(), ..grant };
        start(folder, [&sockets[..], &[files]].concat());
        drop(UnixListener::bind(&hidden).unwrap());
        become_nobody();
        drop(Opening::write().create_new().open(&file).unwrap());
        assert!(late::rename(&file, &name).is_err());
        assert!(late::rename(&hidden, &other).is_err());
        late::rename(&hidden, &name).unwrap();
        assert!(late::rename(&file, &name).is_err());
        late::remove_file(&name).unwrap();
    });
}

#[test]
fn names_end_as_a_grant_says() {
    alone("names_end_as_a_grant_says", |folder| {
        let name_suffix = ".bidx".to_owned();
        let grant = Grant::of(folder.to_owned(), GrantKind::Write);
        fs::write(folder.join("theirs"), "precious").unwrap();
        symlink("theirs", folder.join("x.link.bidx")).unwrap();
        let one = || "out".to_owned();
        let output = Grant { name_prefix: one(), name_suffix: one(), ..grant.clone() };
        start(folder, vec![Grant { name_prefix: "x".to_owned(), name_suffix, ..grant }, output]);
        become_nobody();
        let linked = Opening::write().emptied().open(&folder.join("x.link.bidx"));
        assert_eq!(linked.unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let made = |name: &str| Opening::write().create_new().open(&folder.join(name)).is_ok();
        for (name, is_own) in [
            ("x.bidx", true),
            ("x.pcap.bidx.17", true),
            ("y.bidx", false),
            ("x.bidx.", false),
            ("x.bidx.a1", false),
            ("x.pcap", false),
            ("x.17", false),
            ("out", true),
            ("out.3", true),
            ("outout", false),
            ("out-2.out", false),
        ] {
            assert_eq!(made(name), is_own, "{name}");
        }
    });
}

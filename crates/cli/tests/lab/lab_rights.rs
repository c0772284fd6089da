//! Rights of the verbs that read records and descriptions of machines, which may come from anyone.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use burstline_testbed::Killed;

use crate::plan::two_sockets;
use crate::support::live::wait_until;
use crate::support::rights::{
    CALLS, assert_all_nobodys, assert_read_by_confined, assert_read_without_rights, can_trace,
    held, nobody, traced,
};
use crate::support::{Directory, PROGRAM, command, other, run, run_with_code};

const RECORD: &str = include_str!("../../../lab/tests/data/numa-rtc.json");

/// strace reports that all threads had given up their rights when the first byte was read.
#[test]
fn records_and_descriptions_are_read_without_rights() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-records");
    // The kernel names a file of a folder of another user by its whole path.
    let [records, runs] = ["records", "runs"].map(|name| directory.file(name));
    fs::create_dir_all(format!("{runs}/records")).unwrap();
    fs::create_dir(&records).unwrap();
    for folder in [&records, &format!("{runs}/records")] {
        fs::write(format!("{folder}/foreign.json"), RECORD).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let machine = directory.file("foreign.txt");
    fs::copy(two_sockets(), &machine).unwrap();
    fs::set_permissions(&machine, fs::Permissions::from_mode(0o600)).unwrap();
    for verb in [
        &["lab", "report", &records][..],
        &["lab", "compare", "foreign", "foreign", "--dir", &records],
        &["lab", "documents", "--markdown", "--records", &runs],
        &["doctor", "--machine", &machine],
        &["doctor", "plan", "eth0", "--workers", "2", "--machine", &machine],
    ] {
        let lines = traced(&directory, &["-y", "-e", CALLS], verb);
        assert_read_without_rights(verb, &lines, "/foreign.");
    }
}

/// Who measures keeps rights, because it starts programs with them. A thread of nobody's reads what
/// it is to measure.
#[test]
fn an_experiment_is_read_by_nobody() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-experiment");
    let [file, trace] = ["foreign.toml", "trace"].map(|name| directory.file(name));
    fs::write(&file, "nonsense").unwrap();
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let strace = ["-f", "-y", "-o", &trace, "-e", CALLS, PROGRAM, "lab", "run", &file];
    let done = other("strace", &strace).unwrap();
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("foreign.toml: "), "{}", done.stderr);
    let lines = fs::read_to_string(&trace).unwrap();
    assert_read_by_confined(&["lab", "run"], &lines, "/foreign.");
    let piped = ["-c", &format!("cat '{file}' | {PROGRAM} lab run /dev/stdin")];
    let said = other("sh", &piped).unwrap().stderr;
    assert!(said.contains("/dev/stdin: line 1: key with no value"), "{said}");
}

/// A helper reads and writes for them, in folders that only root may enter.
#[test]
fn reports_of_root_are_written_as_before() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-report");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let [records, charts, table] = ["records", "a/charts", "x.csv"].map(|it| directory.file(it));
    fs::create_dir(&records).unwrap();
    fs::write(directory.file("elsewhere"), RECORD).unwrap();
    let record = format!("{records}/a.json");
    std::os::unix::fs::symlink(directory.file("elsewhere"), &record).unwrap();
    let beside = format!("{charts}/report.md");
    let flags = ["--charts", &charts, "--markdown", &beside, "--csv", &table];
    for _ in 0..2 {
        let made = run(&[&["lab", "report", &records][..], &flags].concat());
        assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    }
    let page = format!("{records}/report.html");
    for written in [&page, &table, &beside, &format!("{charts}/a.svg")] {
        let found = fs::metadata(written).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{written}");
    }
    let printed = run(&["lab", "report", &records, "-o", "/dev/stdout"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(printed.stdout.starts_with(&fs::read_to_string(&page).unwrap()), "{}", printed.stdout);
    assert_eq!(run(&["lab", "compare", &record, &record]).code, Some(0));
}

/// A shell gives records by such paths.
#[test]
fn records_of_own_descriptors_are_compared() {
    let directory = Directory::new("rights-compare");
    let record = directory.file("a.json");
    fs::write(&record, RECORD).unwrap();
    for path in ["/dev/stdin", "/proc/self/fd/0"] {
        let mut verb = command(&["lab", "compare", &record, path]);
        verb.stdin(fs::File::open(&record).unwrap());
        let compared = verb.output().unwrap();
        assert_eq!(compared.status.code(), Some(0), "{compared:?}");
    }
}

/// As before: others may see charts that the umask gives them, and names need not be text.
#[test]
fn records_behind_links_and_pages_of_any_name_are_found() {
    let directory = Directory::new("rights-names");
    let [records, charts, runs] = ["records", "charts", "runs"].map(|name| directory.file(name));
    fs::create_dir(&records).unwrap();
    fs::create_dir(&runs).unwrap();
    fs::write(format!("{records}/a.json"), RECORD).unwrap();
    std::os::unix::fs::symlink(&records, format!("{runs}/linked")).unwrap();
    let page = Path::new(&directory.0).join(OsStr::from_bytes(b"\xff.html"));
    let mut made = command(&["lab", "report", &records, "--charts", &charts, "-o"]);
    let made = made.arg(&page).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    assert!(page.is_file());
    fs::create_dir(directory.file("plain")).unwrap();
    let modes = [&charts, &directory.file("plain")].map(|it| fs::metadata(it).unwrap().mode());
    assert_eq!(modes[0], modes[1]);
    let missing = directory.file("not-made");
    run_with_code(&["lab", "report", &directory.file("no"), "--charts", &missing], 1);
    assert!(!Path::new(&missing).exists());
    // Root has a helper. Of other users Landlock alone decides.
    let mut listed = command(&["lab", "documents", "--markdown", "--records", &runs]);
    let listed = listed.output().unwrap();
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
}

#[test]
fn a_description_is_read_by_nobody() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-machine");
    let pipe = directory.file("pipe");
    assert_eq!(other("mkfifo", &[&pipe]).unwrap().code, Some(0));
    let text = fs::read(two_sockets()).unwrap();
    // Root's own place for temporary files may be closed to others.
    for place in ["/tmp", &directory.file("")] {
        let mut verb = command(&["doctor", "plan", "eth0", "--workers", "2", "--machine", &pipe]);
        verb.env("TMPDIR", place).stdout(Stdio::piped());
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
        let mut verb = Killed(verb.spawn().unwrap());
        let mut writer = fs::File::options().write(true).open(&pipe).unwrap();
        writer.write_all(&text[..10]).unwrap();
        wait_until("it is nobody's", || {
            held(verb.id()).iter().all(|thread| thread.user == nobody.user)
        });
        assert_all_nobodys(verb.id(), &nobody);
        writer.write_all(&text[10..]).unwrap();
        drop(writer);
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut verb.stdout.take().unwrap(), &mut printed).unwrap();
        assert_eq!(verb.wait().unwrap().code(), Some(0), "{printed}");
        assert!(printed.contains("thread  worker-1"), "{printed}");
    }
    let left = |place: &Path| -> Vec<_> {
        let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("burstline-machine-")).collect()
    };
    assert!(left(&directory.0).is_empty());
    let missing = run_with_code(&["doctor", "--machine", &directory.file("no")], 1);
    assert!(missing.stderr.contains("/no: No such file"), "{}", missing.stderr);
}

/// Its files may be root's alone, so root reads them, without capabilities.
#[test]
fn a_folder_of_a_machines_files_is_read() {
    let directory = Directory::new("rights-machine-folder");
    let node = directory.file("sys/devices/system/node");
    fs::create_dir_all(format!("{node}/node0")).unwrap();
    for (name, text) in [("online", "0\n"), ("node0/cpulist", "0-3\n"), ("node0/distance", "10\n")]
    {
        let path = format!("{node}/{name}");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    }
    let found = run(&["doctor", "--machine", &directory.file("")]);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
}

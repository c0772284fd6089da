//! Recording to disk: what is synced and when, the cost of failing or full disks, and the handling
//! of closed files.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::live::wait_until;
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, Run, assert_closed, assert_says, judged_packets,
    last_object, other, other_or_skip, run, run_json, run_with_code,
};
use burstline_skip::skip;
use burstline_sys::direct::free_bytes;
use serde_json::Value;

/// Runs the program under strace, which logs the calls of `what` to `log`, or makes them fail.
fn traced(what: &[&str], log: &str, arguments: &[&str]) -> Option<Run> {
    let strace = [&["-f", "-y", "-o", log][..], what, &[PROGRAM]].concat();
    other_or_skip("strace", &[&strace[..], arguments].concat())
}

#[test]
fn files_and_their_folder_are_synced_before_the_program_says_so() {
    let directory = Directory::new("sync");
    let (file, log) = (directory.file("x.pcapng"), directory.file("log"));
    let folder = directory.0.to_string_lossy().into_owned();
    // For half a second, in which the thread that syncs gets a core.
    let job = ["capture", "gen:?packets=40000&size=1000&rate=80k", "-w", &file, "-q"];
    for (flags, least) in [
        (&[][..], 2),
        (&["--format", "pcap"], 2),
        // Only the sync at the end of each of the four files.
        (&["--flush", "1h", "-b", "filesize:12000"], 4),
        (&["--flush", "none"], 0),
    ] {
        let calls = ["-e", "trace=fdatasync,fsync"];
        let Some(run) = traced(&calls, &log, &[&job[..], flags].concat()) else { return };
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let calls = fs::read_to_string(&log).unwrap();
        let of = |call: &str, path: &str| {
            let of_it = |line: &&str| line.contains(call) && line.contains(path);
            calls.lines().filter(of_it).count()
        };
        let (files, folders) = (of("fdatasync(", "/x"), of("fsync(", &format!("<{folder}>")));
        match least {
            0 => assert_eq!((files, folders), (0, 0), "{calls}"),
            4 => assert_eq!((files, folders), (4, 4), "{calls}"),
            _ => assert!(files >= least && folders == 1, "{calls}"),
        }
    }
}

/// Memory that is shared as a file is under the limit on files, too.
#[test]
fn a_limit_on_files_that_the_log_exceeds_is_named_with_its_remedy() {
    let directory = Directory::new("file-limit");
    let file = directory.file("x.pcapng");
    // 10 or 20 MB: the shells disagree about the unit.
    let script = "ulimit -f 20000; exec \"$0\" \"$@\"";
    let job = ["-c", script, PROGRAM, "capture", "gen:?packets=9", "-w", &file];
    let Some(refused) = other("sh", &job) else { return };
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    for word in ["67108864 bytes needed", "ulimit -f 65536", "--buffer"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    let smaller = other("sh", &[&job[..], &["--buffer", "4m"]].concat()).unwrap();
    assert_eq!(smaller.code, Some(0), "{}", smaller.stderr);
}

/// A plain file overwrites synced segments, so it must be synced before they are cut off.
#[test]
fn segments_are_cut_off_when_what_replaces_them_is_on_the_disk() {
    let directory = Directory::new("become-plain");
    let (file, log) = (directory.file("x.pcapng"), directory.file("log"));
    // Between two packets there is time for a flush.
    let job = ["capture", "gen:?packets=40&rate=20&pace=yes", "-w", &file, "--flush", "20ms"];
    let calls = ["-e", "trace=pwrite64,fdatasync,ftruncate"];
    let Some(run) = traced(&calls, &log, &job) else { return };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let calls = fs::read_to_string(&log).unwrap();
    let of_file: Vec<&str> = calls.lines().filter(|line| line.contains("/x.pcapng>")).collect();
    let cut = of_file.iter().rposition(|line| line.contains("ftruncate(")).unwrap();
    assert!(of_file[cut - 1].contains("fdatasync("), "{calls}");
    for (who, count) in judged_packets(&file) {
        assert_eq!(count, 40, "{who}");
    }
}

/// The kernel has reported the failure, so the next sync of the same file would succeed.
#[test]
fn no_sync_follows_one_that_failed() {
    let directory = Directory::new("sync-once");
    let (file, log) = (directory.file("x.pcapng"), directory.file("log"));
    // Segments are written between the packets, and nothing is synced before the end.
    let job = ["capture", "gen:?packets=40&rate=20&pace=yes", "-w", &file, "--flush", "1h"];
    let what = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1"];
    let Some(run) = traced(&what, &log, &[&job[..], &["--json"]].concat()) else { return };
    assert_eq!(run.code, Some(1), "{}{}", run.stderr, run.stdout);
    let calls = fs::read_to_string(&log).unwrap();
    let syncs = calls.lines().filter(|line| line.contains("fdatasync(")).count();
    assert_eq!(syncs, 1, "{calls}");
    let report = last_object(&run.stdout);
    assert_closed(&report);
    assert_eq!(report["total"]["lost"]["write_error"], 40, "{report}");
    let error = report["errors"][0].as_str().unwrap();
    assert!(error.ends_with("0 packets in 0 bytes are safe"), "{error}");
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
}

/// Returns the report of a job whose `call` fails from its `first` occurrence in a thread on.
fn broken(call: &str, first: u32, directory: &Directory, flags: &[&str]) -> Option<Value> {
    failing(call, "EIO", first, directory, flags)
}

/// As [`broken`], with this error.
fn failing(
    call: &str,
    error: &str,
    first: u32,
    directory: &Directory,
    flags: &[&str],
) -> Option<Value> {
    let (file, log) = (directory.file("x.pcapng"), directory.file("log"));
    let job = ["capture", "gen:?packets=60000&size=1000", "-w", &file, "--json"];
    let inject = format!("inject={call}:error={error}:when={first}+");
    let mut what = vec!["-e", &inject];
    if call == "write" {
        // Only calls on the file; the program's output must arrive.
        what.extend(["-P", &file]);
    }
    if call == "pwrite64" {
        // As on a system without io_uring.
        what.extend(["-e", "inject=io_uring_setup:error=ENOSYS"]);
    }
    let run = traced(&what, &log, &[&job[..], flags].concat())?;
    assert_eq!(run.code, Some(1), "{}{}", run.stderr, run.stdout);
    let report = last_object(&run.stdout);
    assert_closed(&report);
    Some(report)
}

#[test]
fn a_disk_that_fails_is_a_write_error_and_the_file_has_what_is_safe() {
    let directory = Directory::new("broken");
    let file = directory.file("x.pcapng");
    for (call, flags) in [
        ("fdatasync", &["--format", "segmented"][..]),
        ("fdatasync", &["--format", "pcapng"]),
        ("pwrite64", &["--format", "segmented"]),
        ("write", &["--format", "pcap"]),
    ] {
        let flags = [flags, &["--flush", "1MiB"]].concat();
        // On a slow disk one sync may cover everything written meanwhile.
        let first = if call == "fdatasync" { 1 } else { 2 };
        let Some(report) = broken(call, first, &directory, &flags) else { return };
        let lost = &report["total"]["lost"];
        assert!(lost["write_error"].as_u64() > Some(0), "{call}: {report}");
        assert_eq!(lost.as_object().unwrap().len(), 1, "{call}: {report}");
        let error = report["errors"][0].as_str().unwrap();
        assert!(error.contains("Input/output error (os error 5)"), "{error}");
        let written = report["total"]["delivered"].as_u64().unwrap();
        assert!(error.contains(&format!("{written} packets in ")), "{written}: {error}");
        assert!(error.ends_with("bytes are safe"), "{error}");
        if fs::metadata(&file).unwrap().len() > 0 {
            for (who, count) in judged_packets(&file) {
                assert_eq!(count, written, "{who} {call}");
            }
        }
    }
}

#[test]
fn a_quota_is_a_full_disk_and_the_file_ends_with_what_is_safe() {
    let directory = Directory::new("quota");
    for (call, format) in [("pwrite64", "segmented"), ("write", "pcap")] {
        let flags = ["--format", format, "--flush", "1MiB"];
        let Some(report) = failing(call, "EDQUOT", 2, &directory, &flags) else { return };
        let lost = &report["total"]["lost"];
        assert!(lost["disk_full"].as_u64() > Some(0), "{format}: {report}");
        assert_eq!(lost.as_object().unwrap().len(), 1, "{format}: {report}");
        let error = report["errors"][0].as_str().unwrap();
        assert!(error.contains("(os error 122)"), "{error}");
        for (who, count) in judged_packets(&directory.file("x.pcapng")) {
            assert_eq!(report["total"]["delivered"], count, "{who} {format}");
        }
    }
}

/// Records into an overlay over a file system without `O_DIRECT`, which accepts the flag but then
/// refuses writes. The recording is copied out, since the mounts end with the shell.
const INTO_OVERLAY: &str = "
    mount -t ramfs ramfs \"$1\" || exit 77
    cd \"$1\" && mkdir lower upper work new
    mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay new || exit 77
    \"$0\" capture 'gen:?packets=60000&size=1000' -w new/x.pcapng --format segmented --json &&
        cp new/x.pcapng \"$2\"";

#[test]
fn a_file_system_that_refuses_direct_writes_gets_ordinary_ones() {
    let (below, out) = (Directory::new("overlay"), Directory::new("from-overlay"));
    let words = ["--mount", "sh", "-c", INTO_OVERLAY, PROGRAM, &below.file(""), &out.file("")];
    let Some(run) = other_or_skip("unshare", &words) else { return };
    if run.code == Some(77) || run.stderr.contains("unshare failed") {
        return skip("mount is not permitted here");
    }
    assert_eq!(run.code, Some(0), "{}{}", run.stderr, run.stdout);
    assert_closed(&last_object(&run.stdout));
    for (who, count) in judged_packets(&out.file("x.pcapng")) {
        assert_eq!(count, 60_000, "{who}");
    }
}

#[test]
fn a_closed_file_that_cannot_be_synced_is_counted_and_named() {
    let directory = Directory::new("closed");
    let flags = ["-b", "packets:10000", "--flush", "1h"];
    let Some(report) = broken("fdatasync", 2, &directory, &flags) else { return };
    let lost = report["total"]["lost"]["write_error"].as_u64().unwrap();
    assert!(lost >= 10_000, "{report}");
    let error = report["errors"][0].as_str().unwrap();
    assert!(error.contains("x_00002_") && error.contains(": 0 packets"), "{error}");
}

/// A file system of this many KiB, or none if mounting is not permitted.
struct Disk(Directory);

impl Disk {
    fn mount(name: &str, kib: u32) -> Option<Self> {
        let directory = Directory::new(name);
        let (path, size) = (directory.file(""), format!("size={kib}k"));
        let run = other("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &path])?;
        (run.code == Some(0)).then_some(Self(directory))
    }

    /// Waits until a removed file has left this many bytes free. The kernel releases the ended
    /// job's Landlock rules with a delay, and only then the file.
    fn wait_for_room(&self, bytes: u64) {
        let folder = fs::File::open(self.0.file("")).unwrap();
        wait_until("its room is free", || free_bytes(&folder).unwrap() >= bytes);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A program that another thread of this process starts may hold a file there for a moment.
        other("umount", &["--lazy", &self.0.file("")]);
    }
}

/// Makes a file of packets of 1,000 incompressible bytes.
fn noise(directory: &Directory, packets: u32) -> String {
    let mut state = 7_u32;
    let mut noise = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let mut bytes = Vec::new();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend::<Vec<u8>>(words(&[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 1 << 18, 1]));
    for packet in 0..packets {
        bytes.extend::<Vec<u8>>(words(&[1_700_000_000, packet * 1000, 1000, 1000]));
        bytes.extend((0..1000).map(&mut noise));
    }
    let path = directory.file("noise.pcap");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn files_of_a_rotation_have_the_losses_of_a_full_disk() {
    for (kib, flags) in [(3072, &[][..]), (3072, &["--format", "pcapng"]), (2900, &[])] {
        let Some(disk) = Disk::mount("disk-rotated", kib) else {
            return skip("mounting is not permitted");
        };
        let file = disk.0.file("x.pcapng");
        let load = "gen:?packets=300000";
        let job = ["capture", load, "-w", &file, "-b", "packets:5000"];
        let report = run_json(&[&job[..], flags].concat(), 1);
        assert_closed(&report);
        let lost = report["total"]["lost"]["disk_full"].as_u64().unwrap();
        // Each of them is a capture, to tcpdump too, and their counts add up to the job's.
        let (mut dropped, mut kept) = (0, 0);
        for entry in fs::read_dir(&disk.0.0).unwrap() {
            let path = entry.unwrap().path().display().to_string();
            let info = run_json(&["info", &path], 0);
            let interface = &info["files"][0]["interfaces"][0];
            dropped += interface["osdrop"].as_u64().unwrap();
            kept += interface["usrdeliv"].as_u64().unwrap();
            judged_packets(&path);
        }
        assert_eq!((dropped, kept), (lost, report["total"]["delivered"].as_u64().unwrap()));
    }
}

/// Records onto a disk until it is full. The file must then have the same ledger as the report.
fn fill(disk: &Disk, load: &[&str], name: &str, format: &str) {
    let file = disk.0.file(name);
    let flags = ["--format", format, "--pages", "4k", "--buffer", "4m", "-w", &file];
    let report = run_json(&[&["capture"], load, &flags].concat(), 1);
    assert_closed(&report);
    let what = format!("{load:?} {name} {format}: {report}");
    let lost = report["total"]["lost"]["disk_full"].as_u64().expect(&what);
    let checked = run(&["check", &file]);
    assert_eq!(checked.code, Some(0), "{}{what}", checked.stdout);
    let info = run_json(&["info", &file], 0);
    let counts = info["files"][0]["interfaces"].as_array().unwrap().clone();
    let sum = |of: &str| -> u64 { counts.iter().filter_map(|one| one[of].as_u64()).sum() };
    // A packet that still waits in the source is in no file.
    let waiting = report["total"]["in_flight"].as_u64().unwrap();
    assert_eq!(report["total"]["offered"], sum("ifrecv") + waiting, "{info} {what}");
    assert_eq!((sum("osdrop"), sum("ifdrop")), (lost, 0), "{info} {what}");
    assert_eq!(report["total"]["delivered"], sum("usrdeliv"), "{info} {what}");
    // tcpdump does not read compressed files.
    if name.ends_with(".pcapng") {
        for (who, count) in judged_packets(&file) {
            assert_eq!(report["total"]["delivered"], count, "{who} {what}");
        }
    } else if let Some(Run { code, stdout, .. }) = other("capinfos", &["-c", "-M", &file]) {
        let count = format!(" {}\n", report["total"]["delivered"]);
        assert!(code == Some(0) && stdout.ends_with(&count), "{stdout} {what}");
    }
    fs::remove_file(&file).unwrap();
    disk.wait_for_room(4 << 20);
}

#[test]
fn a_file_on_a_full_disk_is_closed_and_has_the_whole_ledger() {
    let directory = Directory::new("noise");
    let noise = noise(&directory, 8000);
    let load = ["gen:?packets=9", &noise];
    // Room for whole segments and a little more for the closing counts, or for the segments only.
    for kib in [(4 << 10) + 100, 4 << 10] {
        let Some(disk) = Disk::mount("closes", kib) else {
            return skip("mount is not permitted here");
        };
        for (name, format) in [
            ("x.pcapng", "segmented"),
            ("x.pcapng", "pcapng"),
            ("x.pcapng.zst", "segmented"),
            ("x.pcapng.zst", "pcapng"),
            ("x.pcapng.gz", "pcapng"),
        ] {
            fill(&disk, &load, name, format);
        }
        // The disk is full only when the last segment is written.
        let last = ["gen:?packets=9", &noise, "-c", "3500", "--flush", "none"];
        fill(&disk, &last, "x.pcapng", "segmented");
    }
}

#[test]
fn recording_ends_before_the_disk_is_full() {
    let Some(disk) = Disk::mount("floor", 16 << 10) else {
        return skip("mount is not permitted here");
    };
    let file = disk.0.file("x.pcapng");
    let job = ["capture", "gen:?packets=40000&size=1000", "-w", &file, "--pages", "4k"];
    for format in ["segmented", "pcapng", "pcap"] {
        let flags = ["--buffer", "4m", "--min-free", "8m", "--format", format];
        let report = run_json(&[&job[..], &flags].concat(), 1);
        assert_closed(&report);
        let error = report["errors"][0].as_str().unwrap();
        assert!(error.contains("close to the limit --min-free 8388608"), "{error}");
        assert!(report["total"]["lost"]["disk_full"].as_u64() > Some(0), "{report}");
        let bytes = fs::metadata(&file).unwrap().len();
        assert!((5 << 20..=8 << 20).contains(&bytes), "{format}: {bytes}");
        // It is closed properly.
        let written = &report["total"]["delivered"];
        assert_eq!(&run_json(&["count", &file], 0)["total"]["delivered"], written);
        fs::remove_file(&file).unwrap();
        disk.wait_for_room(16 << 20);
    }
    // A ring of files makes room itself, a file for each that it begins: five a second, so that
    // the thread that removes them may wait for a core.
    let flags = ["--buffer", "4m", "--min-free", "8m", "-b", "packets:1000", "-b", "files:1000"];
    let rate = ["capture", "gen:?packets=20000&size=1000&rate=5000", "-w", &file, "--pages", "4k"];
    let report = run_json(&[&rate[..], &flags].concat(), 0);
    assert_eq!(report["total"]["delivered"], 20_000);
    let left = fs::read_dir(&disk.0.0).unwrap().count();
    assert!((2..8).contains(&left), "{left}");
}

#[test]
fn a_command_is_run_for_each_file_that_is_closed() {
    let directory = Directory::new("close");
    let (file, done) = (directory.file("x y.pcapng"), directory.file("done"));
    fs::create_dir(&done).unwrap();
    let mv = format!("mv -- {{}} '{done}'");
    let job = ["capture", REAL, "-w", &file, "--on-close"];
    let report = run_json(&[&job[..], &[&mv, "-b", "packets:50"]].concat(), 0);
    assert_eq!(report["notes"].as_array().map_or(0, Vec::len), 0, "{report}");
    let moved: Vec<_> = fs::read_dir(&done).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(moved.len(), 3);
    let count = |path: &std::path::PathBuf| {
        let report = run_json(&["count", &path.to_string_lossy()], 0);
        report["total"]["delivered"].as_u64().unwrap()
    };
    assert_eq!(moved.iter().map(count).sum::<u64>(), REAL_PACKETS);
    // It also runs for a single file, and a failure is a note.
    run_json(&[&job[..], &[&mv]].concat(), 0);
    assert!(fs::metadata(format!("{done}/x y.pcapng")).is_ok());
    for (command, what) in [("false", "false: exit status: 1"), ("/no/such {}", "No such file")] {
        let report = run_json(&[&job[..], &[command]].concat(), 0);
        let notes = report["notes"].to_string();
        assert!(notes.contains(what) && notes.contains("x y.pcapng"), "{report}");
    }
}

#[test]
fn a_command_is_run_for_the_file_that_a_full_disk_broke_off() {
    let Some(disk) = Disk::mount("hook", 4 << 10) else {
        return skip("mount is not permitted here");
    };
    for format in ["segmented", "pcapng"] {
        let (file, done) = (disk.0.file("x.pcapng"), disk.0.file("done.pcapng"));
        let mv = format!("mv {{}} '{done}'");
        let job = ["capture", "gen:?packets=9000&size=1000", "-w", &file, "--format", format];
        let flags = ["--pages", "4k", "--buffer", "4m", "--on-close", &mv];
        let report = run_json(&[&job[..], &flags].concat(), 1);
        assert_closed(&report);
        assert!(report["total"]["lost"]["disk_full"].as_u64() > Some(0), "{report}");
        assert!(fs::metadata(&file).is_err(), "{format}: {report}");
        let written = &report["total"]["delivered"];
        assert_eq!(&run_json(&["count", &done], 0)["total"]["delivered"], written, "{format}");
        fs::remove_file(&done).unwrap();
        disk.wait_for_room(4 << 20);
    }
}

/// Ctrl-C is for the recorder, which waits for the command: the terminal signals a process group.
#[test]
fn a_command_for_a_closed_file_has_its_own_process_group() {
    let directory = Directory::new("close-group");
    let job = ["capture", "gen:?packets=9", "-w", &directory.file("x.pcapng")];
    let run = run_with_code(&[&job[..], &["--on-close", "cat /proc/self/stat"]].concat(), 0);
    // Source: proc(5): pid, name, state, parent, process group.
    let line = run.stderr.lines().find(|line| line.contains(" (cat) ")).expect(&run.stderr);
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[0], words[4], "{line}");
}

#[test]
fn a_compressed_pipe_that_stalls_does_not_hold_the_job_up() {
    let directory = Directory::new("stall");
    let file = directory.file("x.pcap.zst");
    run_json(&["capture", "gen:?packets=100000&size=imix", "-w", &file], 0);
    let bytes = fs::read(&file).unwrap();
    let job = Command::new(PROGRAM)
        .args(["count", "-", "--duration", "1s", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let job = RefCell::new(job);
    let mut pipe = job.borrow_mut().stdin.take().unwrap();
    pipe.write_all(&bytes[..bytes.len() / 2]).unwrap();
    // The pipe stays open, silent in the middle of a block.
    wait_until("the job ends", || job.borrow_mut().try_wait().unwrap().is_some());
    let output = job.into_inner().wait_with_output().unwrap();
    let report = last_object(&String::from_utf8_lossy(&output.stdout));
    assert!(report["total"]["delivered"].as_u64() > Some(1000), "{report}");
    drop(pipe);
}

#[test]
fn a_window_of_zstd_is_limited_unless_told() {
    let directory = Directory::new("zstd");
    let file = directory.file("x.pcap.zst");
    // A frame that requests 128 MiB, and has one empty block.
    fs::write(&file, [0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 1, 0, 0]).unwrap();
    assert_says(&["count", &file], 1, "a window of 134217728 bytes");
    let allowed = run(&["count", &format!("file:{file}?window=128m")]);
    assert!(!allowed.stderr.contains("window"), "{}", allowed.stderr);
}

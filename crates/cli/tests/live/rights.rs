//! Rights of threads once everything is open: only those that packets need. With `-Z USER` no
//! thread runs as root.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use burstline_testbed::{Bed, FAR, Killed, NEAR};

use crate::support::endless::{end, ended, signal, spawn, start};
use crate::support::live::{Live, children, statuses, wait_until};
use crate::support::rights::{
    CALLS, assert_all_nobodys, assert_read_by_confined, assert_read_without_rights, can_trace,
    held, nobody, rights, tell, traced, traced_at,
};
use crate::support::service::is_alive;
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, assert_closed, assert_says, command, last_object,
    other, run, run_json,
};

/// Returns real, effective, saved and file-system uid or gid of each thread.
fn numbers(process: u32, field: &str) -> Vec<String> {
    let found = statuses(process, field);
    found.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn every_thread_becomes_the_user_and_the_file_is_theirs() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights");
    let file = directory.file("x.pcapng");
    let job = start(&["capture", "gen:?rate=1000", "-w", &file, "-Z", "nobody"]);
    let process = job.child.id();
    for (field, number) in [("Uid", nobody.user), ("Gid", nobody.group)] {
        let wanted = [number; 4].map(|number| number.to_string()).join(" ");
        wait_until(field, || numbers(process, field).iter().all(|numbers| *numbers == wanted));
    }
    let groups = nobody.groups.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    assert!(numbers(process, "Groups").iter().all(|found| *found == groups));
    let report = end(job, "-INT");
    assert_closed(&report);
    let found = fs::metadata(&file).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o777),
        (nobody.user, nobody.group, 0o600)
    );
    // `--owner` takes precedence.
    run_json(&["capture", REAL, "-w", &file, "-Z", "nobody", "--owner", "1:2"], 0);
    let found = fs::metadata(&file).unwrap();
    assert_eq!((found.uid(), found.gid()), (1, 2));
}

#[test]
fn later_files_are_made_by_the_user_or_the_job_does_not_begin() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-files");
    let file = directory.file("x.pcapng");
    let job = ["capture", REAL, "-w", &file, "-b", "packets:100", "-Z", "nobody"];
    assert_says(&job, 1, "Permission denied");
    chown(&directory.0, Some(nobody.user), None).unwrap();
    run_json(&job, 0);
    let files = fs::read_dir(&directory.0).unwrap().flatten();
    let owners: Vec<u32> = files.map(|file| file.metadata().unwrap().uid()).collect();
    assert!(owners.len() > 1 && owners.iter().all(|owner| *owner == nobody.user), "{owners:?}");
    // It takes no rights to give a file to oneself.
    let owner = format!("{}:{}", nobody.user, nobody.group);
    run_json(&[&job[..], &["--owner", &owner]].concat(), 0);
    assert_says(&[&job[..], &["--owner", "1:2"]].concat(), 2, "or -Z USER");
}

#[test]
fn who_cannot_become_the_user_is_told_at_once() {
    for (flags, what) in [
        (&["-Z", "no-such-user"][..], "there is no user 'no-such-user'"),
        (&["-Z", "root", "--keep-privileges"], "cannot be used with"),
    ] {
        assert_says(&[&["count", REAL], flags].concat(), 2, what);
    }
    let Some(nobody) = nobody() else { return };
    // By its descriptor: the folder of the build may be closed to others.
    let file = fs::File::open(PROGRAM).unwrap();
    let mut other = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    other.args(["count", "gen:?packets=9", "-Z", "root"]);
    let output = other.uid(nobody.user).gid(nobody.group).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let wanted = format!("-Z root: this process, of user {}, cannot become user 0", nobody.user);
    assert!(text.contains(&wanted) && text.contains("run it as root"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_snapshot_length_of_0_is_the_whole_packet() {
    let [whole, short] = ["0", "60"].map(|length| run_json(&["count", REAL, "-s", length], 0));
    let all = run_json(&["count", REAL], 0);
    assert_eq!(whole["total"]["bytes"], all["total"]["bytes"]);
    assert_ne!(short["total"]["bytes"], all["total"]["bytes"]);
}

/// Verbs without a test of their rights: they read nothing of others.
const UNTESTED: [&str; 5] = ["ports", "explain", "version", "completions", "man"];

/// Verbs whose rights a test looks at: here, in `service::rights`, `flows::rights`, or `lab::lab`.
const TESTED: [&str; 22] = [
    "count", "capture", "merge", "bounce", "generate", "switch", "balance", "replay", "flows",
    "info", "check", "recover", "extract", "index", "extcap", "doctor", "top", "run", "demo",
    "fetch", "query", "lab",
];

#[test]
fn each_verb_is_listed_as_tested_or_untested() {
    let help = run(&["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A line with more spaces continues the one before it.
    let listed =
        listed.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let mut verbs: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    verbs.retain(|verb| *verb != "help");
    verbs.sort_unstable();
    let mut known = [&TESTED[..], &UNTESTED].concat();
    known.sort_unstable();
    assert_eq!(verbs, known);
}

/// Jobs whose threads all become nobody; their sources and outputs are open by then.
#[test]
fn root_becomes_nobody_before_packets_come() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-nobody");
    let file = directory.file("x.pcapng");
    for job in [
        &["count", "gen:?rate=1000"][..],
        &["capture", "gen:?rate=1000", "-w", &file],
        &["merge", "gen:?rate=1000", "gen:?rate=1000", "-w", &file],
        &["bounce", "gen:?rate=1000", "null:"],
        &["generate", "-o", "null:", "--rate", "1000"],
        &["balance", "gen:?rate=1000", "--workers", "2", "-o", "null:"],
        &["switch", "--port", "gen:?rate=1000&pace=yes", "--port", "afpacket:lo"],
    ] {
        let running = start(job);
        let process = running.child.id();
        assert_all_nobodys(process, &nobody);
        assert_closed(&end(running, "-INT"));
    }
    // The file belonged to root when it was opened, and still does.
    assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
}

/// Ports that take rights are open by then.
#[test]
fn interfaces_are_captured_by_nobody() {
    let (Some(nobody), Some(bed)) = (nobody(), Bed::or_skip()) else { return };
    let directory = Directory::new("rights-interfaces");
    for port in ["afpacket:", "xdp:", "tap:"] {
        let interface = if port == "tap:" { "bursttap" } else { FAR };
        let job = format!("capture {port}{interface} -w {}", directory.file("x.pcapng"));
        let live = Live::start_on(&bed.far, &directory, &job);
        assert_all_nobodys(live.program.process_id(), &nobody);
        live.stop();
    }
}

/// Extcap becomes `capture`, whose threads are those of any capture.
#[test]
fn extcap_becomes_a_capture_without_rights() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-extcap");
    let pipe = directory.file("pipe");
    fs::write(&pipe, "").unwrap();
    let job = ["extcap", "--extcap-interface", "burstport-lo", "--capture", "--fifo", &pipe];
    let child = Killed(command(&job).spawn().unwrap());
    let words = format!("/proc/{}/cmdline", child.id());
    wait_until("it captures", || fs::read_to_string(&words).unwrap().contains("afpacket:lo"));
    assert_all_nobodys(child.id(), &nobody);
}

/// Returns the helper process of a job.
fn helper_of(process: u32) -> u32 {
    *children(process).first().unwrap_or_else(|| panic!("{process} has no helper"))
}

/// Jobs that create or remove files later, or have a name. All folders here are root's alone.
#[test]
fn a_helper_opens_later_files_for_jobs_that_become_nobody() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-later");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let [file, name, tree] = ["x.pcapng", "tap", "flows"].map(|name| directory.file(name));
    let log = format!("log:{name}");
    for job in [
        &["capture", "gen:?rate=10000", "-w", &file, "-b", "packets:1000", "-b", "files:2"][..],
        &["capture", "gen:?rate=1000", "--publish", &name],
        &["generate", "-o", &log, "--rate", "1000"],
        &["balance", "gen:?rate=1000", "--workers", "2", "-o", "null:", "--publish", &name],
        &["replay", REAL, "-o", "null:", "--loops", "0"],
        &["flows", "gen:?rate=1000", "-o", &tree],
    ] {
        let running = start(job);
        let process = running.child.id();
        assert_all_nobodys(process, &nobody);
        let helper = helper_of(process);
        // One that only reads may read files of other users: CAP_DAC_READ_SEARCH.
        let kept = if job[0] == "replay" { 1 << 2 } else { 0 };
        for held in rights(helper) {
            let said = (held.user, held.capabilities, held.bounding);
            assert_eq!(said, (0, kept, 0), "{job:?}: {held:?}");
        }
        tell(helper);
        assert_closed(&end(running, "-INT"));
        assert!(!is_alive(helper), "{job:?}: the helper ends with the job");
    }
    assert!(!Path::new(&name).exists(), "the name is gone with its job");
    let files: Vec<_> = fs::read_dir(&directory.0).unwrap().flatten().collect();
    assert!(files.len() >= 3);
    for file in files {
        let (name, metadata) = (file.file_name(), file.metadata().unwrap());
        assert_eq!((metadata.uid(), metadata.mode() & 0o077), (0, 0), "{name:?}");
    }
}

/// A helper of its own runs the user's command, in root's name. It makes all calls that programs
/// take.
#[test]
fn a_command_for_closed_files_is_run_by_the_helper() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-programs");
    let [file, said, flight] =
        ["x.pcapng", "said", "flight.pcapng"].map(|name| directory.file(name));
    let run = format!("sh -c 'id -u >> {said}; cat $0 > /dev/null || echo no >> {said}' {{}}");
    let write = ["-w", &file, "--on-close", &run];
    let keep = ["-w", &flight, "--keep", "1s", "--on-close", &run];
    for output in [&write[..], &keep] {
        let running = spawn(command(&[&["capture", "gen:?rate=1000"], output].concat()));
        let process = running.child.id();
        wait_until("it has its threads", || held(process).len() > 4);
        assert_all_nobodys(process, &nobody);
        let helpers = children(process);
        let threads: Vec<_> = helpers.iter().map(|&helper| held(helper)).collect();
        for held in threads.iter().flatten() {
            assert_eq!((held.user, held.capabilities, held.bounding), (0, 0, 0), "{held:?}");
        }
        let is_free: Vec<_> =
            threads.iter().map(|held| held.iter().all(|h| !h.is_filtered)).collect();
        assert_eq!(is_free, [true, false], "for commands, for files");
        helpers.iter().for_each(|&helper| tell(helper));
        if output == keep {
            signal(&running.child, "-USR1");
            wait_until("it keeps a file", || Path::new(&flight).exists());
        }
        assert_closed(&end(running, "-INT"));
    }
    let said = fs::read_to_string(&said).unwrap();
    assert_eq!(said, "0\n0\n");
}

#[test]
fn a_killed_job_takes_its_helper_with_it() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-killed");
    let file = directory.file("x.pcapng");
    let mut job = start(&["capture", "gen:?rate=1000", "-w", &file, "-b", "packets:1000"]);
    let helper = helper_of(job.child.id());
    job.child.kill().unwrap();
    wait_until("the helper has ended", || !is_alive(helper));
}

/// Without its helper a job cannot open the next file: it says so, counts what it loses, and fails.
#[test]
fn a_job_says_that_its_helper_has_ended() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-helper");
    let file = directory.file("x.pcapng");
    let source = "gen:?rate=10000&packets=20000";
    let mut job = start(&["capture", source, "-w", &file, "-b", "packets:15000"]);
    let helper = helper_of(job.child.id());
    burstline_testbed::signal(helper, "-KILL").unwrap();
    let (mut reports, mut said) = (String::new(), String::new());
    job.lines.read_to_string(&mut reports).unwrap();
    job.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(job.child.wait().unwrap().code(), Some(1), "{reports}{said}");
    assert!(said.contains("the process that opens files for this job has ended"), "{said}");
    let report = last_object(&reports);
    assert_closed(&report);
    assert!(report["total"]["lost"]["write_error"].as_u64() > Some(0), "{report}");
}

/// The job may not look at its own path then, and the helper does not do so for it.
#[test]
fn a_file_that_was_removed_is_missed_by_a_job_with_a_helper_too() {
    let directory = Directory::new("rights-removed");
    let (file, name) = (directory.file("x.pcapng"), directory.file("tap"));
    for format in ["segmented", "pcapng", "pcap"] {
        let words = ["capture", "gen:?rate=10000", "-w", &file, "--format", format];
        let mut job = start(&[&words[..], &["--publish", &name, "--flush", "200ms"]].concat());
        fs::remove_file(&file).unwrap();
        signal(&job.child, "-INT");
        let mut reports = String::new();
        job.lines.read_to_string(&mut reports).unwrap();
        assert_eq!(job.child.wait().unwrap().code(), Some(1), "{format}: {reports}");
        let report = last_object(&reports);
        assert_closed(&report);
        assert!(report["total"]["lost"]["write_error"].as_u64() > Some(0), "{format}: {report}");
    }
}

/// The next publisher's folder may be another one, as after a restart of its systemd unit.
#[test]
fn a_reader_that_became_nobody_goes_on_with_the_next_publisher() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-next");
    let names = directory.0.join("names");
    let name = names.join("tap").display().to_string();
    let publish = ["capture", "gen:?rate=10000", "--publish", &name];
    fs::create_dir(&names).unwrap();
    let publisher = start(&publish);
    let mut reader = start(&["count", &format!("log:{name}")]);
    assert_closed(&end(publisher, "-INT"));
    fs::remove_dir_all(&names).unwrap();
    fs::create_dir(&names).unwrap();
    fs::set_permissions(&names, fs::Permissions::from_mode(0o700)).unwrap();
    let silent = reader.wait_for(|interval| interval["interval_delivered"] == 0);
    let publisher = start(&publish);
    let more = reader.wait_for(|interval| interval["interval_delivered"].as_u64() > Some(0));
    assert!(more["delivered"].as_u64() > silent["delivered"].as_u64());
    assert_closed(&end(publisher, "-INT"));
    assert_closed(&end(reader, "-INT"));
}

/// Jobs that serve peers at a path become nobody, and the helper removes the path.
#[test]
fn sockets_for_peers_need_no_root_either() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-peers");
    for scheme in ["memif", "vhost"] {
        let path = directory.file(scheme);
        let port = format!("{scheme}:{path}");
        let job = spawn(command(&["count", &port]));
        wait_until("it listens", || Path::new(&path).exists());
        assert_all_nobodys(job.child.id(), &nobody);
        signal(&job.child, "-INT");
        ended(job);
        assert!(!Path::new(&path).exists(), "{path}");
    }
}

/// Whoever's the files are, all threads that look at them are nobody's. A helper reads them as root
/// may, also behind a link of a folder.
#[test]
fn files_are_looked_at_by_nobody() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-files");
    let [theirs, folder, fifo] = ["theirs.pcap", "folder", "fifo"].map(|name| directory.file(name));
    fs::copy(REAL, &theirs).unwrap();
    chown(&theirs, Some(1000), Some(1000)).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::copy(REAL, format!("{folder}/a.pcap")).unwrap();
    symlink(&theirs, format!("{folder}/b.pcap")).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    for verb in ["info", "check"] {
        for (what, files) in [(&theirs, 1), (&folder, 2), (&format!("{folder}/*.pcap"), 2)] {
            let report = run_json(&[verb, what], 0);
            assert_eq!(report["files"].as_array().unwrap().len(), files, "{verb} {what}");
        }
        let missing = directory.file("missing.pcap");
        assert_says(&[verb, &missing], 1, "missing.pcap");
    }
    // Indexes are root's, also in a folder of another user, and again where they are already.
    chown(&folder, Some(1000), Some(1000)).unwrap();
    for (what, files) in [(&theirs, 1), (&folder, 2), (&folder, 2)] {
        let report = run_json(&["index", what], 0);
        assert_eq!(report["files"].as_array().unwrap().len(), files, "{what}");
    }
    let index = fs::metadata(format!("{folder}/b.pcap.bidx")).unwrap();
    assert_eq!((index.uid(), index.mode() & 0o777), (0, 0o600));
    // So are outputs there.
    let extracted = format!("{folder}/extracted.pcapng");
    for (verb, what, files) in
        [("extract", &theirs, 1), ("recover", &theirs, 1), ("extract", &folder, 2)]
    {
        run_json(&[verb, what, "-w", &extracted], 0);
        let written = run_json(&["count", &extracted], 0);
        assert_eq!(written["total"]["delivered"], REAL_PACKETS * files, "{verb} {what}");
        assert_eq!(fs::metadata(&extracted).unwrap().uid(), 0);
        fs::remove_file(&extracted).unwrap();
    }
    assert_eq!(other("mkfifo", &[&fifo]).unwrap().code, Some(0));
    let new = directory.file("new.pcapng");
    for verb in [&["info", &fifo][..], &["check", &fifo], &["recover", &fifo, "-w", &new]] {
        let mut job = Killed(command(verb).stdout(Stdio::piped()).spawn().unwrap());
        let mut pipe = fs::File::options().write(true).open(&fifo).unwrap();
        let bytes = fs::read(REAL).unwrap();
        let (start, rest) = bytes.split_at(100);
        pipe.write_all(start).unwrap();
        wait_until("they are nobody's", || {
            held(job.id()).iter().all(|thread| thread.user == nobody.user)
        });
        assert_all_nobodys(job.id(), &nobody);
        pipe.write_all(rest).unwrap();
        drop(pipe);
        assert_eq!(job.wait().unwrap().code(), Some(0), "{verb:?}");
    }
    // An index finds no packets in a pipe: `index` may close it before it reads.
    let mut job = Killed(command(&["index", &fifo]).spawn().unwrap());
    drop(fs::File::options().write(true).open(&fifo).unwrap());
    assert_eq!(job.wait().unwrap().code(), Some(1));
}

/// Paths of the verb's own descriptors are what its user has them for, whoever the verb becomes.
#[test]
fn descriptors_that_are_named_by_path_are_used() {
    let directory = Directory::new("rights-descriptors");
    let out = directory.file("out");
    for (script, is_whole) in [
        (format!("cat '{REAL}' | {PROGRAM} info /dev/stdin"), false),
        (format!("cat '{REAL}' | {PROGRAM} check /dev/stdin"), false),
        (format!("{PROGRAM} extract '{REAL}' -q -w /dev/stdout | cat > '{out}'"), true),
        (format!("{PROGRAM} extract '{REAL}' -q -w /dev/stdout > '{out}'"), true),
        (format!("cat '{REAL}' | {PROGRAM} recover /dev/stdin -q -w /dev/stdout > '{out}'"), true),
        (format!("{PROGRAM} recover '{REAL}' -q -w - > '{out}'"), true),
    ] {
        let done = other("sh", &["-c", &script]).unwrap();
        assert_eq!((done.code, &done.stderr[..]), (Some(0), ""), "{script}: {}", done.stdout);
        if is_whole {
            assert_eq!(run_json(&["count", &out], 0)["total"]["delivered"], REAL_PACKETS);
        } else {
            assert!(done.stdout.contains(&REAL_PACKETS.to_string()), "{}", done.stdout);
        }
    }
}

/// What a job with files opens once its threads are nobody's: files of other users, outputs where
/// only root may write, for the user and with the mode that are named, and a name.
#[test]
fn a_helper_opens_the_files_of_jobs_and_their_outputs() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-jobs");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let [theirs, out, link, tree] =
        ["theirs.pcap", "out.pcapng", "link", "tree"].map(|name| directory.file(name));
    fs::copy(REAL, &theirs).unwrap();
    chown(&theirs, Some(1000), Some(1000)).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o600)).unwrap();
    let whole = |job: &[&str], file: &str, owner: u32, mode: u32| {
        run_json(job, 0);
        let found = fs::metadata(file).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (owner, mode), "{job:?}");
        assert_eq!(run_json(&["count", file], 0)["total"]["delivered"], REAL_PACKETS, "{job:?}");
        fs::remove_file(file).unwrap();
    };
    let write = ["capture", &theirs, "-w", &out];
    whole(&write, &out, 0, 0o600);
    whole(&[&write[..], &["--mode", "640", "--owner", "1000:1000"]].concat(), &out, 1000, 0o640);
    whole(&[&write[..], &["-Z", "nobody"]].concat(), &out, nobody.user, 0o600);
    whole(&["merge", &theirs, "-w", &out], &out, 0, 0o600);
    whole(&["replay", &theirs, "-o", &out, "--top-speed"], &out, 0, 0o600);
    whole(&["balance", &theirs, "--workers", "1", "-o", &out], &out, 0, 0o600);
    // A link is refused, or followed.
    symlink(&out, &link).unwrap();
    fs::write(&out, "precious").unwrap();
    assert_says(&["capture", &theirs, "-w", &link], 1, "it is a symbolic link to");
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    run_json(&["capture", &theirs, "-w", &link, "--follow-links"], 0);
    assert_eq!(run_json(&["count", &out], 0)["total"]["delivered"], REAL_PACKETS);
    // Files that are no captures or are missing are named, and no output is made.
    let new = directory.file("new.pcapng");
    let missing = directory.file("missing.pcap");
    assert_says(&["capture", &missing, "-w", &new], 1, "missing.pcap: No such file or directory");
    assert_says(&["capture", &directory.0.display().to_string(), "-w", &new], 1, "directory");
    assert!(!Path::new(&new).exists());
    run_json(&["flows", &theirs, "-o", &tree], 0);
    run_json(&["flows", &theirs, "-o", &tree], 0);
    // The class is taken after that.
    let fifo = ["count", &theirs, "--priority", "fifo:3"];
    run_json(&fifo, 0);
}

/// Beside ports that take rights, too: these are open by then.
#[test]
fn the_first_byte_beside_live_ports_is_read_without_rights() {
    if !can_trace() {
        return;
    }
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("rights-mixed");
    let [input, output] = ["in.pcap", "out.pcapng"].map(|name| directory.file(name));
    let log = format!("log:{}", directory.file("name"));
    fs::copy(REAL, &input).unwrap();
    let [afpacket, xdp] = ["afpacket", "xdp"].map(|scheme| format!("{scheme}:{NEAR}"));
    for verb in [
        &["replay", &input, "-o", &afpacket, "--top-speed"][..],
        &["replay", &input, "-o", &xdp, "--top-speed"],
        &["capture", &input, "-o", "tap:rights0"],
        &["bounce", &input, &afpacket],
        &["generate", "--template", &input, "-c", "10", "-o", &afpacket],
        &["generate", "--template", &input, "-c", "10", "-o", &xdp],
        &["balance", &input, "--workers", "1", "-o", &log],
        &["count", &input, &xdp, "--duration", "1s"],
        &["capture", &afpacket, &input, "-w", &output, "--duration", "1s"],
    ] {
        let lines = traced_at(&bed.near, &directory, &["-y", "-e", CALLS], verb);
        assert_read_without_rights(verb, &lines, "/in.pcap");
    }
}

/// In each verb that reads files, a thread without privileges reads the first byte of a file.
/// strace reports the order of these events.
#[test]
fn the_first_byte_is_read_without_rights() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-order");
    let input = directory.file("in.pcap");
    fs::copy(REAL, &input).unwrap();
    let [output, rotated] = ["out.pcapng", "rotated.pcapng"].map(|name| directory.file(name));
    let [tree, name] = ["tree", "name"].map(|name| directory.file(name));
    let set = format!("set:{}/in*.pcap*", directory.0.display());
    let template = format!("gen:?template={input}&packets=10");
    // Compressed files are unpacked without rights, too.
    let [zipped, packed] = ["in.pcap.gz", "in.pcap.zst"].map(|name| directory.file(name));
    let zip = other("sh", &["-c", &format!("gzip -c '{input}' > '{zipped}'")]).unwrap();
    assert_eq!(zip.code, Some(0), "{}", zip.stderr);
    run_json(&["capture", &input, "-w", &packed], 0);
    for verb in [
        &["count", &input][..],
        &["capture", &input, "-w", &output],
        &["merge", &input, "-w", &output],
        &["info", &input],
        &["check", &input],
        &["recover", &input, "-w", &directory.file("recovered.pcapng")],
        &["extract", &input, "-w", &directory.file("extracted.pcapng")],
        &["index", &input],
        &["replay", &input, "-o", "null:", "--top-speed"],
        &["replay", &input, "-o", &directory.file("replayed.pcapng"), "--top-speed"],
        &["balance", &input, "--workers", "2", "-o", &directory.file("worker{k}.pcapng")],
        &["flows", &input, "-o", &tree, "-q"],
        &["count", &input, &input, "--metrics", "127.0.0.1:0"],
        &["count", &set],
        &["capture", &set, "-w", &rotated, "-b", "packets:100"],
        &["capture", &input, "-w", &output, "--resume"],
        &["capture", &input, "-w", &output, "-Z", "nobody"],
        &["bounce", &input, "null:"],
        &["bounce", &input, &directory.file("bounced.pcapng")],
        &["count", &zipped],
        &["count", &input, "--publish", &name],
        &["capture", &input, "-w", &output, "--publish", &name],
        &["merge", &input, "-w", &output, "--publish", &name],
        &["balance", &input, "--workers", "2", "--publish", &name],
        &["bounce", &input, "null:", "--inline", &format!("{name}?open")],
        &["info", &packed],
        &["generate", "--template", &zipped, "-c", "10", "-o", "null:"],
        &["generate", "--template", &input, "-c", "10", "-o", &output, "-Z", "nobody"],
        &["count", &template],
        &["capture", &template, &input, "-w", &output],
        &["demo"],
    ] {
        // With this PATH the demonstration finds no programs that judge, with all rights.
        let lines = traced(&directory, &["-y", "-E", "PATH=/", "-e", CALLS], verb);
        let input = if verb == ["demo"] { "/recorded.pcapng>" } else { "/in.pcap" };
        // The demonstration reads files that it made itself.
        match verb == ["demo"] {
            true => assert_read_by_confined(verb, &lines, input),
            false => assert_read_without_rights(verb, &lines, input),
        }
        if verb[0] == "count" {
            let shown = |line: &&str| {
                [input, " seccomp(", " landlock_"].iter().any(|what| line.contains(what))
            };
            lines.lines().filter(shown).for_each(|line| println!("strace: {line}"));
        }
    }
}

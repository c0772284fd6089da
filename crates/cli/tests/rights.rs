//! `-Z USER`: from the moment that everything is open, no thread is root's.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;

use burstline_skip::{skip, test_name};
use burstline_sys::users::{Account, account};

use support::endless::{end, start};
use support::live::wait_until;
use support::{Directory, REAL, assert_closed, command, is_root, run, run_json};

/// Somebody who is not root, and may do nothing.
fn nobody() -> Option<Account> {
    let found = account("nobody").filter(|_| is_root());
    if found.is_none() {
        skip(test_name(), "it takes root, and a user nobody");
    }
    found
}

/// Real, effective, saved and file-system numbers of each thread, of users or of groups.
fn numbers(process: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let status = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let value = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    status.map(value).collect()
}

#[test]
fn every_thread_becomes_the_user_and_the_file_is_theirs() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights");
    let file = directory.file("x.pcapng");
    let job = start(&["capture", "gen:?rate=1000", "-w", &file, "-Z", "nobody"]);
    let process = job.0.id();
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
    // As --owner says, where it does.
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
    let refused = run(&job);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
    chown(&directory.0, Some(nobody.user), None).unwrap();
    run_json(&job, 0);
    let files = fs::read_dir(&directory.0).unwrap().flatten();
    let owners: Vec<u32> = files.map(|file| file.metadata().unwrap().uid()).collect();
    assert!(owners.len() > 1 && owners.iter().all(|owner| *owner == nobody.user), "{owners:?}");
}

#[test]
fn who_cannot_become_the_user_is_told_at_once() {
    for (flags, what) in [
        (&["-Z", "no-such-user"][..], "there is no user 'no-such-user'"),
        (&["-Z", "root", "--keep-privileges"], "cannot be used with"),
    ] {
        let run = run(&[&["count", REAL], flags].concat());
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains(what), "{}", run.stderr);
    }
    let Some(nobody) = nobody() else { return };
    let mut other = command(&["count", "gen:?packets=9", "-Z", "root"]);
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

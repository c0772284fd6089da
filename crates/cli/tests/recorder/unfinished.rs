//! Files that a recorder still writes: they lack their end, which is no damage.

use std::fs;

use crate::support::endless::{end, start};
use crate::support::live::wait_until;
use crate::support::{Directory, other, run, run_json, run_with_code};

#[test]
fn a_file_that_is_being_written_is_not_called_damaged() {
    let directory = Directory::new("unfinished");
    for name in ["x.pcapng", "p.pcapng", "x.pcapng.zst", "p.pcapng.gz", "x.pcap"] {
        let file = directory.file(name);
        let format = match name {
            "x.pcap" => "pcap-ns",
            "x.pcapng" | "x.pcapng.zst" => "segmented",
            _ => "pcapng",
        };
        // Several segments, and a part of one.
        let load = "gen:?rate=20000&size=1000&pace=yes";
        let flags = ["--format", format, "--flush", "20ms,64KiB"];
        let job = start(&[&["capture", load, "-w", &file][..], &flags].concat());
        let grown = || fs::metadata(&file).is_ok_and(|found| found.len() > 6 << 10);
        wait_until("the file has packets", grown);
        for verb in ["check", "info"] {
            let object = run_json(&[verb, &file], 0);
            let found = &object["files"][0];
            assert_eq!(found["faults_omitted"], 0, "{name}: {object}");
            assert_eq!(found["faults"].as_array().unwrap().len(), 0, "{name}: {object}");
            assert_eq!(found["being_written"], true, "{name}: {object}");
            let text = run_with_code(&[verb, &file], 0).stdout;
            assert!(text.contains("still being written"), "{name}: {text}");
            assert!(!text.contains("DAMAGED"), "{name}: {text}");
        }
        run_json(&["count", &file], 0);
        end(job, "-INT");
        let object = run_json(&["check", &file], 0);
        assert_eq!(object["files"][0]["being_written"], false, "{name}: {object}");
    }
}

/// Nobody writes it any more: what it lacks is lost.
#[test]
fn a_file_whose_recorder_was_killed_is_damaged() {
    let directory = Directory::new("killed-unfinished");
    let file = directory.file("x.pcapng");
    let mut job = start(&["capture", "gen:?rate=20000&size=1000&pace=yes", "-w", &file]);
    wait_until("a segment is there", || {
        fs::metadata(&file).is_ok_and(|found| found.len() > 1 << 20)
    });
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    let text = run(&["check", &file]);
    assert_eq!(text.code, Some(1), "{}", text.stdout);
    assert!(text.stdout.contains("DAMAGED, "), "{}", text.stdout);
}

/// A lock hides no damage but a missing end: whoever may read a file can lock it.
#[test]
fn what_is_damaged_stays_so_while_it_is_locked() {
    let directory = Directory::new("locked");
    let (plain, zipped) = (directory.file("x.pcap"), directory.file("x.pcap.gz"));
    run_json(&["capture", "gen:?packets=20000", "-w", &plain], 0);
    let zip = other("sh", &["-c", &format!("gzip -c '{plain}' > '{zipped}'")]).unwrap();
    assert_eq!(zip.code, Some(0), "{}", zip.stderr);
    let mut bytes = fs::read(&zipped).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&zipped, bytes).unwrap();
    let lock = fs::File::open(&zipped).unwrap();
    lock.lock().unwrap();
    for verb in ["check", "info"] {
        let text = run(&[verb, &zipped]);
        assert_eq!(text.code, Some(1), "{verb}: {}", text.stdout);
    }
    run_json(&["count", &zipped], 1);
}

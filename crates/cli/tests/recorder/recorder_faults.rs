//! Recording to a real disk that goes wrong meanwhile: it becomes read-only, or a quota is reached.

use std::fs::{self, File};
use std::io::Read;
use std::process::Command;

use crate::recorder_kept::listed;
use crate::support::endless::start;
use crate::support::live::wait_until;
use crate::support::{Directory, Run, assert_closed, last_object, other_or_skip, run, run_json};
use burstline_skip::skip;
use serde_json::Value;

/// A file system in a file, unmounted when the test ends.
struct Image {
    place: Directory,
    /// Keeps the file that it is in.
    _image: Directory,
}

impl Image {
    /// Makes one by `mkfs.KIND`. `None` if that is impossible here, after counting the test as
    /// skipped.
    fn mount(kind: &str, mib: u64, options: &str) -> Option<Self> {
        let (place, image) = (Directory::new(kind), Directory::new("image"));
        let file = image.file("image");
        File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let made = other_or_skip(&format!("mkfs.{kind}"), &["-q", &file])?;
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let options = format!("loop,{options}");
        let mounted =
            other_or_skip("mount", &["-t", kind, "-o", &options, &file, &place.file("")])?;
        if mounted.code != Some(0) {
            skip(format!("mount of {kind} is not possible here: {}", mounted.stderr.trim()));
            return None;
        }
        Some(Self { place, _image: image })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // The ended job's Landlock rules hold it for a moment.
        let _ = Command::new("umount").args(["--lazy", &self.place.file("")]).status();
    }
}

/// Asserts that a file from which the disk let nothing be cut off has at least the safe packets,
/// and that a note says so.
fn assert_uncut(file: &str, safe: u64, report: &Value) {
    assert!(report["notes"].to_string().contains("could not be cut off"), "{file}: {report}");
    let left = last_object(&run(&["count", file, "--json"]).stdout);
    assert!(delivered(&left) >= safe, "{file}: {left} {report}");
    for (program, arguments) in
        [("tcpdump", &["-nn", "-t", "-r", file][..]), ("tshark", &["-n", "-r", file])]
    {
        let count = listed(program, arguments);
        assert!(count.is_none_or(|count| count >= safe), "{program} {file}: {count:?}, {safe}");
    }
}

fn delivered(report: &Value) -> u64 {
    report["total"]["delivered"].as_u64().unwrap()
}

/// Checks that a job lost packets by this cause, and by no other. Returns its error.
fn only_loss<'a>(report: &'a Value, cause: &str) -> &'a str {
    let lost = report["total"]["lost"].as_object().unwrap();
    assert!(lost[cause].as_u64() > Some(0), "{report}");
    assert_eq!(lost.len(), 1, "{report}");
    report["errors"][0].as_str().unwrap()
}

#[test]
fn a_disk_that_becomes_read_only_is_a_write_error_and_what_is_safe_stays() {
    let formats = [("x.pcapng", "segmented"), ("x.pcapng", "pcapng"), ("x.pcap", "pcap-ns")];
    for (name, format) in formats {
        let Some(disk) = Image::mount("ext4", 512, "errors=remount-ro") else { return };
        let (folder, file) = (disk.place.file(""), disk.place.file(name));
        let load = "gen:?rate=5000&size=1000&pace=yes";
        let flags = ["--format", format, "--flush", "20ms,256KiB"];
        let mut job = start(&[&["capture", load, "-w", &file][..], &flags].concat());
        wait_until("much is written", || {
            fs::metadata(&file).is_ok_and(|found| found.len() > 3 << 20)
        });
        // As the kernel does after an error in its structures.
        let aborted = other_or_skip("mount", &["-o", "remount,abort", &folder]).unwrap();
        assert_eq!(aborted.code, Some(0), "{}", aborted.stderr);
        let mut rest = String::new();
        job.lines.read_to_string(&mut rest).unwrap();
        assert_eq!(job.child.wait().unwrap().code(), Some(1), "{rest}");
        let report = last_object(&rest);
        assert_closed(&report);
        let error = only_loss(&report, "write_error");
        assert!(error.contains("(os error "), "{format}: {error}");
        let safe = delivered(&report);
        assert!(safe > 0, "{format}: {report}");
        assert_uncut(&file, safe, &report);
    }
}

#[test]
fn a_quota_is_a_full_disk() {
    let Some(disk) = Image::mount("btrfs", 256, "noatime") else { return };
    let (top, sub) = (disk.place.file(""), disk.place.file("sub"));
    for words in [
        &["quota", "enable", &top][..],
        &["subvolume", "create", &sub],
        &["qgroup", "limit", "12M", &sub],
    ] {
        let Some(Run { code, stderr, .. }) = other_or_skip("btrfs", words) else { return };
        assert_eq!(code, Some(0), "{words:?}: {stderr}");
    }
    for (name, format) in [("s.pcapng", "segmented"), ("p.pcapng", "pcapng"), ("x.pcap", "pcap-ns")]
    {
        let file = disk.place.file(&format!("sub/{name}"));
        let job = ["capture", "gen:?packets=60000&size=1000", "-w", &file, "--format", format];
        let report = run_json(&[&job[..], &["--flush", "100ms,1MiB"]].concat(), 1);
        assert_closed(&report);
        let error = only_loss(&report, "disk_full");
        assert!(error.contains("quota"), "{format}: {error}");
        // btrfs makes room only where a file is removed.
        assert_uncut(&file, delivered(&report), &report);
        fs::remove_file(&file).unwrap();
        let Some(synced) = other_or_skip("btrfs", &["filesystem", "sync", &top]) else { return };
        assert_eq!(synced.code, Some(0), "{}", synced.stderr);
    }
}

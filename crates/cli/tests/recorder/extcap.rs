//! Published logs as interfaces of Wireshark's programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Directory, PROGRAM};
use burstline_skip::{skip, test_name};

/// A publisher of generated packets, in a directory.
struct Publisher(Child);

impl Publisher {
    fn start(directory: &Directory) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args([
            "capture",
            "gen:?rate=2000&flows=5&seed=3",
            "-o",
            "null:",
            "--publish",
            "tap",
        ]);
        command.env("BURSTLINE_RUN", directory.file("")).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while !ask(directory, &["--extcap-interfaces"]).contains("burst-tap") {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is published");
            thread::sleep(Duration::from_millis(10));
        }
        Self(child)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the program answers to Wireshark.
fn ask(directory: &Directory, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.arg("extcap").args(arguments).env("BURSTLINE_RUN", directory.file(""));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn wireshark_gets_an_answer_to_each_question() {
    let directory = Directory::new("extcap-answers");
    let said = ask(&directory, &["--extcap-interfaces", "--extcap-version=4.0"]);
    assert!(said.starts_with("extcap {version=") && said.lines().count() == 1, "{said}");
    let _publisher = Publisher::start(&directory);
    let said = ask(&directory, &["--extcap-interfaces"]);
    assert!(said.contains("\ninterface {value=burst-tap}{display=Burstline log of"), "{said}");
    let tap = ["--extcap-interface", "burst-tap"];
    let said = ask(&directory, &[&tap[..], &["--extcap-dlts"]].concat());
    assert_eq!(said, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
    let said = ask(&directory, &[&tap[..], &["--extcap-config"]].concat());
    assert!(said.contains("{call=--worker}") && said.lines().count() == 3, "{said}");
    let check =
        |filter| ask(&directory, &[&tap[..], &["--extcap-capture-filter", filter]].concat());
    assert_eq!(check("udp port 7"), "", "a filter without fault");
    assert!(check("udp prt 7").contains("udp prt 7"));
    for (wrong, wanted) in [
        (&["extcap"][..], "--extcap-interfaces or --extcap-interface"),
        (&["extcap", "--extcap-interface", "eth0"], "expected burst-NAME"),
    ] {
        let run = crate::support::run(wrong);
        assert!(run.code == Some(2) && run.stderr.contains(wanted), "{}", run.stderr);
    }
}

#[test]
fn tshark_captures_from_a_log_by_its_name() {
    let name = &test_name();
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip(name, "tshark is not installed: scripts/setup test");
    }
    if !crate::support::is_root() {
        return skip(name, "root is needed to mount a folder where tshark looks");
    }
    let directory = Directory::new("extcap-tshark");
    let folder = directory.file("extcap");
    fs::create_dir(&folder).unwrap();
    let script = format!("{folder}/burstline");
    fs::write(&script, format!("#!/bin/sh\nexec '{PROGRAM}' extcap \"$@\"\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let _publisher = Publisher::start(&directory);
    // In a mount namespace: the folder is tshark's own, and nobody else sees ours in its place.
    let run = "mount --bind \"$0\" \"$(tshark -G folders 2>/dev/null | \
               sed -n 's/^Extcap path:[[:space:]]*//p')\" && exec tshark \"$@\"";
    let mut tshark = Command::new("unshare");
    tshark.args(["-m", "sh", "-c", run, &folder]);
    tshark.args(["-n", "-i", "burst-tap", "-f", "udp port 7", "-c", "200"]);
    tshark.args(["-T", "fields", "-e", "udp.dstport"]);
    let output = tshark.env("BURSTLINE_RUN", directory.file("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 200, "{complaint}");
    assert!(said.lines().all(|port| port == "7"), "{said}");
}

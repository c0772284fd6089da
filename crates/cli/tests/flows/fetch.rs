//! Fetching from many sensors over a real ssh server on loopback with its own keys.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::ssh::Server;
use crate::support::{
    Directory, PROGRAM, Run, last_object, other, regular, run, run_json, run_with_code,
};
use serde_json::Value;

/// Entries in a file of sensors for a server.
trait Listed {
    fn sensor(&self, name: &str, program: &str, file: &str) -> String;
    fn sensors(&self, sensors: &[String]) -> String;
}

impl Listed for Server {
    /// Returns a sensor's entry for the file of sensors.
    fn sensor(&self, name: &str, program: &str, file: &str) -> String {
        let port = self.port();
        format!(
            "[[sensor]]\nname = {name:?}\nhost = \"127.0.0.1\"\nport = {port}\n\
             files = [{file:?}]\nprogram = {program:?}\n"
        )
    }

    /// Writes a file of sensors, and returns its path.
    fn sensors(&self, sensors: &[String]) -> String {
        let path = self.directory.file("hosts.toml");
        fs::write(&path, format!("config = \"ssh_config\"\n{}", sensors.join("\n"))).unwrap();
        path
    }
}

/// Returns time and interface of each packet.
fn packets(path: &str) -> Option<Vec<String>> {
    let fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.interface_name"];
    let run = other("tshark", &[&["-r", path][..], &fields].concat())?;
    Some(run.stdout.lines().map(str::to_owned).collect())
}

fn sensor<'a>(report: &'a Value, name: &str) -> &'a Value {
    let sensors = report["sensors"].as_array().unwrap();
    sensors.iter().find(|sensor| sensor["sensor"] == name).unwrap()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}"))
}

#[test]
fn packets_of_two_sensors_come_in_order_of_time() {
    let Some(server) = Server::start("fetch") else { return };
    let directory = &server.directory;
    let (a, b) =
        (regular(directory, "a b's.pcap", 4000, 90), regular(directory, "b.pcap", 2000, 70));
    let sensors =
        server.sensors(&[server.sensor("fra-1", PROGRAM, &a), server.sensor("ams-1", PROGRAM, &b)]);
    let to = directory.file("x.pcapng");
    // One of the 40 flows, in both files.
    let flow = "10.0.0.1:53,10.0.1.7:999,udp";
    let run_of = |more: &[&str]| {
        run(&[&["fetch", "--sensors", &sensors, "-o", &to, "--json"], more].concat())
    };
    let done = run_of(&["--flow", flow]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let report = last_object(&done.stdout);
    assert_eq!(number(&report, "unaccounted"), 0);
    for (name, had, found) in [("fra-1", 4000, 100), ("ams-1", 2000, 50)] {
        let sensor = sensor(&report, name);
        assert_eq!(sensor["outcome"], "whole", "{sensor}");
        let counted = ["offered", "found", "came"].map(|key| number(sensor, key));
        assert_eq!(counted, [had, found, found], "{sensor}");
    }
    assert_eq!(number(&report, "written"), 150);
    if let Some(lines) = packets(&to) {
        let times: Vec<&str> = lines.iter().map(|line| line.split('\t').next().unwrap()).collect();
        assert!(times.is_sorted() && times.len() == 150, "{lines:?}");
        let of = |prefix: &str| lines.iter().filter(|line| line.contains(prefix)).count();
        assert_eq!((of("\tfra-1:"), of("\tams-1:")), (100, 50), "{lines:?}");
    }
    // Only the requested packets are transferred: half of the time, and half of one sensor's.
    let half = ["--from", "1700000000.010", "--to", "1700000000.020"];
    let done = run_of(&[&half[..], &["--sensor", "fra-1"]].concat());
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert_eq!(number(&last_object(&done.stdout), "written"), 1000);
    // No sensor has such packets, which is a valid answer.
    let done = run_of(&["--from", "1800000000"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert_eq!(number(&last_object(&done.stdout), "written"), 0);
}

#[test]
fn sensors_of_two_link_types_come_into_two_files() {
    let Some(server) = Server::start("fetch-links") else { return };
    let directory = &server.directory;
    let (a, b) = (regular(directory, "a.pcap", 400, 90), regular(directory, "b.pcap", 200, 70));
    // Linux cooked capture; the header's link type is at byte 20.
    let mut cooked = fs::read(&b).unwrap();
    cooked[20] = 113;
    fs::write(&b, cooked).unwrap();
    let sensors =
        server.sensors(&[server.sensor("a", PROGRAM, &a), server.sensor("b", PROGRAM, &b)]);
    let to = directory.file("x.pcapng");
    let fetch = ["fetch", "--sensors", &sensors, "-o", &to, "--json", "--from", "1"];
    let done = run(&[&fetch[..], &["--link-types", "split"]].concat());
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let report = last_object(&done.stdout);
    assert_eq!((number(&report, "written"), number(&report, "unaccounted")), (600, 0), "{report}");
    for (name, packets) in [("x.pcapng", 400), ("x-link113.pcapng", 200)] {
        let read = run_json(&["count", &directory.file(name)], 0);
        assert_eq!(read["total"]["delivered"], packets, "{name}");
    }
    // In one file, those of the other type are lost by name.
    let done = run(&fetch);
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    assert_eq!(number(&last_object(&done.stdout), "unaccounted"), 0);
}

#[test]
fn what_fails_has_a_name_and_the_rest_still_comes() {
    let Some(server) = Server::start("fetch") else { return };
    let directory = &server.directory;
    let a = regular(directory, "a.pcap", 4000, 90);
    // Accepts connections but sends nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |sensor: String, port: u16| {
        sensor.replace(&format!("port = {}", server.port()), &format!("port = {port}"))
    };
    let hangs = server.script("hangs", "exec sleep 60");
    let torn = server.script("torn", &format!("'{PROGRAM}' \"$@\" | head -c 30000"));
    let noisy = server.script("noisy", "echo welcome");
    let stranger = server.script("stranger", "echo '{\"command\":\"other\"}' >&2");
    let sensors = server.sensors(&[
        server.sensor("good", PROGRAM, &a),
        server.sensor("hangs", &hangs, &a),
        port(server.sensor("mute", PROGRAM, &a), mute.local_addr().unwrap().port()),
        server.sensor("wrong", PROGRAM, &a).replace("127.0.0.1", "no-such-host.invalid"),
        server.sensor("bare", "/nonexistent/burstline", &a),
        server.sensor("torn", &torn, &a),
        server.sensor("noisy", &noisy, &a),
        server.sensor("stranger", &stranger, &a),
        server.sensor("empty", PROGRAM, "/nonexistent/rec"),
    ]);
    let to = directory.file("x.pcapng");
    let flags = ["--from", "1", "--connect", "15s", "--silence", "25s", "-o", &to, "--json"];
    let done = run(&[&["fetch", "--sensors", &sensors][..], &flags].concat());
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    let report = last_object(&done.stdout);
    for (name, outcome, why) in [
        ("good", "whole", ""),
        ("hangs", "failed", "sent nothing for 25 s, see --silence"),
        ("mute", "failed", "timed out"),
        ("wrong", "failed", "no-such-host.invalid"),
        ("bare", "failed", "no program \"/nonexistent/burstline\" there"),
        ("torn", "partial", "received data is damaged"),
        ("noisy", "failed", "received data is not a capture"),
        ("stranger", "failed", "without a report"),
        ("empty", "failed", "/nonexistent/rec"),
    ] {
        let sensor = sensor(&report, name);
        assert_eq!(sensor["outcome"], outcome, "{sensor}");
        assert!(sensor["reason"].as_str().unwrap_or("").contains(why), "{sensor}");
        assert_eq!(outcome != "whole", done.stderr.contains(&format!("{name}: ")), "{name}");
    }
    let part = number(sensor(&report, "torn"), "came");
    assert!((1..4000).contains(&part), "{report}");
    assert_eq!(number(&report, "written"), 4000 + part);
    assert_eq!(number(&report, "unaccounted"), 0);
    if let Some(lines) = packets(&to) {
        assert_eq!(lines.len() as u64, 4000 + part);
    }
    // The text output has a line for each failure.
    let flags = ["--from", "1", "-o", &to, "--sensor", "good", "--sensor", "bare"];
    let done = run_with_code(&[&["fetch", "--sensors", &sensors][..], &flags].concat(), 1);
    assert!(done.stdout.contains("1 of 2 sensors whole"), "{}", done.stdout);
    assert!(done.stdout.contains("bare  failed "), "{}", done.stdout);
}

#[test]
fn a_hostile_file_of_sensors_runs_nothing() {
    let directory = Directory::new("fetch-hostile");
    let (proof, path) = (directory.file("proof"), directory.file("hosts.toml"));
    for (name, host) in [
        ("x", format!("-oProxyCommand=touch {proof}")),
        ("x", format!("-oProxyCommand=touch${{IFS}}{proof}")),
        ("x", format!("a@-oProxyCommand={proof}")),
        ("x", format!("a;touch {proof}")),
        ("x", format!("$(touch {proof})")),
        ("../x", "localhost".to_owned()),
    ] {
        let text = format!("[[sensor]]\nname = '{name}'\nhost = '{host}'\nfiles = ['/r']\n");
        fs::write(&path, text).unwrap();
        let to = directory.file("x.pcapng");
        let done = run(&["fetch", "--sensors", &path, "--from", "1", "-o", &to]);
        assert_eq!(done.code, Some(2), "{host}: {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains("hosts.toml: line "), "{}", done.stderr);
        assert!(!fs::exists(&proof).unwrap() && !fs::exists(&to).unwrap(), "{host}");
    }
    for (flags, wanted) in [
        (&["--from", "+5s"][..], "differs from sensor to sensor"),
        (&["--from", "5", "--to", "5"], "--from must be before --to"),
        (&["--flow", "x"], "expected two ends"),
        (&[], "required"),
    ] {
        let done = run(&[&["fetch", "--sensors", "x", "-o", "x.pcapng"][..], flags].concat());
        assert_eq!(done.code, Some(2), "{flags:?}: {}", done.stderr);
        assert!(done.stderr.contains(wanted), "{}", done.stderr);
    }
}

/// Replacements for ssh: one prints endlessly, and one sends no packets.
#[test]
fn who_only_talks_is_left_and_who_forgets_packets_is_named() {
    let directory = Directory::new("fetch-hostile");
    let ssh = directory.file("ssh");
    let script = "#!/bin/sh\ncase \"$*\" in\n\
        *talker*) while :; do echo x; sleep 0.05; done >&2;;\n\
        *) echo '{\"command\":\"extract\",\"delivered\":5,\"offered\":9,\"lost\":{}}' >&2;;\n\
        esac\n";
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).unwrap();
    let sensor = |name: &str| {
        format!("[[sensor]]\nname = \"{name}\"\nhost = \"{name}\"\nfiles = [\"/x\"]\n")
    };
    let hosts = directory.file("hosts.toml");
    fs::write(&hosts, sensor("talker") + &sensor("forgets")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let words = ["fetch", "--filter", "ip", "--silence", "5s", "--sensors", &hosts, "-o"];
    let mut asks = Command::new(PROGRAM);
    asks.args(words).arg(directory.file("x.pcapng"));
    let run: Run = asks.env("PATH", directory.file("") + ":" + &path).output().unwrap().into();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    for said in [
        "talker: NOTHING RECEIVED: sent nothing for 5 s",
        "forgets: it found 5 packets, none received",
    ] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
}

//! `--filter`: the same packets pass as with tcpdump, the rest is counted, and errors come early.

use std::fs;

use crate::support::{Directory, REAL, assert_closed, command, other_or_skip, run, run_json};
use burstline_skip::without;

/// Each expression accepts some packets of [`mixed`] and rejects others.
const EXPRESSIONS: &[&str] = &[
    "ip",
    "ip6",
    "arp",
    "icmp",
    "tcp",
    "udp",
    "not udp",
    "udp port 53",
    "port 7",
    "tcp port 80 or udp port 7",
    "src port 53",
    "dst portrange 1-1024",
    "host 192.0.2.2",
    "src host 192.0.2.1",
    "net 198.18.0.0/15",
    "src net 192.0.0.0/16 and not icmp",
    "ip6 and udp",
    "vlan",
    "vlan 7",
    "vlan 7 and udp",
    "vlan and not tcp",
    "not vlan",
    "udp or (vlan and udp)",
    "tcp[tcpflags] & tcp-syn != 0",
    "tcp[tcpflags] == tcp-ack",
    "tcp[((tcp[12] & 0xf0) >> 2):4] != 0",
    "icmp[icmptype] = icmp-echo",
    "ip[6:2] & 0x4000 != 0",
    "ip[2:2] > 500",
    "ip[8] = 64",
    "udp[4:2] % 5 = 1",
    "ether[12:2] = 0x86dd",
    "ether broadcast",
    "ether multicast or arp",
    "less 100",
    "greater 1000",
    "len - 40 < 100",
    "(tcp or udp) and (port 80 or port 7) and not net 172.16.0.0/12",
];

/// Makes a file of real and generated traffic, tagged and untagged.
fn mixed(directory: &Directory, format: &str) -> String {
    let file = directory.file(format);
    let made = "gen:?start=1795300000000000000&flows=64&protocol=mix&ip=mix";
    let tagged = format!("{made}&packets=3000&size=imix&vlan=7");
    let plain = format!("{made}&packets=3000&size=random:64-1518");
    let job = ["capture", REAL, &tagged, &plain, "-w", &file, "--format", format];
    let report = run_json(&job, 0);
    assert_eq!(report["total"]["delivered"], 6149);
    file
}

/// Returns the number of packets that tcpdump passes, and a line with a dump of each.
fn by_tcpdump(file: &str, expression: &str) -> Option<(u64, String)> {
    let count = other_or_skip("tcpdump", &["--count", "-r", file, expression])?;
    let count = count.stdout.split_whitespace().next().unwrap().parse().unwrap();
    let lines = other_or_skip("tcpdump", &["-nn", "-tt", "-e", "-xx", "-r", file, expression])?;
    Some((count, lines.stdout))
}

#[test]
fn counts_are_those_of_tcpdump() {
    let directory = Directory::new("filter-count");
    for format in ["segmented", "pcap"] {
        let file = mixed(&directory, format);
        for expression in EXPRESSIONS {
            let Some((expected, _)) = by_tcpdump(&file, expression) else { return };
            assert!((1..6149).contains(&expected), "{expression}: {expected}");
            let report = run_json(&["count", &file, "--filter", expression], 0);
            assert_closed(&report);
            assert_eq!(report["total"]["delivered"], expected, "{expression}");
            assert_eq!(report["total"]["offered"], 6149, "{expression}");
            assert_eq!(report["total"]["lost"]["filtered"], 6149 - expected, "{expression}");
            assert_eq!(report["total"]["lost_total"], 6149 - expected, "{expression}");
            assert_eq!(report["total"]["lost_first_second"], 0, "{expression}");
        }
    }
}

#[test]
fn a_capture_has_just_the_packets_that_are_wanted() {
    let directory = Directory::new("filter-capture");
    let (file, copy) = (mixed(&directory, "pcapng"), directory.file("copy.pcapng"));
    for expression in EXPRESSIONS.iter().step_by(5) {
        let Some((expected, lines)) = by_tcpdump(&file, expression) else { return };
        // Filtered packets are not counted as a loss.
        let report =
            run_json(&["capture", &file, "-w", &copy, "--lossless", "--filter", expression], 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], expected, "{expression}");
        assert_eq!(by_tcpdump(&copy, "").unwrap(), (expected, lines), "{expression}");
    }
}

#[test]
fn a_program_is_as_good_as_its_expression() {
    let directory = Directory::new("filter-program");
    let file = mixed(&directory, "pcap");
    for expression in ["vlan 7 and udp", "tcp[tcpflags] & tcp-syn != 0"] {
        let words = ["-y", "EN10MB", "-ddd", expression];
        let Some(program) = other_or_skip("tcpdump", &words) else { return };
        let one_line = program.stdout.replace('\n', ",");
        let (stored, written) = (directory.file("program"), directory.file("expression"));
        fs::write(&stored, &program.stdout).unwrap();
        fs::write(&written, format!("{expression}\n")).unwrap();
        let (stored, written) = (format!("@{stored}"), format!("@{written}"));
        let expected = by_tcpdump(&file, expression).unwrap().0;
        for filter in [&program.stdout, &one_line, &stored, &written] {
            let report = run_json(&["count", &file, "--filter", filter], 0);
            assert_eq!(report["total"]["delivered"], expected, "{filter}");
        }
    }
    let all = run_json(&["count", &file, "--filter", " "], 0);
    assert_eq!(all["total"]["lost"].as_object().unwrap().len(), 0);
}

#[test]
fn limits_are_about_what_passed() {
    let report =
        run_json(&["count", "gen:?flows=2&protocol=mix", "--filter", UDP, "--packets", "5000"], 0);
    assert_closed(&report);
    assert_eq!(report["total"]["delivered"], 5000);
    assert!(report["total"]["lost"]["filtered"].as_u64() > Some(4000), "{report}");
    for verb in [&["count"][..], &["capture", "-w", "null:"]] {
        let job = [verb, &["gen:", "--filter", "6 0 0 0", "--duration", "1s"]].concat();
        let report = run_json(&job, 0);
        assert_closed(&report);
        assert_eq!(report["total"]["delivered"], 0);
        assert!(report["total"]["offered"].as_u64() > Some(0));
    }
}

/// IPv4 and UDP, as a BPF program.
const UDP: &str = "40 0 0 12, 21 0 3 2048, 48 0 0 23, 21 0 1 17, 6 0 0 1, 6 0 0 0";

#[test]
fn the_ledger_shows_what_nobody_asked_for_apart() {
    let job = ["count", "gen:?packets=20&flows=1"];
    let filtered = [&job[..], &["--filter", "6 0 0 0"]].concat();
    let text = run(&[&filtered[..], &["-v"]].concat()).stdout;
    assert!(
        text.contains("unwanted") && text.contains("\nunwanted 20 filtered: the filter"),
        "{text}"
    );
    let text = run(&filtered).stdout;
    assert!(text.contains("\nleft out 20 filtered: the filter"), "{text}");
    for flag in ["-v", "--fail-on-loss"] {
        let text = run(&[&job[..], &[flag]].concat()).stdout;
        assert!(!text.contains("unwanted") && !text.contains("left out"), "{text}");
    }
    let live = ["count", "gen:?rate=100k", "--filter", "6 0 0 0", "--duration", "1s"];
    let text = run(&[&live[..], &["--stats", "50ms"]].concat()).stdout;
    assert!(text.contains("| lost 0 | filtered "), "{text}");
}

#[test]
fn a_wrong_filter_is_refused_before_anything_is_written() {
    let directory = Directory::new("filter-wrong");
    let (output, many) = (directory.file("out.pcapng"), "port 1 or ".repeat(500) + "port 2");
    for (filter, words) in [
        ("udp prot 53", &["link type 1", "filter `udp prot 53`", "syntax error"][..]),
        ("ip6 protochain 17", &["filter `ip6 protochain 17`", "instead of `protochain`"]),
        (&many, &["5006 bytes", "at most 4096"]),
        ("2,6 0 0 1", &["--filter <EXPR>", "2 instructions announced, 1 given"]),
        ("32 0 0 4294963200, 6 0 0 1", &["--filter <EXPR>", "compile for raw bytes"]),
        ("@/no/such/file", &["--filter <EXPR>", "/no/such/file", "No such file"]),
    ] {
        let run = run(&["capture", REAL, "-w", &output, "--filter", filter]);
        if run.stderr.contains("apt-get install libpcap0.8") {
            without(run.stderr);
            continue;
        }
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{filter}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "'{word}' is not in {}", run.stderr);
        }
        assert!(fs::metadata(&output).is_err(), "{filter}");
    }
}

#[test]
fn without_libpcap_the_error_has_the_mend_and_programs_work() {
    let directory = Directory::new("filter-none");
    // The loader finds these instead of the library, and rejects them.
    for name in ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"] {
        fs::write(directory.file(name), "none").unwrap();
    }
    let run = |filter: &str| {
        let mut command = command(&["count", REAL, "--quiet", "--filter", filter]);
        let output = command.env("LD_LIBRARY_PATH", &directory.0).output().unwrap();
        crate::support::Run::from(output)
    };
    let without = run("udp");
    assert_eq!(without.code, Some(1), "{}", without.stderr);
    for word in ["libpcap is needed", "apt-get install libpcap0.8", "tcpdump -y EN10MB -ddd"] {
        assert!(without.stderr.contains(word), "{}", without.stderr);
    }
    assert_eq!(without.stderr.lines().count(), 1, "{}", without.stderr);
    assert_eq!(run(UDP).code, Some(0));
}

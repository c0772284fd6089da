//! `dpdk:` on the command line, with and without the feature.

#[cfg(feature = "dpdk")]
mod with {
    use std::ffi::OsStr;
    use std::fs;

    use crate::support::endless;
    use crate::support::live::wait_until;
    use crate::support::{
        Directory, REAL, REAL_PACKETS, assert_closed, command, judged_packets, run, run_json,
    };

    /// A device without another end, which returns what it gets.
    const NULL: &str = "dpdk:net_null0?huge=no&memory=128&pool=4095";

    fn total(report: &serde_json::Value, key: &str) -> u64 {
        report["total"][key].as_u64().unwrap_or_else(|| panic!("{key}: {report}"))
    }

    #[test]
    fn packets_are_counted_where_they_lie_and_into_a_log() {
        let report = run_json(&["count", NULL, "--packets", "100k"], 0);
        assert_closed(&report);
        assert_eq!((total(&report, "delivered"), total(&report, "bytes_copied")), (100_000, 0));
        assert_eq!(total(&report, "bytes"), 6_400_000);
        let report = run_json(&["capture", NULL, "--packets", "100k", "-o", "null:"], 0);
        assert_closed(&report);
        assert_eq!(total(&report, "bytes_copied"), 6_400_000);
    }

    #[test]
    fn real_packets_go_through_the_pcap_driver_unharmed() {
        let directory = Directory::new("dpdk-pcap");
        let (ours, theirs) = (directory.file("ours.pcapng"), directory.file("theirs.pcap"));
        let source = format!("dpdk:net_pcap0,rx_pcap={REAL}?huge=no&memory=128");
        let count = REAL_PACKETS.to_string();
        let report = run_json(&["capture", &source, "--packets", &count, "-w", &ours], 0);
        assert_closed(&report);
        for (judge, packets) in judged_packets(&ours) {
            assert_eq!(packets, REAL_PACKETS, "{judge}");
        }
        let sink = format!("dpdk:net_pcap0,tx_pcap={theirs}?huge=no&memory=128");
        let report = run_json(&["replay", REAL, "--top-speed", "-o", &sink], 0);
        assert_closed(&report);
        let report = run_json(&["count", &theirs, "--expect", &count], 0);
        assert_eq!(total(&report, "delivered"), REAL_PACKETS);
    }

    #[test]
    fn a_bounce_between_devices_copies_nothing() {
        let to = "dpdk:net_null1?huge=no&memory=128&pool=4095";
        let arguments = ["bounce", NULL, to, "--both", "--packets", "200k", "--rewrite", "swap"];
        let report = run_json(&arguments, 0);
        assert_closed(&report);
        assert_eq!((total(&report, "delivered"), total(&report, "bytes_copied")), (200_000, 0));
        assert_eq!(report["ports"].as_array().unwrap().len(), 2);
        let report = run_json(&["generate", "-o", NULL, "--packets", "100k"], 0);
        // One copy into an mbuf; the generator makes none.
        assert_eq!(
            (total(&report, "delivered"), total(&report, "bytes_copied")),
            (100_000, 6_000_000)
        );
    }

    #[test]
    fn what_does_not_start_is_said_in_one_line_with_the_mend() {
        for (address, said) in [
            ("dpdk:net_null0?huge=yes&memory=65536", "huge=no"),
            ("dpdk:net_null0?huge=no&eal=--no-such-thing", "DPDK does not start: "),
            ("dpdk:net_null0?huge=no&memory=16&pool=65535", "raise memory=MIB"),
            ("dpdk:net_nowhere0?huge=no", "dpdk-devbind.py"),
        ] {
            let run = run(&["count", address, "--json"]);
            assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{address}: {}", run.stderr);
            assert_eq!(run.stderr.lines().count(), 1, "{address}: {}", run.stderr);
            assert!(run.stderr.contains(said), "{address}: {}", run.stderr);
        }
        let run = run(&["count", NULL, "dpdk:net_null1?memory=64"]);
        assert!(run.stderr.contains("DPDK already runs with `burstline"), "{}", run.stderr);
    }

    /// Returns whether an EAL file belongs to this process; a longer number is another process.
    fn is_of(process: u32, name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        let rest = name.strip_prefix(&format!("burstline-{process}"));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    }

    /// Two run at once, each with its own EAL primary process; one ends by a signal, one is killed.
    #[test]
    fn several_run_at_once_a_signal_ends_one_and_nothing_is_left() {
        let start = || {
            let mut job = endless::spawn(command(&["count", NULL, "--poll", "interrupt"]));
            job.wait_for(|interval| interval["delivered"].is_u64());
            job
        };
        let (one, other) = (start(), start());
        let processes = [&one, &other].map(|job| job.child.id());
        drop(other);
        assert_closed(&endless::end(one, "-INT"));
        for folder in ["/var/run/dpdk", "/dev/hugepages", "/tmp/dpdk"] {
            wait_until(&format!("nothing is left in {folder}"), || {
                let names = fs::read_dir(folder).into_iter().flatten().flatten();
                let mut names = names.map(|entry| entry.file_name());
                !names.any(|name| processes.iter().any(|&number| is_of(number, &name)))
            });
        }
    }
}

#[cfg(not(feature = "dpdk"))]
#[test]
fn without_dpdk_the_port_says_how_to_get_it() {
    let run = crate::support::run(&["count", "dpdk:net_null0"]);
    let said =
        "burstline: dpdk:net_null0: built without DPDK: make dpdk builds a program with it\n";
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), said));
}

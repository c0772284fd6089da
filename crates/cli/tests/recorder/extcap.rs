//! Published logs as interfaces of Wireshark's programs.

use std::fs;

use crate::support::sharing::Names;

/// Returns the program's answer to Wireshark.
fn ask(names: &Names, arguments: &[&str]) -> String {
    let run = names.run(&[&["extcap"], arguments].concat());
    assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.stderr);
    run.stdout
}

#[test]
fn wireshark_gets_an_answer_to_each_question() {
    let names = Names::new("extcap-answers");
    let said = ask(&names, &["--extcap-interfaces", "--extcap-version=4.0"]);
    assert!(said.starts_with("extcap {version=") && !said.contains("burst-"), "{said}");
    let _publisher = names.start(&["count", "-", "--publish", "tap"]);
    names.wait_for_readers("tap", 0);
    let said = ask(&names, &["--extcap-interfaces"]);
    assert!(said.contains("\ninterface {value=burst-tap}{display=Burstline log of"), "{said}");
    // Ports are interfaces that are up.
    let is_up = fs::read_to_string("/sys/class/net/lo/flags").unwrap();
    let is_up = u32::from_str_radix(is_up.trim().trim_start_matches("0x"), 16).unwrap() & 1 == 1;
    let port = "\ninterface {value=burstport-lo}{display=Burstline port afpacket:lo}\n";
    assert_eq!(said.contains(port), is_up, "{said}");
    let of = |interface: &str, rest: &[&str]| {
        ask(&names, &[&["--extcap-interface", interface], rest].concat())
    };
    for (interface, choices) in [("burst-tap", 3), ("burstport-lo", 1)] {
        let said = of(interface, &["--extcap-dlts"]);
        assert_eq!(said, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
        let said = of(interface, &["--extcap-config"]);
        assert!(said.contains("{call=--snaplen}") && said.lines().count() == choices, "{said}");
        assert_eq!(said.contains("{call=--worker}"), choices == 3, "{said}");
        assert_eq!(of(interface, &["--extcap-capture-filter", "udp port 7"]), "", "no fault");
        assert!(of(interface, &["--extcap-capture-filter", "udp prt 7"]).contains("udp prt 7"));
    }
    let capture = ["extcap", "--capture", "--fifo", "/dev/null", "--extcap-interface"];
    for (wrong, wanted) in [
        (&["extcap"][..], "--extcap-interfaces or --extcap-interface"),
        (&["extcap", "--extcap-interface", "eth0"], "expected burst-NAME or burstport-INTERFACE"),
        (&["extcap", "--extcap-interface", "burst-"], "expected burst-NAME"),
        (&[&capture[..], &["burstport-lo", "--worker", "1"]].concat(), "a port has no workers"),
        (&[&capture[..], &["burstport-lo", "--oldest"]].concat(), "no packets from before"),
    ] {
        let run = crate::support::run(wrong);
        assert!(run.code == Some(2) && run.stderr.contains(wanted), "{}", run.stderr);
    }
}

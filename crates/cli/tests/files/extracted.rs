//! extract: interfaces by name.

use crate::archive::recording;
use crate::support::{Directory, regular, run_json, run_with_code};

#[test]
fn a_name_that_no_interface_has_is_told_with_those_that_there_are() {
    let directory = Directory::new("unknown-port");
    let load = regular(&directory, "load.pcap", 100, 128);
    let file = recording(&directory, "x.pcapng", &load, &[]);
    let question = ["extract", &file, &load, "--port", "eth7"];
    let none = run_json(&question, 0);
    assert_eq!((&none["delivered"], &none["offered"]), (&0.into(), &200.into()), "{none}");
    let told = "--port eth7: no interface is called so; what was read has load.pcap";
    assert!(none["notes"].to_string().contains(told), "{none}");
    assert!(run_with_code(&question, 0).stdout.contains(told));
    let is_told = |question: &[&str]| run_json(question, 0)["notes"].to_string().contains(told);
    assert!(!is_told(&["extract", &file, "--port", "load.pcap"]));
    // It has the interface, but no packet of this time.
    assert!(!is_told(&["extract", &file, "--port", "load.pcap", "--from", "+9s"]));
}

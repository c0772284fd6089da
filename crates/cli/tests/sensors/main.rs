//! Sensors in line and on a log: verdicts, LibDAQ, libpcap.

#[path = "../support/mod.rs"]
mod support;

mod daq;
mod daq_mad;
mod inline;
mod inline_live;
mod inline_pcap;
mod page;
#[path = "../../../share/tests/share/scribbler.rs"]
mod scribbler;
#[path = "../../../pcap/tests/suite/suricata_said.rs"]
mod suricata_said;
mod transcript;

/// The role of [`support::verdicts::Worker`]s.
#[test]
#[ignore = "another process of the tests"]
fn worker() {
    support::verdicts::run();
}

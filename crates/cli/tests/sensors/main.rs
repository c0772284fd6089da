//! Engines in line and on a log: verdicts, LibDAQ, libpcap.

#[path = "../support/mod.rs"]
mod support;

mod daq;
mod inline;
mod inline_live;
mod inline_pcap;
mod transcript;

/// The role of [`support::verdicts::Worker`]s.
#[test]
#[ignore = "another process of the tests"]
fn worker() {
    support::verdicts::run();
}

//! Whether a program that was linked with libpcap finds in ours what it looks for.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use burstline_skip::skip;

use crate::common::{is_there, library, run};

/// Names that a library defines.
fn names(library: &Path) -> BTreeSet<String> {
    let mut command = Command::new("nm");
    let said = run(command.args(["-D", "--defined-only"]).arg(library), 0);
    said.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
}

#[test]
fn every_function_of_libpcap_is_there() {
    let machine = std::env::consts::ARCH;
    let folder = format!("/usr/lib/{machine}-linux-gnu");
    let real = Path::new(&folder).join("libpcap.so.0.8");
    if !real.exists() || !is_there("nm") {
        return skip("every_function_of_libpcap_is_there", "libpcap0.8 or nm is not installed");
    }
    let (ours, theirs) = (names(&library()), names(&real));
    // A table of the real library's own, which no header declares: ours would take its place.
    let missing: Vec<_> =
        theirs.difference(&ours).filter(|name| name.as_str() != "eproto_db").collect();
    assert!(missing.is_empty(), "{missing:?}");
    let besides: Vec<_> = ours.difference(&theirs).map(String::as_str).collect();
    // Others may clash with a program's.
    assert_eq!(besides, ["burstline_pcap_replace", "burstline_pcap_verdict"]);
}

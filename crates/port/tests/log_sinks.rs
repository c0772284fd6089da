//! `log:` sinks of a job that outlives them.

use std::fs;

use burstline_port::{OpenOptions, open_sink};
use burstline_sys::temporary::TemporaryFolder;

/// Mirrors of a switch are added and removed for years, and its table of interfaces stays.
#[test]
fn a_sink_that_has_gone_leaves_no_memory() {
    let name = format!("log-gone-{}", std::process::id());
    let folder = TemporaryFolder::create("burstline-log-").unwrap();
    let address = format!("log:{}?bytes=2000k", folder.file(&name)).parse().unwrap();
    let options = OpenOptions::default();
    let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(&name);
    let sink = open_sink(&address, &options).unwrap();
    assert!(is_mapped(), "the kernel shows it by its name");
    drop(sink);
    assert!(!is_mapped());
}

//! `log:` sinks of a job that outlives them.

use std::fs;

use burstline_port::{OpenOptions, open_sink};

/// Mirrors of a switch are added and removed for years, and its table of interfaces stays.
#[test]
fn a_sink_that_has_gone_leaves_no_memory() {
    let name = format!("log-gone-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    let address = format!("log:{}?bytes=2000k", path.display()).parse().unwrap();
    let options = OpenOptions::default();
    let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(&name);
    let sink = open_sink(&address, &options).unwrap();
    assert!(is_mapped(), "the kernel shows it by its name");
    drop(sink);
    assert!(!is_mapped());
}

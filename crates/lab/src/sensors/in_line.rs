//! Runs Suricata in line, behind our bounce or with its own AF_PACKET.

use std::path::{Path, PathBuf};

use crate::live::OUT;
use crate::programs::Ours;

/// Returns the bounce before it. The deadline is long, because both may share a core.
pub(crate) fn bounce(program: &Path, name: &str) -> Ours {
    Ours::new(program, &format!("bounce v1 {OUT} --both --inline '{name}?deadline=1s'"))
}

/// Returns Suricata's arguments, in line, for packets that wait in this log, and its folder.
pub(crate) fn behind_bounce(name: &str, log: &str) -> String {
    let outputs = outputs();
    let outputs = outputs.display();
    format!(
        "--simulate-ips --include {outputs} --runmode=single \
         '--pcap=burst:{name}?verdict=pass&drops={log}/drops.json'"
    )
}

/// Returns the folder of its outputs in line, as `make install-pcap` installs them.
fn outputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcap/suricata-in-line.yaml")
}

/// Returns the arguments for a thread on each interface, which sends by the other.
pub(crate) fn between_interfaces() -> String {
    let ways = [("v1", OUT, 99), (OUT, "v1", 98)];
    let settings = ways.iter().enumerate().map(|(at, (from, to, cluster))| {
        let settings = [
            format!("interface={from}"),
            format!("copy-iface={to}"),
            format!("cluster-id={cluster}"),
            "threads=1".to_owned(),
            "copy-mode=ips".to_owned(),
            "ring-size=65536".to_owned(),
            "defrag=no".to_owned(),
        ];
        settings.map(|setting| format!(" --set af-packet.{at}.{setting}")).concat()
    });
    let outputs = outputs();
    let outputs = outputs.display();
    format!("--af-packet --include {outputs} --runmode=workers{}", settings.collect::<String>())
}

//! `burstline version`.

use std::env::consts::{ARCH, OS};
use std::process::ExitCode;

use burstline_sys::pcap;
use serde_json::json;

use crate::args::{Cli, VersionArgs, commit};
use crate::failure::Failure;
use crate::view;

/// The C library that this program is linked to.
const LIBC: &str = if cfg!(target_env = "musl") { "musl, static" } else { "glibc" };

/// Returns the optional features of this build.
fn features() -> Vec<&'static str> {
    let dpdk = cfg!(feature = "dpdk").then_some("dpdk");
    dpdk.into_iter().collect()
}

/// Prints the version of this program.
pub(crate) fn version(args: &VersionArgs) -> Result<ExitCode, Failure> {
    let features = features();
    // Without libpcap a filter fails with its own error.
    let libpcap = pcap::version().ok();
    let text = if args.json {
        let object = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": commit(),
            "target": format!("{ARCH}-{OS}"),
            "features": features,
            "libraries": { "libc": LIBC, "libpcap": libpcap },
        });
        format!("{object}\n")
    } else {
        let libpcap = libpcap.unwrap_or_else(|| match pcap::compiler() {
            Ok(_) => "not found: tcpdump compiles filters".to_owned(),
            Err(_) => "not found, and no tcpdump to compile filters".to_owned(),
        });
        let all = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        format!(
            "{}target    {ARCH}-{OS}\nfeatures  {all}\nlibc      {LIBC}\nlibpcap   {libpcap}\n",
            Cli::whole().render_version(),
        )
    };
    view::say(&text)
}

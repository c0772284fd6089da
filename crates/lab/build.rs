//! With the feature `dpdk`: compiles the rivals on DPDK's own API. Without: nothing of that.
//! For optimised builds, which make figures: tells the program which commit it is built from.

#![forbid(unsafe_code)]

#[path = "../dpdk/compile.rs"]
mod compile;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The sources that a change of makes cargo build this crate again anyway.
const SOURCES: [&str; 9] = [
    "src",
    "../engine/src",
    "../log/src",
    "../nicsim/src",
    "../port/src",
    "../share/src",
    "../sys/src",
    "../testbed/src",
    "../wire/src",
];

fn main() -> ExitCode {
    let sources = ["common.c", "device.c", "pipeline.c", "balance.c", "merge.c"];
    let sources = sources.map(|name| format!("rivals-dpdk/{name}"));
    let sources = sources.each_ref().map(String::as_str);
    let others =
        ["build.rs", "../dpdk/compile.rs", "rivals-dpdk/rivals.h", "rivals-dpdk/packets.h"];
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        tell_commit();
    }
    compile::run("CARGO_FEATURE_DPDK", "burstline_dpdk_rivals", &sources, &others)
}

/// Sets BURSTLINE_COMMIT, unless there is no git, or this is another repository.
fn tell_commit() {
    let is_ours = git(&["rev-parse", "--show-prefix"]).is_some_and(|path| path == "crates/lab/");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_ours);
    let Some(commit) = commit else { return };
    // Told again when the commit is another one, or the sources are.
    for path in ["HEAD", "logs/HEAD"].map(|file| git(&["rev-parse", "--git-path", file])) {
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."]);
    let is_changed = changes.is_none_or(|changes| !changes.is_empty());
    let mark = if is_changed { " and changes" } else { "" };
    println!("cargo::rustc-env=BURSTLINE_COMMIT={commit}{mark}");
}

/// What git says, if it can.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

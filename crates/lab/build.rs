//! Compiles the rivals on DPDK's own API if the feature `dpdk` is on. Passes the compiler, flags
//! and sources to the program, and for optimised builds, which make figures, also the commit.

#![forbid(unsafe_code)]

#[path = "../dpdk/compile.rs"]
mod compile;
#[path = "src/sources.rs"]
#[expect(unreachable_pub, reason = "the library has it, too")]
mod sources;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

/// Sources whose changes make cargo rebuild this crate in any case.
const SOURCES: [&str; 11] = [
    "src",
    "../engine/src",
    "../log/src",
    "../nicsim/src",
    "../port/src",
    "../share/src",
    "../sys/src",
    "../testbed/src",
    "../wire/src",
    "../../Cargo.lock",
    "../../rust-toolchain.toml",
];

fn main() -> ExitCode {
    let sources = ["common.c", "device.c", "pipeline.c", "balance.c", "balance_live.c", "merge.c"];
    let sources = sources.map(|name| format!("rivals-dpdk/{name}"));
    let sources = sources.each_ref().map(String::as_str);
    let others =
        ["build.rs", "../dpdk/compile.rs", "rivals-dpdk/rivals.h", "rivals-dpdk/packets.h"];
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        tell_commit();
    }
    tell_compiler();
    tell_sources();
    compile::run("CARGO_FEATURE_DPDK", "burstline_dpdk_rivals", &sources, &others)
}

/// Sets the fields of [`Build`](../src/record/machine.rs) for Rust, and for C without DPDK.
fn tell_compiler() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let tell = |name: &str, value: &str| println!("cargo::rustc-env=BURSTLINE_{name}={value}");
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    tell("RUSTC", &rustc.unwrap_or_default());
    // Cargo does not pass the profile's name, but it is in target/NAME/build/PACKAGE/out.
    let folder = variable("OUT_DIR");
    let name = Path::new(&folder).ancestors().nth(3).and_then(Path::file_name);
    let name = name.unwrap_or_default().to_string_lossy();
    let name = if name == "debug" { "dev" } else { &*name };
    let settings = settings(name);
    let (level, debug) = (variable("OPT_LEVEL"), variable("DEBUG"));
    tell("PROFILE", &format!("profile {name} (opt-level {level}, debug {debug}{settings})"));
    let features = variable("CARGO_CFG_TARGET_FEATURE");
    tell("TARGET", &format!("{} with {features}", variable("TARGET")));
    let flags = variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    tell("RUST_FLAGS", if flags.is_empty() { "none" } else { &flags });
    if env::var_os("CARGO_FEATURE_DPDK").is_none() {
        tell("C_COMPILER", "none: built without DPDK");
        tell("DPDK", "none: built without DPDK");
    }
}

/// Returns the other settings of a profile in the workspace's Cargo.toml.
fn settings(profile: &str) -> String {
    const MANIFEST: &str = "../../Cargo.toml";
    println!("cargo::rerun-if-changed={MANIFEST}");
    let text = fs::read_to_string(MANIFEST).unwrap_or_default();
    let lines = text.lines().skip_while(|line| *line != format!("[profile.{profile}]")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let known = |line: &&str| line.starts_with("debug ") || line.starts_with("opt-level ");
    let settings = lines.filter(|line| line.contains(" = ") && !known(line));
    settings.map(|line| format!(", {}", line.replace(" = ", " ").replace('"', ""))).collect()
}

/// Sets BURSTLINE_SOURCES: `FOLDER NUMBER` for each folder that figures depend on, if it is there.
fn tell_sources() {
    let root = Path::new("../..");
    let mut numbers: Vec<String> = Vec::new();
    for folder in sources::FOLDERS {
        // Not the folder: this crate would be compiled again after each change of a test.
        for file in sources::files_of(root, folder).unwrap_or_default() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        let number = sources::number_of(root, folder);
        numbers.extend(number.map(|number| format!("{folder} {number}")));
    }
    println!("cargo::rustc-env=BURSTLINE_SOURCES={}", numbers.join(","));
}

/// Sets BURSTLINE_COMMIT, unless there is no git, or this is another repository.
fn tell_commit() {
    let is_ours = git(&["rev-parse", "--show-prefix"]).is_some_and(|path| path == "crates/lab/");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_ours);
    let Some(commit) = commit else { return };
    // Run the script again when the commit or the sources change.
    for path in ["HEAD", "logs/HEAD"].map(|file| git(&["rev-parse", "--git-path", file])) {
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changes = git(&[&status[..], &sources::CODE].concat());
    let is_changed = changes.is_none_or(|changes| !changes.is_empty());
    let mark = if is_changed { sources::AND_CHANGES } else { "" };
    println!("cargo::rustc-env=BURSTLINE_COMMIT={commit}{mark}");
}

/// Returns the output of a git command, or `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

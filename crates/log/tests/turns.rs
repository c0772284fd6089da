//! Counts the instructions per packet of both ends of a log, and compares them with `turns.txt`.
//! Unlike a time, a count does not depend on the machine's load.
//!
//! `examples/turns.rs` describes the workloads. It is built like released programs, and runs under
//! callgrind. The difference of a short run and a longer one is the cost of the packets alone.
#![cfg(all(target_arch = "x86_64", not(miri), not(loom)))]

use std::env;
use std::path::PathBuf;
use std::process::Command;

use burstline_skip::skip;

/// Packets of the short run, and of the longer one.
const PACKETS: [u32; 2] = [65_536, 327_680];

/// A larger rise fails the test. A larger fall requires a new number in the file.
const TOLERANCE: f64 = 0.05;

#[test]
fn a_packet_takes_as_many_instructions_as_it_is_said_to() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip("valgrind is not installed");
    }
    let program = build();
    let mut seen = Vec::new();
    for line in include_str!("turns.txt").lines().filter(|line| !line.starts_with('#')) {
        let (work, said) = line.split_once(' ').expect("a work and its count");
        let said: f64 = said.parse().expect("a number");
        let [few, more] = PACKETS.map(|packets| count(&program, work, packets));
        let counted = (more - few) as f64 / f64::from(PACKETS[1] - PACKETS[0]);
        println!("{work} {counted:.2}");
        seen.push((work, counted, said));
    }
    for &(work, counted, said) in &seen {
        assert!(
            (counted / said - 1.0).abs() <= TOLERANCE,
            "{work}: {counted:.2} instructions a packet, {said} in tests/turns.txt; all: {seen:?}"
        );
    }
}

/// Builds the example in release mode, in this test's own target folder.
fn build() -> PathBuf {
    let program = env::current_exe().expect("a test has a program");
    let target = program.ancestors().nth(3).expect("TARGET/PROFILE/deps/PROGRAM").to_owned();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "-p", "burstline-log"])
        .args(["--example", "turns", "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs tests");
    assert!(built.success(), "examples/turns.rs does not build");
    target.join("release/examples/turns")
}

/// Returns the instructions of a whole run.
fn count(program: &PathBuf, work: &str, packets: u32) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([work, &packets.to_string()])
        .output()
        .expect("valgrind is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Source: Valgrind 3.19, Callgrind's summary: `==N== Collected : 1234`.
    let line = said.lines().find(|line| line.contains("Collected :")).expect("a summary");
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count")
}

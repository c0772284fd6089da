//! Atomics are used only where their orderings are documented and modelled.
//!
//! An atomic is half of a synchronization edge between two threads. Edges are in `log` (under loom)
//! and `sys`; elsewhere an atomic only tells a thread to stop.

use crate::finding::Finding;
use crate::rust;
use crate::tree::{TextFile, Tree};

/// Path prefixes that may use `sync::atomic`, and why.
const ALLOWED: [(&str, &str); 19] = [
    ("crates/afpacket/", "the ring's words, which the kernel writes and reads"),
    ("crates/xdp/", "the rings' words and the counters of programs, likewise"),
    ("crates/peer/", "words of rings, which a peer writes and reads; a handler of signals"),
    ("crates/sys/", "futex words are atomics"),
    ("crates/log/", "the log's edges, modelled in loom"),
    ("crates/nicsim/", "the edges between device and driver, modelled in loom"),
    ("crates/lab/", "the benchmarks' rivals"),
    ("crates/cli/", "the flag that a signal handler sets"),
    ("crates/engine/", "the same flag, read once a poll"),
    ("fuzz/", "the same flag, which is never set"),
    ("crates/port/src/open.rs", "the same flag, for ports that wait by themselves"),
    ("crates/port/src/file/output.rs", "the same flag, read while a pipe takes nothing"),
    ("crates/port/src/file/source/reader/silence.rs", "the same flag, read while a pipe is silent"),
    ("crates/port/src/log_source/name.rs", "the same flag, read while a writer is waited for"),
    ("crates/port/src/nicsim/", "a count of frames lost before a simulated card"),
    ("crates/pcap/", "flags that end a call, counts, and a text, which C looks at without a lock"),
    ("crates/flow/src/queue.rs", "counts for the writer's journal, which carry no memory"),
    ("crates/python/src/verdicts.rs", "bytes that numpy writes, each by itself, at any time"),
    ("crates/topo/src/snapshot.rs", "a number that makes names of folders unique"),
];

/// Checks every Rust file except test code.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust_files().filter(|file| !file.is_test()).flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    if ALLOWED.iter().any(|(prefix, _)| file.path.starts_with(prefix)) {
        return Vec::new();
    }
    let code = rust::code_only(&file.text);
    let tests = rust::test_spans(&code);
    let uses = code.match_indices("sync::atomic").map(|(at, _)| at);
    let outside = uses.filter(|at| !tests.iter().any(|span| span.contains(at)));
    let finding = |at| {
        let what = "`sync::atomic` outside sys, log and the list (0 allowed)".to_owned();
        let mend = "use a call of burstline-log, or argue a place in crates/xtask/src/atomics.rs";
        Finding::new(&file.path, rust::line_of(&code, at), what, mend)
    };
    outside.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_use_but_not_in_tests_or_allowed_crates() {
        let text =
            "use std::sync::atomic::AtomicU8;\n#[cfg(test)]\nmod t { use core::sync::atomic; }\n";
        let found = check(&Tree::of(&[
            ("crates/port/src/a.rs", text),
            ("crates/port/tests/a.rs", text),
            ("crates/log/src/a.rs", text),
        ]));
        let places: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [("crates/port/src/a.rs", 1)]);
    }
}

//! `unsafe` is used only where its invariants are stated and tested, and each use has its argument.
//!
//! Crates that may use it are listed in [`ALLOWED`]; the root of every other crate forbids it. In
//! the allowed crates each `unsafe` block and `unsafe impl` has a `SAFETY` comment within [`REACH`]
//! lines above. The comment gives the argument, not a reference to another one. (Clippy's
//! `undocumented_unsafe_blocks` also checks blocks, but not in other configurations such as
//! loom's.)

use crate::finding::Finding;
use crate::metadata::Metadata;
use crate::rust;
use crate::tree::{TextFile, Tree};

/// Folders below `crates/` whose crates may use `unsafe`, and why.
const ALLOWED: [(&str, &str); 13] = [
    ("sys", "the Linux boundary"),
    ("afpacket", "rings that the kernel fills and sends from"),
    ("xdp", "frames and rings that the kernel writes, and bpf(2)"),
    ("peer", "memory that a peer writes and cuts, and SIGBUS"),
    ("log", "memory shared between processes"),
    ("share", "one block: attaching to a writer that is vouched for"),
    ("port", "one block: the user's word for a writer"),
    ("nicsim", "memory that a simulated device writes while its driver reads"),
    ("dpdk", "a library of C, and the mbufs that it lends"),
    ("capi", "pointers from C"),
    ("pcap", "pointers from C, and the real libpcap's functions"),
    ("python", "two blocks: Python's buffer protocol, and a drop that a child leaves out"),
    ("lab", "the benchmarks' rivals, which do by hand what the log does"),
];

/// Most lines between an `unsafe` and the start of its argument.
const REACH: usize = 8;

/// Checks every Rust file, and the root of every crate of the workspace.
pub(crate) fn check(workspace: &Metadata, tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.rust_files().flat_map(check_file).collect();
    for root in workspace.members().flat_map(|package| &package.roots) {
        findings.extend(tree.file(root).and_then(check_root));
    }
    findings
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let code = rust::code_only(&file.text);
    let lines: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for at in rust::words(&code, "unsafe") {
        let line = rust::line_of(&code, at);
        if !is_allowed(file) {
            let crates = ALLOWED.map(|(name, _)| name).join(", ");
            let what = format!("`unsafe` outside crates {crates} (0 allowed)");
            findings.push(Finding::new(&file.path, line, what, "use a safe call of these crates"));
            continue;
        }
        let above = &lines[line.saturating_sub(1 + REACH)..line];
        if let Some(pointer) = above.iter().find_map(|line| points_elsewhere(line)) {
            let what = format!("`unsafe` whose SAFETY says only `{pointer}` (0 allowed)");
            findings.push(Finding::new(&file.path, line, what, "argue here why it is sound"));
        }
        if is_use(&code, at) && !above.iter().any(|line| line.contains("SAFETY")) {
            let what = format!("`unsafe` without SAFETY in the {REACH} lines above");
            findings.push(Finding::new(&file.path, line, what, "argue why it is sound"));
        }
    }
    findings
}

/// Returns whether the `unsafe` at `at` is a block or an implementation: these need an argument and
/// a test.
pub(crate) fn is_use(code: &str, at: usize) -> bool {
    let next = code[at + "unsafe".len()..].trim_start();
    next.starts_with('{') || next.starts_with("impl")
}

/// Returns the words of an argument that only refers to another one.
fn points_elsewhere(line: &str) -> Option<&'static str> {
    let argument = line.trim_start().strip_prefix("//")?.trim_start().strip_prefix("SAFETY: ")?;
    ["as above", "as in `", "as for `"].into_iter().find(|words| argument.starts_with(words))
}

fn check_root(file: &TextFile) -> Option<Finding> {
    let is_forbidden = rust::code_only(&file.text).contains("#![forbid(unsafe_code)]");
    (!is_allowed(file) && !is_forbidden).then(|| {
        let what = "crate root does not forbid `unsafe` (0 attributes)".to_owned();
        Finding::new(&file.path, 1, what, "add #![forbid(unsafe_code)]")
    })
}

fn is_allowed(file: &TextFile) -> bool {
    file.crate_folder().is_some_and(|folder| ALLOWED.iter().any(|(name, _)| *name == folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(path, text)]);
        tree.rust_files().flat_map(check_file).map(|finding| finding.line).collect()
    }

    #[test]
    fn only_the_named_crates_may_have_it() {
        let text = "// SAFETY: none\nunsafe { f() }\n";
        assert_eq!(lines_of("crates/engine/src/lib.rs", text), [2]);
        assert_eq!(lines_of("fuzz/fuzz_targets/a.rs", text), [2]);
        assert!(lines_of("crates/log/src/lib.rs", text).is_empty());
    }

    #[test]
    fn words_in_comments_and_lints_are_not_uses() {
        let text = "#![forbid(unsafe_code)]\n// unsafe { }\nconst A: &str = \"unsafe {\";\n";
        assert!(lines_of("crates/engine/src/lib.rs", text).is_empty());
    }

    #[test]
    fn an_argument_reaches_eight_lines() {
        let text = |gap: usize| format!("// SAFETY: a\n{}unsafe {{ f() }}\n", "x\n".repeat(gap));
        assert!(lines_of("crates/sys/src/a.rs", &text(7)).is_empty());
        assert_eq!(lines_of("crates/sys/src/a.rs", &text(8)), [10]);
        assert_eq!(lines_of("crates/sys/src/a.rs", "unsafe impl Send for A {}"), [1]);
        assert!(lines_of("crates/sys/src/a.rs", "unsafe fn f() {}").is_empty());
    }

    #[test]
    fn an_argument_is_not_a_pointer_to_another() {
        let text = |argument: &str| format!("// SAFETY: {argument}\nunsafe {{ f() }}\n");
        for (argument, lines) in
            [("as above.", &[2][..]), ("as in `g`.", &[2]), ("I1, as the caller says.", &[])]
        {
            assert_eq!(lines_of("crates/log/src/a.rs", &text(argument)), lines, "{argument}");
        }
    }

    #[test]
    fn other_roots_forbid_it() {
        let tree = Tree::of(&[
            ("crates/engine/src/lib.rs", "//! #![forbid(unsafe_code)]"),
            ("crates/wire/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("crates/sys/src/lib.rs", ""),
        ]);
        let found: Vec<bool> = tree.files().iter().map(|file| check_root(file).is_some()).collect();
        assert_eq!(found, [true, false, false]);
    }
}

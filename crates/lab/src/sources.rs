//! Hashes the sources of a folder, to tell whether a figure was measured with the present code.
//!
//! What cannot change a figure is left out: tests, examples and Markdown, and in Rust lines that
//! are blank or a comment. This looks at lines only. So of a string in several lines it leaves out
//! such lines, too.
//!
//! `build.rs` includes this file, too. It stores the hashes in the program, which writes them into
//! each record.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where code is in the repository, as git takes it from any of its folders.
pub const CODE: [&str; 5] =
    [":/crates", ":/Cargo.toml", ":/Cargo.lock", ":/rust-toolchain.toml", ":/.cargo"];

/// End of the commit of a program that was built from changed code.
pub const AND_CHANGES: &str = " and changes";

/// Folders and files of the repository that affect figures. `Cargo.lock` is left out: a bump of a
/// dependency of a dependency would mark every figure.
pub const FOLDERS: [&str; 47] = [
    "Cargo.toml",
    "crates/afpacket",
    "crates/cli",
    "crates/dpdk",
    "crates/engine",
    "crates/fleet",
    "crates/flow",
    "crates/lab/figures.toml",
    "crates/lab/rivals-dpdk",
    "crates/lab/rivals-python",
    "crates/lab/scenarios",
    "crates/lab/src/arena.rs",
    "crates/lab/src/contenders",
    "crates/lab/src/figures",
    "crates/lab/src/lines.rs",
    "crates/lab/src/live",
    "crates/lab/src/measuring",
    "crates/lab/src/ours.rs",
    "crates/lab/src/pages.rs",
    "crates/lab/src/perf",
    "crates/lab/src/perf.rs",
    "crates/lab/src/programs",
    "crates/lab/src/remote",
    "crates/lab/src/rfc2544",
    "crates/lab/src/rivals",
    "crates/lab/src/scenario",
    "crates/lab/src/sensors",
    "crates/lab/src/sharing",
    "crates/lab/src/symbols",
    "crates/lab/src/symbols.rs",
    "crates/lab/src/traffic.rs",
    "crates/log",
    "crates/memif",
    "crates/nicsim",
    "crates/pcap",
    "crates/peer",
    "crates/port",
    "crates/python",
    "crates/share",
    "crates/switch",
    "crates/sys",
    "crates/testbed",
    "crates/topo",
    "crates/vhost",
    "crates/wire",
    "crates/xdp",
    "rust-toolchain.toml",
];

/// Returns the sources of a folder or file below `root`, sorted.
///
/// # Errors
/// If a folder cannot be read.
pub fn files_of(root: &Path, folder: &str) -> io::Result<Vec<PathBuf>> {
    let (path, mut files) = (root.join(folder), Vec::new());
    if path.is_dir() {
        find(&path, &mut files)?;
    } else {
        files.push(path);
    }
    files.sort();
    Ok(files)
}

/// Returns the hash of a folder or file below `root` as 16 digits. It covers the names and contents
/// of all its sources, and of Rust only lines with code. Cost: reads all of them.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn number_of(root: &Path, folder: &str) -> io::Result<String> {
    // Source: FNV-1a, 64 bits, draft-eastlake-fnv.
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            number = (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files_of(root, folder)? {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        add(name.as_bytes());
        add(&[0]);
        let text = fs::read(&file)?;
        if file.extension().is_some_and(|kind| kind == "rs") {
            for line in code(&text) {
                add(line);
                add(b"\n");
            }
        } else {
            add(&text);
        }
    }
    Ok(format!("{number:016x}"))
}

/// Returns the lines of a Rust file that have code, without items for tests. It knows an item's end
/// by its indentation, as rustfmt leaves it; `mod tests` is the last part of a file.
fn code(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    // The indentation of the item for tests that the line is in.
    let mut of_tests = None;
    lines.take_while(|line| !line.ends_with(b"mod tests {")).filter(move |line| {
        let code = line.trim_ascii();
        if code.is_empty() || code.starts_with(b"//") {
            return false;
        }
        let indent = line.len() - line.trim_ascii_start().len();
        if code == b"#[cfg(test)]" {
            of_tests = Some(indent);
        }
        let is_code = of_tests.is_none();
        if of_tests == Some(indent) && matches!(code.last(), Some(b';' | b'}' | b',')) {
            of_tests = None;
        }
        is_code
    })
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str);
        let kind = path.extension().and_then(OsStr::to_str);
        // Python leaves compiled files in __pycache__.
        if matches!(name, Some("tests" | "examples" | "fixtures" | "__pycache__"))
            || matches!(kind, Some("lock" | "md"))
        {
            continue;
        }
        if path.is_dir() {
            find(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    /// What has no effect on figures: what tests and checks, or formats what was measured.
    const OTHERS: &str = "capi skip xtask lab/Cargo.toml lab/build.rs lab/documents lab/tests \
        lab/src/bin lab/src/documents lab/src/glob.rs lab/src/held.rs lab/src/lib.rs \
        lab/src/options.rs lab/src/readiness.rs lab/src/record lab/src/record.rs lab/src/reports \
        lab/src/sources.rs";

    /// Returns the number of a folder that has this file only.
    fn number(name: &str, text: &str) -> String {
        let root = TemporaryFolder::create("burstline-sources-").unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        fs::write(root.path().join("src").join(name), text).unwrap();
        number_of(root.path(), "src").unwrap()
    }

    #[test]
    fn code_changes_the_number_and_words_and_tests_do_not() {
        let code = "fn one() {\n    two(); // twice\n}\n";
        let words = "//! A.\n\n/// B.\nfn one() {\n    // C\n    two(); // twice\n}\n\n";
        let same = number("a.rs", code);
        assert_eq!(number("a.rs", words), same);
        for head in ["mod tests {", "pub(crate) mod tests {"] {
            let tests = format!("#[cfg(test)]\n{head}\n    three();\n}}\n");
            assert_eq!(number("a.rs", &format!("{words}{tests}")), same, "{head}");
        }
        let item = "#[cfg(test)]\n/// D;\nfn three() {\n    four();\n}\n";
        for item in ["#[cfg(test)]\nmod tests;\n", item] {
            assert_eq!(number("a.rs", &format!("{item}{words}")), same, "{item}");
        }
        assert_ne!(number("a.rs", &code.replace("two", "three")), same);
        assert_ne!(number("a.rs", &code.replace("twice", "once")), same, "a line counts whole");
        assert_ne!(number("b.rs", code), same, "the name counts");
        for name in ["tests.rs", "README.md", "Cargo.lock"] {
            assert_eq!(number(name, "one();\n"), number(name, "two();\n"), "{name}");
        }
        for name in ["a.c", "a.sql", "lock.rs", "schema"] {
            assert_ne!(number(name, "one();\n"), number(name, "two();\n"), "{name}");
        }
        assert_ne!(number("a.c", "// one\n"), number("a.c", "// two\n"), "C counts as it is");
    }

    #[test]
    fn a_file_alone_has_a_number() {
        let root = TemporaryFolder::create("burstline-sources-").unwrap();
        let number = |text: &str| {
            fs::write(root.path().join("a.rs"), text).unwrap();
            number_of(root.path(), "a.rs").unwrap()
        };
        assert_eq!(number("one();\n"), number("// Once.\none();\n"));
        assert_ne!(number("one();\n"), number("two();\n"));
        assert!(number_of(root.path(), "b.rs").is_err());
    }

    #[test]
    fn each_part_of_every_crate_is_in_the_list_or_has_no_effect() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let others: Vec<String> =
            OTHERS.split_whitespace().map(|name| format!("crates/{name}")).collect();
        // The lab is in the list by parts.
        let by_parts = ["crates/lab", "crates/lab/src"];
        for folder in ["crates", "crates/lab", "crates/lab/src"] {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let part = format!("{folder}/{}", entry.unwrap().file_name().display());
                let is_other = by_parts.contains(&&*part) || others.contains(&part);
                assert!(is_other != FOLDERS.contains(&&*part), "{part}");
            }
        }
        for own in FOLDERS.into_iter().chain(others.iter().map(String::as_str)) {
            assert!(root.join(own).exists(), "{own}");
        }
    }
}

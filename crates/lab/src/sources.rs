//! Hashes the sources of a folder, to tell whether a figure was measured with the present code.
//!
//! What cannot change a figure is left out: tests, and in Rust lines that are blank or a comment.
//! This looks at lines only. So of a string in several lines it leaves out such lines, too.
//!
//! `build.rs` includes this file, too. It stores the hashes in the program, which writes them into
//! each record.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders and files of the repository that affect figures.
pub const FOLDERS: [&str; 38] = [
    "crates/afpacket/src",
    "crates/cli/src",
    "crates/dpdk/src",
    "crates/engine/src",
    "crates/fleet/src",
    "crates/flow/src",
    "crates/lab/rivals-dpdk",
    "crates/lab/rivals-python",
    "crates/lab/src/arena.rs",
    "crates/lab/src/contenders",
    "crates/lab/src/figures",
    "crates/lab/src/lines.rs",
    "crates/lab/src/live",
    "crates/lab/src/measuring",
    "crates/lab/src/ours.rs",
    "crates/lab/src/pages.rs",
    "crates/lab/src/programs",
    "crates/lab/src/rfc2544",
    "crates/lab/src/rivals",
    "crates/lab/src/scenario",
    "crates/lab/src/sensors",
    "crates/lab/src/sharing",
    "crates/lab/src/traffic.rs",
    "crates/log/src",
    "crates/memif/src",
    "crates/nicsim/src",
    "crates/pcap/src",
    "crates/peer/src",
    "crates/port/src",
    "crates/python/src",
    "crates/share/src",
    "crates/switch/src",
    "crates/sys/src",
    "crates/testbed/src",
    "crates/topo/src",
    "crates/vhost/src",
    "crates/wire/src",
    "crates/xdp/src",
];

/// Returns the hash of a folder or file below `root` as 16 digits. It covers the names and contents
/// of all its sources but tests, and of Rust only lines with code. Cost: reads all of them.
///
/// # Errors
/// If a file or folder cannot be read.
pub fn number_of(root: &Path, folder: &str) -> io::Result<String> {
    let (path, mut files) = (root.join(folder), Vec::new());
    if path.is_dir() {
        find(&path, &mut files)?;
    } else {
        files.push(path);
    }
    files.sort();
    // Source: FNV-1a, 64 bits, draft-eastlake-fnv.
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            number = (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
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

/// Returns the lines of a Rust file that have code, up to its tests, which are its last part.
fn code(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.take_while(|line| *line != b"mod tests {");
    lines.filter(|line| {
        let line = line.trim_ascii_start();
        !line.is_empty() && !line.starts_with(b"//")
    })
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if is_test {
            continue;
        }
        if path.is_dir() {
            find(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|kind| ["rs", "c", "h", "py"].iter().any(|k| kind == *k))
        {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

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
        assert_eq!(number("a.rs", &format!("{words}mod tests {{\n    three();\n}}\n")), same);
        assert_ne!(number("a.rs", &code.replace("two", "three")), same);
        assert_ne!(number("a.rs", &code.replace("twice", "once")), same, "a line counts whole");
        assert_ne!(number("b.rs", code), same, "the name counts");
        assert_eq!(number("tests.rs", "one();\n"), number("tests.rs", "two();\n"));
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

    fn manifest(path: &Path) -> toml::Table {
        toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn each_crate_that_the_lab_and_the_program_are_made_of_is_in_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let known = manifest(&root.join("Cargo.toml"));
        let mut names = Vec::new();
        for name in ["cli", "lab"] {
            let own = manifest(&root.join("crates").join(name).join("Cargo.toml"));
            names.extend(own["dependencies"].as_table().unwrap().keys().cloned());
        }
        let of_workspace = &known["workspace"]["dependencies"];
        let paths = names.iter().filter_map(|name| of_workspace[name].get("path")?.as_str());
        // The lab itself is in the list by parts.
        let folders: Vec<String> =
            paths.filter(|path| *path != "crates/lab").map(|path| format!("{path}/src")).collect();
        assert!(folders.len() > 20, "{folders:?}");
        for folder in folders {
            assert!(FOLDERS.contains(&folder.as_str()), "{folder}");
        }
        for own in FOLDERS {
            assert!(root.join(own).exists(), "{own}");
        }
    }
}

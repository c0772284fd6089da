//! The text files of the repository, as git lists them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every text file that is tracked, or new and not ignored, in memory (a few hundred KiB).
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    files: Vec<TextFile>,
}

/// One file and its text.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl TextFile {
    /// Returns whether this is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the whole file is test or bench code, by its path or name.
    pub(crate) fn is_test(&self) -> bool {
        let folder = |name: &str| self.path.split('/').any(|part| part == name);
        folder("tests") || folder("benches") || self.path.ends_with("/tests.rs")
    }

    /// Returns the crate's folder name if the file is in `crates/NAME/`.
    pub(crate) fn crate_folder(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// Start of the error if git cannot be run.
const NO_GIT: &str = "git is not installed: apt-get install git";

impl Tree {
    /// Reads the repository around this crate.
    pub(crate) fn read() -> Result<Self, String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).ok_or("xtask is not in crates/xtask")?;
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("{NO_GIT} ({error})"))?;
        if !listed.status.success() {
            let stderr = String::from_utf8_lossy(&listed.stderr);
            return Err(format!("git ls-files failed: {}", stderr.trim()));
        }
        let names = String::from_utf8_lossy(&listed.stdout);
        let files = names.split_terminator('\0').filter_map(|path| {
            // A deleted file that is still in the index, a submodule, a binary file: none of them
            // has text to check.
            let text = fs::read_to_string(root.join(path)).ok()?;
            Some(TextFile { path: path.to_owned(), text })
        });
        Ok(Self { root: root.to_owned(), files: files.collect() })
    }

    /// Creates a tree of the given texts, for tests. Its root is an empty folder.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { root: PathBuf::from("/nonexistent"), files: files.iter().map(file).collect() }
    }

    /// Returns the root of the repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all text files, in git's order.
    pub(crate) fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// Returns the Rust files.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// Returns the file at `path`, if it is part of the tree.
    pub(crate) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

#[cfg(test)]
mod tests {
    use burstline_skip::skip;

    use super::*;

    #[test]
    fn reads_the_repository_it_is_part_of() {
        let tree = match Tree::read() {
            Err(error) if error.starts_with(NO_GIT) => return skip(error),
            tree => tree.unwrap(),
        };
        let own = tree.file("crates/xtask/src/reading/tree.rs").unwrap();
        assert!(own.is_rust() && !own.is_test());
        assert_eq!(own.crate_folder(), Some("xtask"));
    }

    #[test]
    fn knows_test_files_by_place_and_name() {
        let tree = Tree::of(&[
            ("crates/log/tests/loom.rs", ""),
            ("crates/log/src/writer/tests.rs", ""),
            ("crates/log/src/contests.rs", ""),
        ]);
        let kinds: Vec<bool> = tree.files().iter().map(TextFile::is_test).collect();
        assert_eq!(kinds, [true, true, false]);
    }
}

//! Finds out whether records for the repository's `runs` would be of code that no commit has.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the committed records, below the repository's root.
const RUNS: &str = "runs";

/// End of the commit of a program that was built with changes: see `build.rs`.
const AND_CHANGES: &str = " and changes";

/// Returns why `folder` takes no records, and the fix. It is in `runs` of the repository at `root`,
/// and tracked files have changes. Or this program, which is of `commit`, was built with some.
///
/// Files in `runs` may have changes, as records are written there. A file that is not tracked is no
/// change: code needs a tracked file that names it. Without git, every folder takes records.
pub fn refusal(root: &Path, folder: &Path, commit: Option<&str>) -> Option<String> {
    if !whole(folder).starts_with(whole(root).join(RUNS)) {
        return None;
    }
    let (what, fix) = match changed(root) {
        Some(file) => (format!("{file} has changes that no commit has"), "git commit --all"),
        None if commit.is_some_and(|commit| commit.ends_with(AND_CHANGES)) => {
            ("this program was built with such changes".to_owned(), "touch crates/lab/build.rs")
        }
        None => return None,
    };
    let folder = folder.display();
    Some(format!("{what}, so {folder} takes no records: {fix}, then build again"))
}

/// Returns the first tracked file outside of `runs` that has changes.
fn changed(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("--no-optional-locks").arg("-C").arg(root);
    git.args(["status", "--porcelain", "--untracked-files=no", "--", "."]);
    let output = git.arg(format!(":(exclude){RUNS}")).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    // Two letters and a space stand before the path.
    Some(said.lines().next()?.get(3..)?.to_owned())
}

/// Returns an absolute path without links; the folder need not exist.
fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for part in path.ancestors() {
        if let (Ok(whole), Ok(rest)) = (part.canonicalize(), path.strip_prefix(part)) {
            return whole.join(rest);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use burstline_skip::skip;
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    fn git(root: &Path, words: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(root).args(["-c", "user.name=a", "-c", "user.email=a@a"]);
        let output = git.args(["-c", "commit.gpgsign=false"]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn runs_take_no_records_of_code_that_no_commit_has() {
        if Command::new("git").arg("--version").output().is_err() {
            return skip("git is not installed: apt-get install git");
        }
        let folder = TemporaryFolder::create("burstline-uncommitted-").unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        fs::create_dir_all(root.join("runs/figures")).unwrap();
        write("code.rs", "old");
        write("runs/figures/old.json", "old");
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "all"]] {
            git(root, words);
        }
        let refused = |name: &str| refusal(root, &root.join(name), Some("0715b4803c18"));
        assert_eq!(refused("runs/figures"), None);
        // What a run writes itself, and files of nobody.
        write("runs/figures/old.json", "new");
        write("runs/figures/new.json", "new");
        write("notes", "new");
        assert_eq!(refused("runs/figures"), None);

        write("code.rs", "newer");
        symlink(root.join("runs"), root.join("link")).unwrap();
        for name in ["runs", "runs/figures", "runs/new/deep", "runs/../runs/figures", "link/new"] {
            let why = refused(name).unwrap_or_else(|| panic!("{name} takes records"));
            assert!(why.contains("git commit --all, then"), "{why}");
            assert!(why.starts_with("code.rs has changes") && !why.contains('\n'), "{why}");
        }
        for name in ["target/figures", "runs-of-mine", ".."] {
            assert_eq!(refused(name), None, "{name}");
        }
        git(root, &["commit", "-q", "--all", "-m", "all"]);
        assert_eq!(refused("runs/figures"), None);
        let built = |name: &str| {
            refusal(root, &root.join(name), Some("0715b4803c18 and changes")).unwrap_or_default()
        };
        assert!(built("runs/figures").contains("touch crates/lab/build.rs"));
        assert_eq!(built("target/figures"), "");
    }
}

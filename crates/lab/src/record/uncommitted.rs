//! Finds out whether records for a repository's `runs` would be of code that no commit has.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources::{AND_CHANGES, CODE};

/// Folder of the committed records, below the repository's root.
const RUNS: &str = "runs";

/// Returns why `folder` takes no records of this program, which is of `commit`, and the fix. It is
/// in `runs` of this repository or a clone, whose code has changes, or the program was built with
/// some. Or that is not known: `git status` fails, or the program is no release build.
///
/// A file that is not tracked is no change: code needs a tracked file that names it. Without git,
/// every folder takes records.
pub fn refusal(folder: &Path, commit: Option<&str>) -> Option<String> {
    let whole = whole(folder);
    let is_root = |root: &&Path| root.join(".git").exists() && root.join("crates/lab").exists();
    let root = whole.ancestors().find(is_root).filter(|root| whole.starts_with(root.join(RUNS)))?;
    let mut git = Command::new("git");
    git.arg("--no-optional-locks").arg("-C").arg(root);
    git.args(["status", "--porcelain", "--untracked-files=no", "--"]);
    let output = git.args(CODE).output().ok()?;
    let is_known = output.status.success();
    let said = String::from_utf8_lossy(if is_known { &output.stdout } else { &output.stderr });
    let (what, fix) = match (said.lines().next(), commit) {
        (line, _) if !is_known => {
            (format!("git status fails: {}", line.unwrap_or_default()), "see git status")
        }
        (Some(line), _) => {
            // Two letters and a space stand before the path.
            let file = line.get(3..).unwrap_or_default();
            (format!("{file} has changes that no commit has"), "git commit --all, then build again")
        }
        (None, Some(commit)) if !commit.ends_with(AND_CHANGES) => return None,
        (None, _) => (
            "this program is of no commit".to_owned(),
            "touch crates/lab/build.rs, then build with --release",
        ),
    };
    Some(format!("{what}, so {} takes no records: {fix}; or use another --out", folder.display()))
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
        for name in ["runs/figures", "crates/lab"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        write("crates/lab/code.rs", "old");
        write("README.md", "old");
        write("runs/figures/old.json", "old");
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "all"]] {
            git(root, words);
        }
        let refused = |name: &str| refusal(&root.join(name), Some("0715b4803c18"));
        assert_eq!(refused("runs/figures"), None);
        // What a run and its table write themselves, and files of nobody.
        for name in ["runs/figures/old.json", "runs/figures/new.json", "README.md", "crates/notes"]
        {
            write(name, "new");
        }
        assert_eq!(refused("runs/figures"), None);

        write("crates/lab/code.rs", "newer");
        symlink(root.join("runs"), root.join("link")).unwrap();
        for name in ["runs", "runs/figures", "runs/new/deep", "runs/../runs/figures", "link/new"] {
            let why = refused(name).unwrap_or_else(|| panic!("{name} takes records"));
            assert!(why.contains("git commit --all, then"), "{why}");
            assert!(
                why.starts_with("crates/lab/code.rs has changes") && !why.contains('\n'),
                "{why}"
            );
        }
        for name in ["target/figures", "runs-of-mine", ".."] {
            assert_eq!(refused(name), None, "{name}");
        }
        git(root, &["commit", "-q", "--all", "-m", "all"]);
        assert_eq!(refused("runs/figures"), None);
        let built = |commit| refusal(&root.join("runs/figures"), commit).unwrap_or_default();
        assert!(built(Some("0715b4803c18 and changes")).contains("touch crates/lab/build.rs"));
        assert!(built(None).contains("--release"), "a debug build knows no commit");
        assert_eq!(refusal(&root.join("target/figures"), None), None);
        write(".git/index", "broken");
        assert!(built(Some("0715b4803c18")).starts_with("git status fails: "));
    }
}

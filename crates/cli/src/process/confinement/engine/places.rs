//! Where a Python and its packages are, and what of its environment it gets.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use burstline_sys::folder;
use burstline_sys::lent::{Loan, is_in_reach, may};
use burstline_sys::users::Account;

/// Variables that Python gets. Others may be secrets of who asks.
const KEPT: [&str; 8] = [
    "PATH",
    "LANG",
    "TZ",
    "TZDIR",
    "PYTHONHOME",
    "PYTHONTZPATH",
    "PYTZ_TZDATADIR",
    "LD_LIBRARY_PATH",
];
/// Variables with folders of packages.
const PACKAGES: &str = "PYTHONPATH";
const USER_BASE: &str = "PYTHONUSERBASE";
/// Links from one Python to another that are followed.
const LINKS_MAX: usize = 16;
/// Folders of a tree: `date=`, `hour=`, `sensor=`, and the files in them.
const TREE_DEPTH: usize = 4;

/// Files and folders that belong to a Python: without links, some of them twice.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<PathBuf>);

impl Places {
    /// Follows a Python's links and the settings of virtual environments. Packages may be in
    /// further folders, which only that Python knows.
    pub(super) fn of(python: &Path) -> Self {
        let mut places = Self::default();
        places.follow(python.to_owned());
        for path in packages().iter().chain(user_base().map(|base| base.join("lib")).iter()) {
            places.add(path);
        }
        if let Some(libraries) = env::var_os("LD_LIBRARY_PATH") {
            env::split_paths(&libraries).for_each(|path| places.add(&path));
        }
        places
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// Returns what this user has to be lent: the tree, if one is given, and places that are out of
    /// his reach.
    pub(super) fn loans(&self, tree: Option<&Path>, user: &Account) -> Vec<Loan> {
        let loan = |path: &Path, has_programs| Loan { path: path.to_owned(), has_programs };
        let is_closed = |path: &&Path| {
            let is_open = fs::metadata(path).is_ok_and(|found| may(&found, user, 5));
            !is_open || !is_in_reach(path, user).unwrap_or(false)
        };
        let places = self.paths().filter(is_closed).map(|path| loan(path, true));
        // A tree that Python is in has programs.
        let has_programs = |tree: &Path| self.paths().any(|path| path.starts_with(tree));
        let tree = tree.filter(|tree| tree.exists()).map(|tree| loan(tree, has_programs(tree)));
        places.chain(tree).collect()
    }

    fn follow(&mut self, mut python: PathBuf) {
        for _ in 0..LINKS_MAX {
            let (Some(folder), Some(name)) = (python.parent(), python.file_name()) else { return };
            let Ok(folder) = folder.canonicalize() else { return };
            let here = folder.join(name);
            self.add_installed(&folder, &here);
            match fs::read_link(&here) {
                Ok(target) => python = folder.join(target),
                Err(_) => return,
            }
        }
    }

    /// Adds what is installed beside a Python, and not all of the folder above it: that may be a
    /// home.
    fn add_installed(&mut self, folder: &Path, python: &Path) {
        let is_programs = folder.file_name() == Some(OsStr::new("bin"));
        let Some(above) = folder.parent().filter(|_| is_programs) else { return self.add(python) };
        if let Ok(settings) = fs::read_to_string(above.join("pyvenv.cfg")) {
            self.add(above);
            let home = |line: &str| {
                Some(line.strip_prefix("home")?.trim().strip_prefix('=')?.trim().to_owned())
            };
            if let Some(base) = settings.lines().find_map(home)
                && Path::new(&base) != folder
            {
                self.follow(Path::new(&base).join("python3"));
            }
        } else if has_python(&above.join("lib")) || has_python(&above.join("lib64")) {
            ["bin", "lib", "lib64"].iter().for_each(|name| self.add(&above.join(name)));
        } else {
            self.add(python);
        }
    }

    fn add(&mut self, path: &Path) {
        self.0.extend(path.canonicalize());
    }
}

fn has_python(libraries: &Path) -> bool {
    let mut names = folder::names(libraries).into_iter().flatten();
    names.any(|name| name.as_encoded_bytes().starts_with(b"python"))
}

/// Returns the folders that the user has Python look in.
fn packages() -> Vec<PathBuf> {
    let value = env::var_os(PACKAGES).unwrap_or_default();
    env::split_paths(&value).filter_map(|path| std::path::absolute(path).ok()).collect()
}

/// Returns where `pip install --user` installs.
fn user_base() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    env::var_os(USER_BASE).map(PathBuf::from).or_else(home)
}

/// Returns the environment of a Python. One that may read all files also knows whose home it has.
pub(super) fn environment(reads_all: bool, temporary: Option<&Path>) -> Vec<(OsString, OsString)> {
    let is_kept = |name: &OsStr| {
        let name = name.to_string_lossy();
        KEPT.contains(&&*name) || name.starts_with("LC_") || reads_all && name == "HOME"
    };
    let mut kept: Vec<_> = env::vars_os().filter(|(name, _)| is_kept(name)).collect();
    let mut set = |name: &str, value: &OsStr| kept.push((name.into(), value.to_owned()));
    set("PYTHONDONTWRITEBYTECODE", OsStr::new("1"));
    if let Ok(packages) = env::join_paths(packages()) {
        set(PACKAGES, &packages);
    }
    if let Some(base) = user_base() {
        set(USER_BASE, base.as_os_str());
    }
    if let Some(folder) = temporary {
        set("TMPDIR", folder.as_os_str());
        if !reads_all {
            set("HOME", folder.as_os_str());
        }
    }
    kept
}

/// Returns where a Python is, and `None` if there is none.
pub(super) fn found_in_path(python: &Path) -> Option<PathBuf> {
    let is_file = |path: &PathBuf| path.is_file();
    if python.components().count() > 1 {
        return std::path::absolute(python).ok().filter(is_file);
    }
    let value = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&value).map(|folder| folder.join(python));
    places.find(is_file).and_then(|path| std::path::absolute(path).ok())
}

/// Returns whether the modes of a tree allow this user to read it.
pub(super) fn can_read_tree(tree: &Path, user: &Account) -> bool {
    is_in_reach(tree, user).unwrap_or(false) && can_read(tree, user, TREE_DEPTH)
}

fn can_read(path: &Path, user: &Account, depth: usize) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    if !found.is_dir() || depth == 0 {
        return may(&found, user, 4);
    }
    let Some(names) = folder::names(path).ok().filter(|_| may(&found, user, 5)) else {
        return false;
    };
    // Names that begin with a dot are not whole yet.
    let mut names = names.iter().filter(|name| !name.as_encoded_bytes().starts_with(b"."));
    names.all(|name| can_read(&path.join(name), user, depth - 1))
}

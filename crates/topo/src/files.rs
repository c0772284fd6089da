//! Reads the kernel's small files below a root folder.
//!
//! A file that is missing, unreadable or malformed is `None`: unknown. Only missing files that
//! every job needs are errors, and `sys` reads those.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_sys::affinity::{CORES_MAX, CoreId, parse_cores};
use burstline_sys::folder;

/// A folder that replaces `/`.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the location of `path`, which has no leading slash.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Reads a file's text without surrounding white space.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Reads a file with a single number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Reads a file with a list of cores (or nodes), `0-3,8`; an empty file is an empty list.
    pub(crate) fn list(&self, path: &str) -> Option<Vec<CoreId>> {
        let text = self.text(path)?;
        match text.is_empty() {
            true => Some(Vec::new()),
            false => parse_cores(&text).ok(),
        }
    }

    /// Reads a file with a mask of cores: groups of 32 bits in hexadecimal, the highest first.
    pub(crate) fn mask(&self, path: &str) -> Option<Vec<CoreId>> {
        parse_mask(&self.text(path)?)
    }

    /// Returns the value of `field` in a file of `field value` lines, with or without a colon.
    pub(crate) fn field(&self, path: &str, field: &str) -> Option<String> {
        self.text(path)?.lines().find_map(|line| {
            let rest = line.trim_start().strip_prefix(field)?;
            Some(rest.trim_start().trim_start_matches(':').trim().to_owned())
        })
    }

    /// Returns the choice in brackets: `always [madvise] never`.
    pub(crate) fn choice(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
    }

    /// Returns the names in a folder, sorted; empty if it does not exist.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let names = folder::names(&self.path(path)).into_iter().flatten();
        let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns the numbers of names such as `cpu3`, ascending.
    pub(crate) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(path);
        let mut numbers: Vec<u32> =
            (names.iter()).filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Source: the kernel's lib/vsprintf.c, `%*pb`.
fn parse_mask(text: &str) -> Option<Vec<CoreId>> {
    let mut cores = Vec::new();
    for (group, digits) in text.split(',').rev().enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let first = u32::try_from(group).ok()?.checked_mul(32)?;
        let set = (0..32).filter(|bit| bits & 1 << bit != 0);
        cores.extend(set.map(|bit| CoreId(first + bit)).filter(|core| core.0 < CORES_MAX));
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_from_the_right() {
        let cores = |text| parse_mask(text).map(|cores| cores.iter().map(|core| core.0).collect());
        assert_eq!(cores("0"), Some(vec![]));
        assert_eq!(cores("3"), Some(vec![0, 1]));
        assert_eq!(cores("00000001,80000000"), Some(vec![31, 32]));
        let high = format!("80000000{}", ",00000000".repeat(33));
        assert_eq!(cores(&high), Some(vec![33 * 32 + 31]));
        assert_eq!(cores("xyz"), None::<Vec<u32>>);
        assert_eq!(cores(""), None);
    }
}

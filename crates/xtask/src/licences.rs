//! Every package used in a build has a licence that we accept.

use crate::finding::Finding;
use crate::metadata::{Metadata, Package};
use crate::spdx;

/// Licences a dependency may have, and the reason if it is not obvious.
const ALLOWED: [(&str, &str); 13] = [
    ("MIT", "ours"),
    ("Apache-2.0", "ours"),
    ("BSD-2-Clause", "permissive"),
    ("BSD-3-Clause", "permissive"),
    ("ISC", "permissive"),
    ("Zlib", "permissive"),
    ("0BSD", "permissive"),
    ("Unlicense", "public domain"),
    ("CC0-1.0", "public domain; covers tiny-keccak, which only a build for WebAssembly takes"),
    ("Unicode-3.0", "permissive; covers the character tables of unicode-ident"),
    ("MPL-2.0", "copyleft of single files; covers cbindgen, which only a test of our header uses"),
    ("Apache-2.0 WITH LLVM-exception", "permissive; covers target-lexicon, of pyo3's build"),
    ("NCSA", "permissive; covers libFuzzer, which only the fuzz harness links"),
];

/// Checks the packages of each manifest, including ours.
pub(crate) fn check(manifests: &[&Metadata]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = manifests
        .iter()
        .flat_map(|metadata| metadata.packages.iter().filter_map(|p| refusal(metadata, p)))
        .collect();
    findings.sort();
    findings.dedup(); // a package of ours that both manifests list
    findings
}

fn refusal(metadata: &Metadata, package: &Package) -> Option<Finding> {
    let licence = package.licence.as_deref().unwrap_or("");
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    let reason = match spdx::is_satisfied(licence, &is_allowed) {
        Ok(true) => return None,
        Ok(false) => format!("{} has the licence `{licence}`", package.name),
        Err(_) if licence.is_empty() => format!("{} names no licence", package.name),
        Err(error) => format!("{} has an unreadable licence ({error})", package.name),
    };
    let what = format!("{reason} (not one of the {} accepted)", ALLOWED.len());
    let mend = "do without it, or add it with a reason to crates/xtask/src/licences.rs";
    Some(Finding::new(&metadata.manifest, 1, what, mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(licences: &[Option<&str>]) -> Metadata {
        let package = |licence: &Option<&str>| Package {
            name: "p".to_owned(),
            licence: licence.map(str::to_owned),
            ..Package::default()
        };
        Metadata {
            manifest: "Cargo.toml".to_owned(),
            packages: licences.iter().map(package).collect(),
        }
    }

    #[test]
    fn accepts_what_leaves_a_choice_we_can_make() {
        let fine = metadata(&[Some("MIT/Apache-2.0"), Some("LGPL-2.1-or-later OR MIT")]);
        assert!(check(&[&fine]).is_empty());
    }

    #[test]
    fn refuses_copyleft_nothing_and_nonsense() {
        let bad = metadata(&[Some("GPL-3.0-only"), None, Some("MIT OR")]);
        let found = check(&[&bad]);
        assert_eq!(found.len(), 3);
        let expected = "`GPL-3.0-only` (not one of the 13 accepted)";
        assert!(found.iter().any(|finding| finding.what.contains(expected)));
    }
}

//! Reads coverage as `llvm-cov export` writes it, and says whether a block has run.
//!
//! For each file there is a list of places at which the count changes. A place has the count of the
//! last entry at or before it. Source: LLVM 22, `CoverageExporterJson.cpp`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::blocks::Block;

/// Counts of one run, by path from the root of the repository.
pub(super) struct Coverage(BTreeMap<String, Vec<Entry>>);

struct Entry {
    at: (usize, usize),
    /// How often the code from here on ran; none where no code is, and in gaps between statements.
    count: Option<u64>,
}

impl Coverage {
    /// Reads an export. Files outside of `root` are left out.
    pub(super) fn read(text: &str, root: &Path) -> Result<Self, String> {
        let export: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let files = export["data"][0]["files"].as_array().ok_or("an export without files")?;
        let mut counts = BTreeMap::new();
        for file in files {
            let path = Path::new(file["filename"].as_str().unwrap_or_default());
            let (Ok(path), Some(list)) = (path.strip_prefix(root), file["segments"].as_array())
            else {
                continue;
            };
            let entries = list.iter().map(entry).collect::<Option<_>>();
            let entries = entries.ok_or_else(|| format!("{}: no segment", path.display()))?;
            counts.insert(path.to_string_lossy().into_owned(), entries);
        }
        Ok(Self(counts))
    }

    /// Returns whether what comes first in the block ran. If that is not counted, as a constant is
    /// not, anything that is counted in the block will do.
    pub(super) fn has_run(&self, block: &Block) -> bool {
        let Some(entries) = self.0.get(&block.path) else { return false };
        let before = entries.partition_point(|entry| entry.at <= block.first);
        if let Some(count) = entries[..before].last().and_then(|entry| entry.count) {
            return count > 0;
        }
        let inside = entries[before..].iter().take_while(|entry| entry.at < block.end);
        inside.filter_map(|entry| entry.count).any(|count| count > 0)
    }
}

/// Reads `[line, column, count, has a count, begins a region, is a gap]`.
fn entry(segment: &Value) -> Option<Entry> {
    let number = |index: usize| segment[index].as_u64();
    let at = (number(0)? as usize, number(1)? as usize);
    let is_counted = segment[3].as_bool()? && !segment[5].as_bool()?;
    Some(Entry { at, count: is_counted.then_some(number(2)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_run(segments: &str, first: (usize, usize), end: (usize, usize)) -> bool {
        let file = format!(r#"{{"filename":"/r/crates/log/src/a.rs","segments":[{segments}]}}"#);
        let text = format!(r#"{{"data":[{{"files":[{file}]}}]}}"#);
        let coverage = Coverage::read(&text, Path::new("/r")).unwrap();
        let path = "crates/log/src/a.rs".to_owned();
        let block = |path| Block { path, line: 1, function: String::new(), first, end };
        assert!(!coverage.has_run(&block("crates/log/src/b.rs".to_owned())));
        coverage.has_run(&block(path))
    }

    #[test]
    fn a_place_has_the_count_of_the_last_entry_before_it() {
        let segments = "[1,1,3,true,true,false],[5,9,0,true,true,false],[6,2,0,false,false,false]";
        assert!(has_run(segments, (5, 8), (5, 20)));
        assert!(!has_run(segments, (5, 9), (5, 20)));
        assert!(!has_run(segments, (7, 1), (7, 9)));
    }

    #[test]
    fn what_is_not_counted_ran_with_the_rest_of_its_block() {
        let gap = "[1,1,0,true,true,true],[2,4,COUNT,true,true,false]";
        assert!(has_run(&gap.replace("COUNT", "7"), (1, 5), (3, 1)));
        assert!(!has_run(&gap.replace("COUNT", "0"), (1, 5), (3, 1)));
        assert!(!has_run(&gap.replace("COUNT", "7"), (1, 5), (2, 4)));
    }

    #[test]
    fn a_text_that_is_no_export_is_an_error() {
        for text in ["", "{}", r#"{"data":[{"files":[{"filename":"/r/a","segments":[[1]]}]}]}"#] {
            assert!(Coverage::read(text, Path::new("/r")).is_err(), "{text}");
        }
    }
}

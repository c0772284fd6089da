//! The sources of a record, and whether they have changed since.

use std::collections::BTreeMap;

use super::Record;
use crate::figures::sources_of;

/// What [`Record::mark`] means, below what has one.
pub const OLD_MEANS: &str = "†: the code that it measures has changed since.";

/// Returns the hashes of these folders and files of the repository when this program was compiled.
pub fn program_sources(folders: &[&str]) -> BTreeMap<String, String> {
    let known = env!("BURSTLINE_SOURCES").split(',').filter_map(|word| word.split_once(' '));
    let own = known.filter(|(folder, _)| folders.contains(folder));
    own.map(|(folder, number)| (folder.to_owned(), number.to_owned())).collect()
}

impl Record {
    /// Returns whether it is older than the code that it measures, which is that of this program. A
    /// record that does not name its sources counts as older.
    pub fn is_old(&self) -> bool {
        let needed: Vec<&str> = match self.comparison {
            Some(_) => sources_of(&self.scenario),
            None => self.sources.keys().map(String::as_str).collect(),
        };
        self.sources.is_empty() || program_sources(&needed) != self.sources
    }

    /// Returns the mark behind the name or value of an old record; empty for others.
    pub fn mark(&self) -> &'static str {
        if self.is_old() { " †" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Comparison;
    use crate::sources::FOLDERS;

    #[test]
    fn a_record_is_old_if_its_sources_are_others_or_unknown() {
        let new = Record { sources: program_sources(&FOLDERS), ..Record::default() };
        assert_eq!((new.sources.len(), new.mark()), (FOLDERS.len(), ""));
        for (folder, number) in [("crates/log/src", "0"), ("crates/gone/src", "1")] {
            let mut other = new.clone();
            other.sources.insert(folder.to_owned(), number.to_owned());
            assert_eq!(other.mark(), " †", "{folder}");
        }
        assert!(Record::default().is_old(), "it does not say");
    }

    #[test]
    fn a_figure_has_all_sources_that_it_depends_on() {
        let mut figure = Record {
            scenario: "handoff-60".to_owned(),
            comparison: Some(Comparison::default()),
            sources: program_sources(&sources_of("handoff-60")),
            ..Record::default()
        };
        assert!(!figure.is_old());
        figure.sources.remove("crates/log/src");
        assert!(figure.is_old());
    }
}

//! The sources of a record, and whether they have changed since.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Record;
use crate::figures::{sources_of, sources_of_work};
use crate::scenario::{Work, built_in};

/// What [`Record::mark`] means, below what has one.
pub const OLD_MEANS: &str = "†: the code that it measures has changed since.";

/// The works of the built-in scenarios.
static WORKS: LazyLock<BTreeMap<String, Work>> =
    LazyLock::new(|| built_in().into_iter().map(|own| (own.name, own.work)).collect());

/// Returns the hashes of these folders and files of the repository when this program was compiled,
/// of those that could be read.
pub fn program_sources(folders: &[&str]) -> BTreeMap<String, String> {
    let known = env!("BURSTLINE_SOURCES").split(',').filter_map(|word| word.split_once(' '));
    let own = known.filter(|(folder, _)| folders.contains(folder));
    own.map(|(folder, number)| (folder.to_owned(), number.to_owned())).collect()
}

impl Record {
    /// Returns whether it is older than the code that it measures, which is that of this program. A
    /// record that does not name its sources counts as older, as do all if the program does not
    /// know its own.
    pub fn is_old(&self) -> bool {
        let needed: Vec<&str> = match (&self.comparison, WORKS.get(&self.scenario)) {
            (Some(_), _) => sources_of(&self.scenario),
            (None, Some(work)) => sources_of_work(*work),
            // A user's own scenario.
            (None, None) => self.sources.keys().map(String::as_str).collect(),
        };
        let present = program_sources(&needed);
        let is_known = needed.iter().all(|own| present.contains_key(*own));
        self.sources.is_empty() || !is_known || present != self.sources
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
        for (folder, number) in [("crates/log", "0"), ("crates/gone", "1")] {
            let mut other = new.clone();
            other.sources.insert(folder.to_owned(), number.to_owned());
            assert_eq!(other.mark(), " †", "{folder}");
        }
        assert!(Record::default().is_old(), "it does not say");
    }

    #[test]
    fn a_figure_and_a_scenario_have_all_sources_that_they_depend_on() {
        for (name, comparison, needed) in [
            ("handoff-60", Some(Comparison::default()), sources_of("handoff-60")),
            ("numa-rtc", None, sources_of_work(Work::Count)),
        ] {
            let scenario = name.to_owned();
            let sources = program_sources(&needed);
            let mut record = Record { scenario, comparison, sources, ..Record::default() };
            assert!(!record.is_old(), "{name}");
            record.sources.remove("crates/log");
            assert!(record.is_old(), "{name}");
        }
    }
}

//! Notes, findings and faults that `burstline explain` knows, beside the tables of losses and of
//! doubts.
//!
//! A note is a sentence with numbers in it, so parts of it that never change identify it. A test
//! looks for each part in the sources, and for a row for each note that the sources can say.

mod files;
mod findings;
mod live;
mod places;
mod records;

pub(super) use records::{LOST_RECORDS, WITHOUT_FLOW};

/// A note of a report, a finding of the doctor, or a fault of an outcome.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// What a note always has in it, one of these; empty for what has a name of its own.
    pub(super) parts: &'static [&'static str],
    pub(super) means: &'static str,
    /// How to see it for oneself.
    pub(super) see: &'static str,
    pub(super) remedy: &'static str,
}

const fn note(
    name: &'static str,
    parts: &'static [&'static str],
    means: &'static str,
    see: &'static str,
    remedy: &'static str,
) -> Known {
    Known { name, parts, means, see, remedy }
}

const fn finding(
    name: &'static str,
    means: &'static str,
    see: &'static str,
    remedy: &'static str,
) -> Known {
    note(name, &[], means, see, remedy)
}

const fn fault(name: &'static str, means: &'static str, remedy: &'static str) -> Known {
    note(name, &[], means, "the exit code is 1, and outcome.faults of --json has its name", remedy)
}

/// What reports have under `notes`, `placement.notes` and `memory.notes`.
pub(super) fn notes() -> impl Iterator<Item = &'static Known> {
    live::LIVE.iter().chain(files::FILES).chain(places::PLACES)
}

/// The note that a text is, if it is one: the one with the longest part.
pub(super) fn of_text(text: &str) -> Option<&'static Known> {
    let longest = |known: &Known| {
        let parts = known.parts.iter().filter(|part| has_part(text, part));
        parts.map(|part| part.len()).max()
    };
    let found = notes().filter_map(|known| Some((longest(known)?, known)));
    found.max_by_key(|(length, _)| *length).map(|(_, known)| known)
}

/// Whether a text has a part. What is in braces there is a number or a name here.
fn has_part(text: &str, part: &str) -> bool {
    let fixed = part.split(['{', '}']).step_by(2).filter(|fixed| fixed.len() > 1);
    let mut rest = text;
    let mut letters = 0;
    for fixed in fixed {
        let Some(at) = rest.find(fixed) else { return false };
        rest = &rest[at + fixed.len()..];
        letters += fixed.chars().filter(char::is_ascii_alphabetic).count();
    }
    // So little is in any text.
    letters >= SPEAKING
}

/// The fewest letters of a part that identifies a text.
const SPEAKING: usize = 6;

/// What `burstline doctor` looks at.
pub(super) fn findings() -> impl Iterator<Item = &'static Known> {
    findings::FINDINGS.iter()
}

/// What `outcome.faults` has, where a job fails.
pub(super) const FAULTS: [Known; 8] = [
    fault("error", "A part of the job ended early", "The errors of the report say why"),
    fault(
        "damaged",
        "Some input could not be understood",
        "burstline check FILE says where; burstline recover FILE saves the rest",
    ),
    fault(
        "unaccounted",
        "The ledger does not close: packets are missing, and no counter says why",
        "Please report it, with the whole report",
    ),
    fault(
        "all_lost",
        "Packets were lost, and none was delivered",
        "burstline explain NAME for each cause in the ledger",
    ),
    fault(
        "all_records_lost",
        "Flow records were made, and each sink lost all of them",
        "burstline explain NAME for each name in the lines `lost` of the report",
    ),
    fault(
        "loss",
        "Packets were lost, and --fail-on-loss or --lossless allows none",
        "burstline explain NAME for each cause in the ledger",
    ),
    fault(
        "not_expected",
        "The number of packets delivered differs from --expect",
        "Compare the sender's count; the ledger has what was lost here",
    ),
    fault(
        "not_verified",
        "--verify found packets lost, doubled, reordered or changed",
        "The line `verify` of the report has the counts of each",
    ),
];

//! Notes, findings and faults for `burstline explain`, besides the tables of losses and doubts.
//!
//! A note is a sentence with numbers in it, so its constant parts identify it. A test checks that
//! each part occurs in the sources, and that every note in the sources has a row.

mod files;
mod findings;
mod live;
mod places;
mod records;

pub(super) use records::{LOST_RECORDS, WITHOUT_FLOW};

/// A note of a report, a finding of the doctor, or a fault of an outcome.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// Constant parts of a note's text, any of which identifies it; empty if it has its own name.
    pub(super) parts: &'static [&'static str],
    pub(super) means: &'static str,
    /// How users can see it themselves.
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

/// Returns the notes that reports have under `notes`, `placement.notes` and `memory.notes`.
pub(super) fn notes() -> impl Iterator<Item = &'static Known> {
    live::LIVE.iter().chain(files::FILES).chain(places::PLACES)
}

/// Returns the note with this text: the one with the longest matching part.
pub(super) fn of_text(text: &str) -> Option<&'static Known> {
    let longest = |known: &Known| {
        let parts = known.parts.iter().filter(|part| has_part(text, part));
        parts.map(|part| part.len()).max()
    };
    let found = notes().filter_map(|known| Some((longest(known)?, known)));
    found.max_by_key(|(length, _)| *length).map(|(_, known)| known)
}

/// Returns whether a text contains a part. Braces stand for a number or a name.
fn has_part(text: &str, part: &str) -> bool {
    let fixed = part.split(['{', '}']).step_by(2).filter(|fixed| fixed.len() > 1);
    let mut rest = text;
    let mut letters = 0;
    for fixed in fixed {
        let Some(at) = rest.find(fixed) else { return false };
        rest = &rest[at + fixed.len()..];
        letters += fixed.chars().filter(char::is_ascii_alphabetic).count();
    }
    // A shorter part would match any text.
    letters >= SPEAKING
}

/// Minimum number of letters in a part that identifies a text.
const SPEAKING: usize = 6;

/// Returns the findings of `burstline doctor`.
pub(super) fn findings() -> impl Iterator<Item = &'static Known> {
    findings::FINDINGS.iter()
}

/// Values of `outcome.faults` when a job fails.
pub(super) const FAULTS: [Known; 8] = [
    fault("error", "A part of the job ended early", "The errors of the report say why"),
    fault(
        "damaged",
        "Some input could not be parsed",
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
        "--verify found packets lost, duplicated, reordered or changed",
        "The line `verify` of the report has the counts of each",
    ),
];

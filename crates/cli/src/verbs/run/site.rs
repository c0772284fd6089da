//! The file of a service: read as a whole, with every fault in it.
//!
//! ```text
//!   text ──toml──► tables with places ──[`draft`]──► words of each job ──clap──► a verb
//!                                                                    └──[`judge`]──► faults
//! ```
//!
//! There is one definition of each key: clap's of the flag. A job's keys become the words that
//! somebody would type, and the parser of the command line judges them.

mod draft;
mod judge;

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use burstline_port::Address;
use burstline_sys::inode;
use burstline_wire::grammar::place_of;
use toml::de::DeTable;

use super::policy::Policy;
use crate::args::Cli;

/// A file with no more bytes than this is read.
const BYTES_MAX: u64 = 1 << 20;
/// More faults than these are not said.
const FAULTS_MAX: usize = 100;

/// What has `capture` leave a recording as it is, and go on in the next file.
const RESUME: &str = "--resume";

/// What a file says.
#[derive(Debug)]
pub(super) struct Site {
    /// In the order of the file.
    pub(super) jobs: Vec<Job>,
}

/// One job of a file.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// The verb, its flags, and what stands without a flag.
    pub(super) words: Vec<String>,
    pub(super) policy: Policy,
    /// The ports that have to be there before it begins.
    pub(super) needs: Vec<Address>,
    /// Those of them that are logs of other jobs of the file, by name.
    pub(super) siblings: Vec<String>,
    /// What no other job may have while this one runs: `an output file x.pcapng`.
    pub(super) claims: Vec<String>,
    /// Whether a start after the first would write over what the one before has recorded.
    pub(super) overwrites: bool,
}

impl Job {
    /// Whether it is the same process for both: a policy is the service's.
    pub(super) fn runs_as(&self, other: &Self) -> bool {
        self.words == other.words
    }

    /// What is not there that it waits for.
    pub(super) fn awaited(&self, waits_for_ports: bool) -> Option<String> {
        let is_awaited = |port: &&Address| {
            let is_sibling = port.log_name().is_some_and(|name| self.has_sibling(name));
            waits_for_ports || is_sibling
        };
        self.needs.iter().filter(is_awaited).find_map(Address::absent)
    }

    fn has_sibling(&self, log: &str) -> bool {
        self.siblings.iter().any(|sibling| sibling == log)
    }

    /// What both claim, if there is such a thing.
    pub(super) fn common_claim(&self, other: &Self) -> Option<&str> {
        self.claims.iter().find(|claim| other.claims.contains(claim)).map(String::as_str)
    }

    /// The words of a start, the first or a later one: a recording that is there stays.
    pub(super) fn words_of(&self, is_first: bool) -> Vec<String> {
        let mut words = self.words.clone();
        if self.overwrites && !is_first {
            words.insert(1, RESUME.to_owned());
        }
        words
    }

    /// What somebody would type.
    pub(super) fn command_text(&self, is_first: bool) -> String {
        let words = self.words_of(is_first);
        let quoted = words.iter().map(|word| {
            let is_plain =
                |letter: char| letter.is_ascii_alphanumeric() || "-_=./:,@+%{}".contains(letter);
            match !word.is_empty() && word.chars().all(is_plain) {
                true => word.clone(),
                false => format!("'{}'", word.replace('\'', "'\\''")),
            }
        });
        format!("burstline {}", quoted.collect::<Vec<_>>().join(" "))
    }
}

/// What is wrong at a place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: usize,
    column: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// The faults of a text.
struct Faults<'t> {
    text: &'t str,
    found: Vec<Fault>,
}

impl Faults<'_> {
    fn add(&mut self, at: &Range<usize>, what: impl Into<String>) {
        if self.found.len() >= FAULTS_MAX {
            return;
        }
        let (line, column) = place_of(self.text, at.start);
        self.found.push(Fault { line, column, what: what.into() });
    }

    fn in_order(mut self) -> Vec<Fault> {
        self.found.sort_by_key(|fault| (fault.line, fault.column));
        self.found
    }
}

impl Site {
    /// Reads a file and judges it.
    pub(super) fn read(path: &Path) -> Result<Self, Vec<Fault>> {
        let nowhere = |what: String| vec![Fault { line: 1, column: 1, what }];
        let bytes = bytes_of(path).map_err(|error| nowhere(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(nowhere(format!("more than {BYTES_MAX} bytes: no more are read")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
            let (line, column) = place_of(&before, at);
            vec![Fault { line, column, what: "a byte is not UTF-8, as TOML has to be".to_owned() }]
        })?;
        Self::parse(&text)
    }

    /// Judges a text.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults { text, found: Vec::new() };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            faults.add(&error.span().unwrap_or(0..0), words);
        }
        // What stands behind a mistake of the form may not be what was meant.
        if !errors.is_empty() {
            return Err(faults.in_order());
        }
        let mut program = Cli::whole();
        program.build();
        let drafts = draft::read(root.get_ref(), &program, &mut faults);
        let jobs = judge::jobs(&drafts, &mut faults);
        if faults.found.is_empty() { Ok(Self { jobs }) } else { Err(faults.in_order()) }
    }
}

/// The bytes of a regular file, at most one beyond [`BYTES_MAX`]: a FIFO would hold up the service.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    inode::open_regular(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;

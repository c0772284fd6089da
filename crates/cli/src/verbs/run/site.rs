//! Reads the site file of a service and reports all its faults.
//!
//! ```text
//!   text ──toml──► tables with places ──[`draft`]──► arguments of each job ──clap──► a verb
//!                                                                         └──[`judge`]──► faults
//! ```
//!
//! Each key is defined once, by clap's definition of the flag. A job's keys become command line
//! arguments, which the command line's parser checks.

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

/// Maximum size of a file.
const BYTES_MAX: u64 = 1 << 20;
/// Maximum number of faults reported.
const FAULTS_MAX: usize = 100;

/// Makes `capture` keep the existing recording and continue in the next file.
const RESUME: &str = "--resume";

/// The content of a file.
#[derive(Debug)]
pub(super) struct Site {
    /// In the order of the file.
    pub(super) jobs: Vec<Job>,
}

/// One job of a file.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// The verb, its flags and its positional arguments.
    pub(super) words: Vec<String>,
    pub(super) policy: Policy,
    /// Ports that must exist before it starts.
    pub(super) needs: Vec<Address>,
    /// Names of the needed ports that are logs of other jobs in the file.
    pub(super) siblings: Vec<String>,
    /// Resources that no other job may use while this one runs: `an output file x.pcapng`.
    pub(super) claims: Vec<String>,
    /// Whether a restart would overwrite the previous recording.
    pub(super) overwrites: bool,
}

impl Job {
    /// Returns whether both have the same process. Policies may differ: the service applies them.
    pub(super) fn runs_as(&self, other: &Self) -> bool {
        self.words == other.words
    }

    /// Returns what the job waits for, if something is missing.
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

    /// Returns a resource that both jobs claim, if there is one.
    pub(super) fn common_claim(&self, other: &Self) -> Option<&str> {
        self.claims.iter().find(|claim| other.claims.contains(claim)).map(String::as_str)
    }

    /// Returns the arguments of the first or a later start; later ones keep an existing recording.
    pub(super) fn words_of(&self, is_first: bool) -> Vec<String> {
        let mut words = self.words.clone();
        if self.overwrites && !is_first {
            words.insert(1, RESUME.to_owned());
        }
        words
    }

    /// Returns the command as a user would type it.
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

/// A fault at a position in a file.
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

/// The faults found in a text.
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
    /// Reads and checks a file.
    pub(super) fn read(path: &Path) -> Result<Self, Vec<Fault>> {
        let nowhere = |what: String| vec![Fault { line: 1, column: 1, what }];
        let bytes = bytes_of(path).map_err(|error| nowhere(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(nowhere(format!("longer than {BYTES_MAX} bytes, which is the maximum")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
            let (line, column) = place_of(&before, at);
            vec![Fault { line, column, what: "not UTF-8, which TOML requires".to_owned() }]
        })?;
        Self::parse(&text)
    }

    /// Checks a text.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults { text, found: Vec::new() };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            faults.add(&error.span().unwrap_or(0..0), words);
        }
        // Keys after a syntax error may be misread.
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

/// Reads a regular file, at most one byte beyond [`BYTES_MAX`]: a FIFO would block the service.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    inode::open_regular(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;

//! Failures of the program: one line of text and an exit code.

use std::io::Write;
use std::process::ExitCode;

use burstline_engine::{EngineError, PlaceError};
use burstline_log::CreateError;
use burstline_port::{AddressError, PortError, did_you_mean};
use burstline_share::ShareError;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::foreign::one_line;

/// The job failed, its input was damaged, or its ledger does not close.
pub(crate) const FAILED: u8 = 1;
/// The command line is invalid.
const USAGE: u8 = 2;

/// Why a verb could not do its job.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Returns a failure of the job, described in one line.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED }
    }

    /// Returns an error in the command line, described in one line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// Returns whether the command line is at fault, not the machine.
    pub(crate) fn is_usage(&self) -> bool {
        self.code == USAGE
    }

    /// Prints the failure. Nothing is printed if the reader of standard output has closed it.
    pub(crate) fn print(self) -> ExitCode {
        if !self.message.is_empty() {
            complain(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let is_usage = match &error {
            EngineError::Port(PortError::Filter { problem, .. }) => problem.is_about_expression(),
            EngineError::Port(PortError::Log { error, .. }) | EngineError::Share(error) => {
                matches!(error, ShareError::Name { .. } | ShareError::PathTooLong { .. })
            }
            EngineError::Port(PortError::Address(error)) => !error.is_about_machine(),
            EngineError::Port(error) => matches!(
                error,
                PortError::CannotReceive { .. }
                    | PortError::CannotTransmit { .. }
                    | PortError::SameFile { .. }
            ),
            EngineError::Place(error) => !matches!(error, PlaceError::Machine(_)),
            EngineError::TooFewCores { .. } => true,
            EngineError::Log(error) => !matches!(error, CreateError::Memory(_)),
            _ => false,
        };
        Self { message: error.to_string(), code: if is_usage { USAGE } else { FAILED } }
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        let code = if error.is_about_machine() { FAILED } else { USAGE };
        Self { message: error.to_string(), code }
    }
}

/// An error while writing to standard output: the reader has closed it, which is not reported, or
/// the disk is full.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(""),
            _ => Self::new(format!("write to standard output: {error}")),
        }
    }
}

/// Prints one line on standard error in a single write, so that output of C libraries cannot split
/// it. A closed standard error is ignored.
pub(crate) fn complain(message: &str) {
    let line = message.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
    let line = format!("burstline: {}\n", one_line(&line));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Reports a ledger with unaccounted packets, which is a bug in the program.
pub(crate) fn complain_of_ledger(unaccounted: i64) {
    complain(&format!(
        "THE LEDGER DOES NOT CLOSE: {unaccounted} packets unaccounted for; please report this"
    ));
}

/// Exits after clap printed help or rejected the command line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let is_wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_wanted {
        // A reader that closes the output early is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(USAGE);
    }
    complain(&format!("{}; see burstline --help", usage_text(error)));
    ExitCode::from(USAGE)
}

/// Returns what is wrong with a command line, and what was probably meant.
pub(crate) fn usage_text(error: &clap::Error) -> String {
    let text = error.to_string();
    // clap's first paragraph has the error and the allowed values; the others repeat the usage.
    let first = text.split("\n\n").next().unwrap_or(&text);
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{words}{}", near(error))
}

/// ` (did you mean WORD?)`, or an empty text if no verb, flag or value is similar.
fn near(error: &clap::Error) -> String {
    let (value, known) = (ContextKind::InvalidValue, ContextKind::ValidValue);
    if let (Some(ContextValue::String(value)), Some(ContextValue::Strings(known))) =
        (error.get(value), error.get(known))
    {
        return did_you_mean(value, known.iter().map(String::as_str));
    }
    // clap knows the similar verbs and flags, but does not print them.
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    let word = match kinds.into_iter().find_map(|kind| error.get(kind)) {
        Some(ContextValue::String(word)) => Some(word),
        // The most similar one comes last.
        Some(ContextValue::Strings(words)) => words.last(),
        _ => None,
    };
    word.map_or_else(String::new, |word| format!(" (did you mean {word}?)"))
}

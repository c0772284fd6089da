//! How the program fails: one line, and a code that says whose fault it was.

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
/// The command line makes no sense.
const USAGE: u8 = 2;

/// Why a verb could not do its job.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure of the job, in one line.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED }
    }

    /// A command line that makes no sense, in one line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// Whether it is the words that make no sense, not the machine that refuses.
    pub(crate) fn is_usage(&self) -> bool {
        self.code == USAGE
    }

    /// Tells the user. An output that was closed on purpose is not worth a line.
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

/// Standard output could not be written: the reader has gone, which is no news to the user, or
/// the disk is full.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(""),
            _ => Self::new(format!("write to standard output: {error}")),
        }
    }
}

/// Prints one line on standard error, by one write: libraries of C write there, too, and would get
/// in between. If even that is closed, nobody wants to know.
pub(crate) fn complain(message: &str) {
    let line = message.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
    let line = format!("burstline: {}\n", one_line(&line));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Says that the sum of a ledger leaves packets unexplained, which is a fault of the program.
pub(crate) fn complain_of_ledger(unaccounted: i64) {
    complain(&format!(
        "THE LEDGER DOES NOT CLOSE: {unaccounted} packets unaccounted for; please report this"
    ));
}

/// Ends a run whose command line was not understood, or asked for help.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let is_wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_wanted {
        // Help that nobody reads to its end is still help.
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

/// What is wrong with a command line, and what was probably meant.
pub(crate) fn usage_text(error: &clap::Error) -> String {
    let text = error.to_string();
    // clap's first paragraph says what is wrong and what is allowed; the others repeat the usage.
    let first = text.split("\n\n").next().unwrap_or(&text);
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{words}{}", near(error))
}

/// ` (did you mean WORD?)`, or nothing where no verb, flag or value is near.
fn near(error: &clap::Error) -> String {
    let (value, known) = (ContextKind::InvalidValue, ContextKind::ValidValue);
    if let (Some(ContextValue::String(value)), Some(ContextValue::Strings(known))) =
        (error.get(value), error.get(known))
    {
        return did_you_mean(value, known.iter().map(String::as_str));
    }
    // clap knows the verbs and flags that there are, and does not say.
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    let word = match kinds.into_iter().find_map(|kind| error.get(kind)) {
        Some(ContextValue::String(word)) => Some(word),
        // The nearest comes last.
        Some(ContextValue::Strings(words)) => words.last(),
        _ => None,
    };
    word.map_or_else(String::new, |word| format!(" (did you mean {word}?)"))
}

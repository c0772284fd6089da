//! Errors: which class of Python's an error of ours is. The classes are in `burstline/_errors.py`.

use std::io;

use burstline_port::{AddressError, PortError};
use burstline_share::ShareError;
use pyo3::PyErr;
use pyo3::exceptions::{PyBufferError, PyValueError};

pyo3::import_exception!(burstline._errors, AbsentError);
pyo3::import_exception!(burstline._errors, BusyError);
pyo3::import_exception!(burstline._errors, ClosedError);
pyo3::import_exception!(burstline._errors, Error);
pyo3::import_exception!(burstline._errors, ForkedError);
pyo3::import_exception!(burstline._errors, RefusedError);
pyo3::import_exception!(burstline._errors, ReleasedError);

/// What can go wrong below Python.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A source or a sink says no.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A published name says no.
    #[error("{error}{near}")]
    Share {
        /// Why.
        error: ShareError,
        /// What else it may be that was meant, or nothing.
        near: String,
    },
    /// A word stands for two things.
    #[error("'{word}' is a published log and exists as {other}, too: write log:{word} or {other}")]
    Ambiguous {
        /// What was typed.
        word: String,
        /// What else it is, with its scheme.
        other: String,
    },
    /// A private log could not be made.
    #[error(transparent)]
    Memory(#[from] burstline_log::CreateError),
    /// The same for a reader.
    #[error(transparent)]
    Attach(#[from] burstline_log::AttachError),
    /// Packets of a source of ours wait for nobody.
    #[error(
        "verdicts are given on the log of `burstline bounce A B --inline NAME`: {source_name} is \
         no published log"
    )]
    NoVerdicts {
        /// What was to be opened.
        source_name: String,
    },
    /// An entry of the column is not a verdict.
    #[error(
        "verdicts[{index}] is {entry}: it must be PASS, DROP, REJECT or PASS_FLOW; the packet got \
         none, and the others theirs"
    )]
    Verdict {
        /// Of which packet.
        index: usize,
        /// What was written.
        entry: u8,
    },
    /// Views keep all that may be held.
    #[error(
        "{held} bursts are held by views, and no more fit the window of {window}: copy what you \
         keep (array.copy(), bytes(packet)), or del the views"
    )]
    WindowFull {
        /// Bursts that the program still holds.
        held: usize,
        /// The most segments, or copies, that may be held.
        window: usize,
    },
}

impl From<ShareError> for Fault {
    fn from(error: ShareError) -> Self {
        Self::Share { error, near: String::new() }
    }
}

impl From<AddressError> for Fault {
    fn from(error: AddressError) -> Self {
        Self::Port(error.into())
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        let text = fault.to_string();
        match &fault {
            Fault::Port(error) => of_port(error, text),
            Fault::Share { error, .. } => of_share(error, text),
            Fault::Ambiguous { .. } | Fault::NoVerdicts { .. } | Fault::Verdict { .. } => {
                PyValueError::new_err(text)
            }
            Fault::WindowFull { .. } => PyBufferError::new_err(text),
            Fault::Memory(_) | Fault::Attach(_) => Error::new_err(text),
        }
    }
}

fn of_port(error: &PortError, text: String) -> PyErr {
    match error {
        PortError::Address(error) if error.is_about_machine() => AbsentError::new_err(text),
        PortError::Address(_) | PortError::CannotReceive { .. } => PyValueError::new_err(text),
        PortError::Filter { problem, .. } if problem.is_about_expression() => {
            PyValueError::new_err(text)
        }
        PortError::Io { error, .. } => match error.kind() {
            io::ErrorKind::NotFound => AbsentError::new_err(text),
            io::ErrorKind::PermissionDenied => RefusedError::new_err(text),
            _ => Error::new_err(text),
        },
        PortError::WouldSteal { .. } => RefusedError::new_err(text),
        PortError::Log { error, .. } => of_share(error, text),
        _ => Error::new_err(text),
    }
}

fn of_share(error: &ShareError, text: String) -> PyErr {
    match error {
        ShareError::Name { .. } | ShareError::PathTooLong { .. } => PyValueError::new_err(text),
        ShareError::Absent { .. } => AbsentError::new_err(text),
        ShareError::NotAllowed { .. }
        | ShareError::NotTrusted { .. }
        | ShareError::Refused { .. }
        | ShareError::Taken { .. } => RefusedError::new_err(text),
        _ => Error::new_err(text),
    }
}

//! Maps errors to Python exception classes, which are in `burstline/_errors.py`.

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

/// An error below the Python layer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// An error of a source or a sink.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An error of a published name.
    #[error("{error}{near}")]
    Share {
        /// The error.
        error: ShareError,
        /// A suggestion of similar names, or empty.
        near: String,
    },
    /// A word is ambiguous.
    #[error("'{word}' is a published log and exists as {other}, too: write log:{word} or {other}")]
    Ambiguous {
        /// The word.
        word: String,
        /// Its other meaning, with a scheme.
        other: String,
    },
    /// A private log could not be created.
    #[error(transparent)]
    Memory(#[from] burstline_log::CreateError),
    /// A reader could not be attached to it.
    #[error(transparent)]
    Attach(#[from] burstline_log::AttachError),
    /// Packets of this source do not wait for verdicts.
    #[error(
        "verdicts are given on the log of `burstline bounce A B --inline NAME`: {source_name} is \
         not a published log"
    )]
    NoVerdicts {
        /// The name of the source.
        source_name: String,
    },
    /// An entry of the verdicts is invalid.
    #[error(
        "verdicts[{index}] is {entry}: it must be PASS, DROP, REJECT or PASS_FLOW; this packet \
         got no verdict, the others did"
    )]
    Verdict {
        /// The index of the packet.
        index: usize,
        /// The value of the entry.
        entry: u8,
    },
    /// Views hold the whole window.
    #[error(
        "{held} bursts are held by views, which fill the window of {window}: copy what you keep \
         (array.copy(), bytes(packet)), or del the views"
    )]
    WindowFull {
        /// Number of bursts held.
        held: usize,
        /// Maximum number of segments, or copies, held.
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

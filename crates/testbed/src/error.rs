//! Why a test bed is not available.

use std::io;

/// Why a host or a bed could not be made, or a program could not run on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BedError {
    /// The process may not make network namespaces.
    #[error(
        "a network namespace needs root, or a user namespace: run it again under `unshare -Urn`"
    )]
    NotPermitted,
    /// The kernel refused for another reason.
    #[error("network namespace: {0}")]
    Namespace(io::Error),
    /// A program is not installed.
    #[error("{program} is not installed: sudo apt-get install {package}")]
    Missing {
        /// The program.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program could not be started.
    #[error("{program}: {error}")]
    NotStarted {
        /// The program.
        program: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// A program failed.
    #[error("{command}: {status}: {message}")]
    Failed {
        /// The whole command.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote to its standard error.
        message: String,
    },
}

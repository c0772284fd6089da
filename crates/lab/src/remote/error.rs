//! Errors of a remote generator.

use std::io;

/// An error of a generator on another machine.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// ssh cannot be started.
    #[error("start ssh: {0}; Debian: apt-get install openssh-client")]
    NotStarted(io::Error),
    /// An interface does not exist on this machine.
    #[error("no interface {name:?} here: set {key}= to this machine's end of the cable")]
    NoInterface {
        /// The interface name.
        name: String,
        /// The key that named it.
        key: &'static str,
    },
    /// ssh cannot connect.
    #[error("{host}: {said}")]
    Unreachable {
        /// The host.
        host: String,
        /// ssh's message.
        said: String,
    },
    /// The program does not exist there.
    #[error("{host}: no program {program:?} there: {said}; set program=PATH")]
    NoProgram {
        /// The host.
        host: String,
        /// The program name.
        program: String,
        /// The message of the shell there.
        said: String,
    },
    /// The program ended before it identified itself.
    #[error("{host}: {program:?} is not burstline {ours}: it exited with code {code}: {said}")]
    Stranger {
        /// The host.
        host: String,
        /// The program name.
        program: String,
        /// Its exit code.
        code: i32,
        /// Its last line.
        said: String,
        /// This program's version.
        ours: &'static str,
    },
    /// The program has another version.
    #[error("{host}: burstline {theirs} there, {ours} here: install the same on both")]
    OtherVersion {
        /// The host.
        host: String,
        /// The version there.
        theirs: String,
        /// The version of this program.
        ours: &'static str,
    },
    /// No reply arrived in time.
    #[error("{host}: no answer for {seconds} s, see silence=")]
    Silent {
        /// The host.
        host: String,
        /// The duration of the silence.
        seconds: f64,
    },
    /// The connection to the generator was lost.
    #[error("{host}: the generator is gone: {how}")]
    Gone {
        /// The host.
        host: String,
        /// How ssh ended, and its output.
        how: String,
    },
    /// The generator could not do the request.
    #[error("{host}: {why}")]
    Failed {
        /// The host.
        host: String,
        /// Its message.
        why: String,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Stopped,
}

//! Why there is no generator.

use std::io;

/// What went wrong with a generator on another machine.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// There is no ssh.
    #[error("start ssh: {0}; Debian: apt-get install openssh-client")]
    NotStarted(io::Error),
    /// An interface that there is not here.
    #[error("no interface {name:?} here: say {key}=, this machine's end of the cable")]
    NoInterface {
        /// As it was named.
        name: String,
        /// By which key.
        key: &'static str,
    },
    /// ssh got nowhere.
    #[error("{host}: {said}")]
    Unreachable {
        /// Which machine.
        host: String,
        /// What ssh says.
        said: String,
    },
    /// There is no such program.
    #[error("{host}: no program {program:?} there: {said}; or name it: program=PATH")]
    NoProgram {
        /// Which machine.
        host: String,
        /// As it was named.
        program: String,
        /// What the shell there says.
        said: String,
    },
    /// It ended before it said who it is.
    #[error(
        "{host}: {program:?} is no burstline {ours}: it ended with code {code} and said: {said}"
    )]
    Stranger {
        /// Which machine.
        host: String,
        /// As it was named.
        program: String,
        /// What it returned.
        code: i32,
        /// Its last line.
        said: String,
        /// This program's version.
        ours: &'static str,
    },
    /// It is another version.
    #[error("{host}: burstline {theirs} there, {ours} here: install the same on both")]
    OtherVersion {
        /// Which machine.
        host: String,
        /// The version there.
        theirs: String,
        /// This program's.
        ours: &'static str,
    },
    /// It said nothing for too long.
    #[error("{host}: nothing came for {seconds} s, see silence=")]
    Silent {
        /// Which machine.
        host: String,
        /// How long that was.
        seconds: f64,
    },
    /// It was there, and is no more.
    #[error("{host}: the generator is gone: {how}")]
    Gone {
        /// Which machine.
        host: String,
        /// How ssh ended, and what was said.
        how: String,
    },
    /// It could not do what it was asked for.
    #[error("{host}: {why}")]
    Failed {
        /// Which machine.
        host: String,
        /// What it says.
        why: String,
    },
    /// The user wants an end.
    #[error("interrupted")]
    Stopped,
}

//! The user's command for files that a job has closed.
//!
//! A thread of the job may start no program. So a helper knows the command from its start, and a
//! request names only the file. It is a process of its own, without a list of calls or a ruleset,
//! because programs need more than the helper for files.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Runs a command for a file: without a shell or input, in its own process group, with its output
/// in `output`.
pub(crate) fn run(command: &[String], path: &Path, output: OwnedFd) -> io::Result<ExitStatus> {
    let (program, arguments) = command.split_first().ok_or(ErrorKind::InvalidInput)?;
    let filled = |word: &String| word.replace("{}", &path.to_string_lossy());
    Command::new(filled(program))
        .args(arguments.iter().map(filled))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .status()
}

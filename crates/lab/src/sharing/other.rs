//! This program once more, as a process that helps a figure.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process. Dropping it kills it, stopped or not.
pub(crate) struct Other {
    /// Who it is, for errors.
    what: &'static str,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Other {
    /// Starts it with these arguments and waits until it says `ready`. Errors call it a `what`.
    pub(crate) fn start(
        what: &'static str,
        arguments: &[&str],
        ready: &str,
    ) -> Result<Self, String> {
        let told = |error| format!("a {what} in another process: {error}");
        let mut command = Command::new(env::current_exe().map_err(told)?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(told)?;
        let stdin = child.stdin.take().expect("asked for");
        let stdout = BufReader::new(child.stdout.take().expect("asked for"));
        let mut this = Self { what, child, stdin, stdout };
        this.hear(|line| (line == ready).then_some(()))?;
        Ok(this)
    }

    /// Returns its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let told = |error| format!("to a {} in another process: {error}", self.what);
        writeln!(self.stdin, "{line}").map_err(told)
    }

    /// Waits for its next line and parses it.
    pub(crate) fn hear<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
        let (what, mut line) = (self.what, String::new());
        match self.stdout.read_line(&mut line) {
            Ok(0) => return Err(format!("a {what} in another process has ended")),
            Ok(_) => {}
            Err(error) => return Err(format!("a {what} in another process: {error}")),
        }
        let line = line.trim();
        parse(line).ok_or_else(|| format!("a {what} in another process says `{line}`"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_who_has_failed() {
        // This program of tests, as one that lists none and ends.
        let arguments = ["--list", "--format", "terse", "--exact", "none"];
        let why = Other::start("reader", &arguments, "ready").err();
        assert_eq!(why.as_deref(), Some("a reader in another process has ended"));
    }
}

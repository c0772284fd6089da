//! Connects to other machines by ssh, with existing keys and configuration and no own service.
//!
//! ssh never prompts (`BatchMode`), forwards nothing, and has timeouts.
//!
//! Invariants:
//! - W1: the host comes after `--` on ssh's command line, so it is never an option.
//! - W2: each word of the command for the remote shell is in single quotes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// ssh's exit code for its own failures. Source: ssh(1), "EXIT STATUS".
pub const SSH_FAILED: i32 = 255;
/// A shell's exit code for a missing program. Source: POSIX.1-2017, sh, "EXIT STATUS".
pub const NOT_FOUND: i32 = 127;

/// A machine, and how to connect to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way<'a> {
    /// HOST or USER@HOST.
    pub host: &'a str,
    /// Port; `None` for ssh's configured one.
    pub port: Option<u16>,
    /// ssh's configuration file; `None` for the user's.
    pub config: Option<&'a Path>,
    /// Timeout of a connection. Rounded to whole seconds, at least one. An established connection
    /// is given up after three times as long without an answer.
    pub connect: Duration,
}

impl Way<'_> {
    /// Builds the ssh command that runs these words there. The caller sets up its three streams.
    pub fn command<'w>(&self, words: impl Iterator<Item = &'w str>) -> Command {
        let connect = self.connect.as_secs().max(1);
        let mut command = Command::new("ssh");
        if let Some(config) = self.config {
            command.arg("-F").arg(config);
        }
        for option in [
            "BatchMode=yes".to_owned(),
            "ControlMaster=no".to_owned(),
            "ForwardAgent=no".to_owned(),
            "ForwardX11=no".to_owned(),
            "ClearAllForwardings=yes".to_owned(),
            "PermitLocalCommand=no".to_owned(),
            "LogLevel=ERROR".to_owned(),
            format!("ConnectTimeout={connect}"),
            format!("ServerAliveInterval={connect}"),
            "ServerAliveCountMax=3".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        if let Some(port) = self.port {
            command.args(["-p", &port.to_string()]);
        }
        // W1.
        let words = words.map(quoted).collect::<Vec<_>>().join(" ");
        command.args(["-T", "--", self.host, &words]);
        command
    }
}

/// W2. Source: POSIX.1-2017, Shell Command Language, 2.2.2.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the last line that is not empty.
pub fn last_line(said: &str) -> String {
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.unwrap_or("no error message").to_owned()
}

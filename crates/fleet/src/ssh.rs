//! ssh as the way to another machine: existing keys and configuration, and no service of ours.
//!
//! ssh asks nobody (`BatchMode`), forwards nothing, and gives up a connection in time.
//!
//! Invariants:
//! - W1: the host stands behind `--` on ssh's command line, so it is never an option.
//! - W2: each word of the command that a shell there reads is in single quotes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What ssh returns for its own failures. Source: ssh(1), "EXIT STATUS".
pub const SSH_FAILED: i32 = 255;
/// What shells return for a program that there is not. Source: POSIX.1-2017, sh, "EXIT STATUS".
pub const NOT_FOUND: i32 = 127;

/// How to reach a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way<'a> {
    /// HOST or USER@HOST.
    pub host: &'a str,
    /// `None`: as ssh's configuration has it.
    pub port: Option<u16>,
    /// ssh's configuration file; `None`: the user's.
    pub config: Option<&'a Path>,
    /// For a connection. Whole seconds count, at least one. A connection that answers nothing for
    /// three times as long is given up, too.
    pub connect: Duration,
}

impl Way<'_> {
    /// ssh that runs these words there. The caller says what its three streams are.
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

/// The last line of what was said that has something in it.
pub fn last_line(said: &str) -> String {
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.unwrap_or("without a word").to_owned()
}

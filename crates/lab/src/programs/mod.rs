//! The programs that are started to compete. Each has one description: its command line, what says
//! that it is ready, and where its counts are. Scenarios, figures and RFC 2544 share it.
//!
//! ```text
//!   Testpmd { cores, ports, mode }  --command(Memory)-->  Contender  --Ready-->  traffic, counts
//! ```
//!
//! Invariants:
//! - P1: a program is ready by its own fact: the last line of its start, and what it has
//!   opened by then. What it prints by its own clock does not count.
//! - P2: a program that uses DPDK's memory gets reserved huge pages where available, else small
//!   ones; all alike.

pub mod bridge;
mod captures;
mod generators;
mod memory;
mod open_vswitch;
mod ours;
mod ready;
mod testpmd;

use std::process::Command;
use std::time::Duration;

pub use captures::{Capture, DUMPCAP, NETSNIFF, TCPDUMP};
pub(crate) use generators::pcap;
pub use generators::{Generator, TCPREPLAY, TRAFGEN};
pub use memory::Memory;
pub use open_vswitch::{Bridge, Datapath, SwitchCommands, SwitchCores};
pub use ours::{Ours, Report};
pub(crate) use ours::{our_program, target};
pub use ready::{READY_WITHIN, Ready};
pub use testpmd::{Device, Mode, Peer, RING, Rates, Testpmd, Totals};

/// Stands for a file of the program's in its command.
pub const FILE: &str = "$FILE";

/// How long most programs take for what is in their ring, after the last frame.
const SETTLE: Duration = Duration::from_millis(200);

/// How a program is started.
pub trait Launch {
    /// The command, words separated by spaces; [`FILE`] stands for a file in memory.
    fn command(&self, memory: Memory) -> String;

    /// What says that it is ready.
    fn ready(&self) -> Ready;

    /// How long after the last frame it has taken all of them.
    fn settles_in(&self) -> Duration {
        SETTLE
    }

    /// Whether it ends when its standard input does, which then has to stay open.
    fn holds_input(&self) -> bool {
        false
    }
}

/// A command that does not depend on the available memory.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// As of [`Launch::command`].
    pub command: String,
    /// As of [`Launch::ready`].
    pub ready: Ready,
}

impl Launch for Words {
    fn command(&self, _: Memory) -> String {
        self.command.clone()
    }

    fn ready(&self) -> Ready {
        self.ready.clone()
    }
}

/// What the shell runs for a command on some cores, a list for taskset(1). The shell's `$0` is the
/// file that the program prints to.
pub fn script(launch: &dyn Launch, command: &str, cores: &str) -> String {
    // Open in both directions, so there is always a writer.
    let (before, input) = match launch.holds_input() {
        true => ("mkfifo \"$0.in\" && ", " 0<> \"$0.in\""),
        false => ("", ""),
    };
    format!("{before}exec stdbuf -oL taskset -c {cores} {command}{input} > \"$0\" 2>&1")
}

/// The first line of what a program prints, on either stream; empty if it cannot be run.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> String {
    line_with(program, arguments, "")
}

/// The first line that has `word` of what a program prints; empty if there is none.
pub(crate) fn line_with(program: &str, arguments: &[&str], word: &str) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return String::new() };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains(word)).unwrap_or_default();
    line.trim_end_matches('.').to_owned()
}

/// The number behind the first `key`.
fn number_after(text: &str, key: &str) -> Option<f64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number in front of the first `key`.
fn number_before(text: &str, key: &str) -> Option<u64> {
    text.split_once(key)?.0.split_whitespace().next_back()?.parse().ok()
}

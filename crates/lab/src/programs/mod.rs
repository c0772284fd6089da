//! Descriptions of the programs that compete: the command line, the sign that it is ready, and
//! where its counts are. Scenarios, figures and RFC 2544 share them.
//!
//! ```text
//!   Testpmd { cores, ports, mode }  --command(Memory)-->  Contender  --Ready-->  traffic, counts
//! ```
//!
//! Invariants:
//! - P1: a program is ready when certain facts hold: the last output line of its start, and what it
//!   has opened. Periodic output does not count.
//! - P2: all programs with DPDK memory get reserved huge pages if available, else small ones.

pub mod bridge;
mod captures;
mod generators;
mod memory;
mod open_vswitch;
mod ours;
mod ready;
mod testpmd;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub use captures::{Capture, DUMPCAP, NETSNIFF, TCPDUMP};
pub(crate) use captures::{TCPDUMP_BUFFER, tcpdump};
pub(crate) use generators::pcap;
pub use generators::{Generator, TCPREPLAY, TRAFGEN};
pub use memory::Memory;
pub use open_vswitch::{Bridge, Datapath, SwitchCommands, SwitchCores};
pub use ours::{Ours, Report};
pub(crate) use ours::{our_program, target};
pub use ready::{READY_WITHIN, Ready};
pub use testpmd::{Device, Mode, Peer, RING, Rated, Rates, Testpmd, Totals};

/// Placeholder for a file of the program in its command.
pub const FILE: &str = "$FILE";

/// Time that most programs need to process their ring after the last frame.
const SETTLE: Duration = Duration::from_millis(200);

/// How to start a program.
pub trait Launch {
    /// Returns the command, with words separated by spaces; [`FILE`] stands for a file in memory.
    fn command(&self, memory: Memory) -> String;

    /// Returns the conditions for being ready.
    fn ready(&self) -> Ready;

    /// Returns the time after the last frame by which it has processed all frames.
    fn settles_in(&self) -> Duration {
        SETTLE
    }

    /// Returns whether it ends when its standard input closes, so that it must stay open.
    fn holds_input(&self) -> bool {
        false
    }
}

/// A command that does not depend on the available memory.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// See [`Launch::command`].
    pub command: String,
    /// See [`Launch::ready`].
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

/// Returns the shell script that runs a command on some cores, a list for taskset(1). The shell's
/// `$0` is the program's output file.
pub fn script(launch: &dyn Launch, command: &str, cores: &str) -> String {
    // Opened for reading and writing, so there is always a writer.
    let (before, input) = match launch.holds_input() {
        true => ("mkfifo \"$0.in\" && ", " 0<> \"$0.in\""),
        false => ("", ""),
    };
    format!("{before}exec stdbuf -oL taskset -c {cores} {command}{input} > \"$0\" 2>&1")
}

/// Returns nfpcapd(1), which writes records of the flows of a file into a folder, uncompressed.
pub(crate) fn nfpcapd(file: &Path, folder: &Path) -> Command {
    let mut command = Command::new("nfpcapd");
    command.arg("-r").arg(file).arg("-w").arg(folder);
    command
}

/// Returns the first line of a program's output on either stream; empty if it cannot run.
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

/// Returns the number after the first `key`.
fn number_after(text: &str, key: &str) -> Option<f64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the number before the first `key`.
fn number_before(text: &str, key: &str) -> Option<u64> {
    text.split_once(key)?.0.split_whitespace().next_back()?.parse().ok()
}

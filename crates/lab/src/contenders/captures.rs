//! Programs that record packets to a file: tcpdump, dumpcap, netsniff-ng.

use std::process::Command;

use super::Job;
use super::live::{FILE, Live, Own};
use crate::live;
use crate::scenario::Work;

/// A program that records what a packet socket gives it.
pub(super) struct Capture {
    name: &'static str,
    programs: &'static [(&'static str, &'static str)],
    command: &'static str,
    ready: &'static str,
    captured: fn(&str) -> Result<u64, String>,
}

pub(super) const TCPDUMP: Capture = Capture {
    name: "tcpdump",
    programs: &[("tcpdump", "tcpdump")],
    command: "tcpdump -i v1 -n -Z root -B 65536 -w $FILE",
    ready: "listening on",
    captured: |said| live::Tcpdump::parse(said).map(|said| said.captured),
};

pub(super) const DUMPCAP: Capture = Capture {
    name: "dumpcap",
    programs: &[("dumpcap", "wireshark-common")],
    command: "dumpcap -q -i v1 -B 64 -w $FILE",
    ready: "File: ",
    captured: |said| live::Dumpcap::parse(said).map(|said| said.captured),
};

pub(super) const NETSNIFF: Capture = Capture {
    name: "netsniff-ng",
    programs: &[("netsniff-ng", "netsniff-ng")],
    command: "netsniff-ng --in v1 --out $FILE --silent --ring-size 64MiB --no-hwtimestamp",
    ready: "Running!",
    captured: netsniff,
};

impl Live for Capture {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Record]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        self.programs
    }

    fn version(&self) -> String {
        first_line(self.name, &["--version"])
    }

    fn command(&self, _: &Job<'_>) -> String {
        debug_assert!(self.command.contains(FILE), "{}", self.command);
        self.command.to_owned()
    }

    fn ready(&self) -> &'static str {
        self.ready
    }

    fn own(&self, said: &str, _: u64) -> Result<Own, String> {
        Ok(Own { delivered: (self.captured)(said)?, ..Own::default() })
    }
}

/// The summary of netsniff-ng: a number, two spaces, and what it counts.
fn netsniff(said: &str) -> Result<u64, String> {
    let before = said.split_once("packets passed filter").map(|(before, _)| before);
    let number = before.and_then(|before| before.split_whitespace().next_back()?.parse().ok());
    number.ok_or_else(|| format!("netsniff-ng has no summary: {}", said.trim()))
}

/// The first line of what a program prints, on either stream; empty if it cannot be run.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return String::new() };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_netsniff() {
        let said = "Running! Hang up with ^C!\n\n     12  packets incoming (0 unread on exit)\n\
                    \x20    11  packets passed filter\n      1  packets failed filter\n";
        assert_eq!(netsniff(said), Ok(11));
        assert!(netsniff("killed").unwrap_err().contains("no summary: killed"));
    }
}

//! Programs that record packets to a file: tcpdump, dumpcap, netsniff-ng.

use std::time::Duration;

use super::{FILE, Launch, Memory, Ready, SETTLE, number_after, number_before};
use crate::live::Need;

/// A program that records what a packet socket gives it.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// As it is started.
    pub program: &'static str,
    /// What it takes.
    pub needs: &'static [Need],
    command: &'static str,
    line: &'static str,
    captured: fn(&str) -> Option<u64>,
    settles_in: Duration,
}

/// tcpdump, with a buffer of 64 MiB.
pub const TCPDUMP: Capture = Capture {
    program: "tcpdump",
    needs: &[Need { program: "tcpdump", package: "tcpdump" }],
    command: "tcpdump -i v1 -n -Z root -B 65536 -w $FILE",
    line: "listening on",
    captured: |said| number_before(said, " packets captured"),
    // It is handed a block of its ring when that is full, or after a second; at its end it leaves
    // the last one. Source: tcpdump.c of 4.99, `pcap_set_timeout(pc, 1000)`.
    settles_in: Duration::from_millis(1300),
};

/// dumpcap, with a buffer of 64 MiB.
pub const DUMPCAP: Capture = Capture {
    program: "dumpcap",
    needs: &[Need { program: "dumpcap", package: "wireshark-common" }],
    command: "dumpcap -q -i v1 -B 64 -w $FILE",
    line: "File: ",
    captured: |said| {
        let captured = number_after(said, "received/dropped on interface 'v1':");
        captured.map(|captured| captured as u64)
    },
    settles_in: SETTLE,
};

/// netsniff-ng, with a ring of 64 MiB.
pub const NETSNIFF: Capture = Capture {
    program: "netsniff-ng",
    needs: &[Need { program: "netsniff-ng", package: "netsniff-ng" }],
    command: "netsniff-ng --in v1 --out $FILE --silent --ring-size 64MiB --no-hwtimestamp",
    line: "Running!",
    captured: |said| number_before(said, "packets passed filter"),
    settles_in: SETTLE,
};

impl Capture {
    /// Packets that it says that it has written.
    ///
    /// # Errors
    /// Its summary is not there.
    pub fn captured(&self, said: &str) -> Result<u64, String> {
        let no_summary = || format!("{} has no summary: {}", self.program, said.trim());
        (self.captured)(said).ok_or_else(no_summary)
    }
}

impl Launch for Capture {
    fn command(&self, _: Memory) -> String {
        debug_assert!(self.command.contains(FILE), "{}", self.command);
        self.command.to_owned()
    }

    fn ready(&self) -> Ready {
        Ready::line(self.line).with_packet_sockets(&["v1"])
    }

    fn settles_in(&self) -> Duration {
        self.settles_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries() {
        let tcpdump = "listening on v1\n1500 packets captured\n1502 packets received by filter\n";
        assert_eq!(TCPDUMP.captured(tcpdump), Ok(1500));
        let dumpcap = "Capturing on 'v1'\nPackets captured: 7\n\
            Packets received/dropped on interface 'v1': 7/0 (pcap:0/dumpcap:0/flushed:0) (100.0%)";
        assert_eq!(DUMPCAP.captured(dumpcap), Ok(7));
        let netsniff = "Running! Hang up with ^C!\n\n     12  packets incoming (0 unread on exit)\n\
                        \x20    11  packets passed filter\n      1  packets failed filter\n";
        assert_eq!(NETSNIFF.captured(netsniff), Ok(11));
        for capture in [TCPDUMP, DUMPCAP, NETSNIFF] {
            let said = capture.captured("killed").unwrap_err();
            assert_eq!(said, format!("{} has no summary: killed", capture.program));
        }
    }
}

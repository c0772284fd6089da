//! Programs that record packets to a file: tcpdump, dumpcap, netsniff-ng.

use std::time::Duration;

use burstline_testbed::FAR;

use super::{FILE, Launch, Memory, Ready, SETTLE, number_after, number_before};
use crate::live::Need;

/// Placeholder for the interface in a command.
const INTERFACE: &str = "$PORT";

/// tcpdump's option for a buffer of 64 MiB, with the blank before it.
pub(crate) const TCPDUMP_BUFFER: &str = " -B 65536";

/// Returns the command of a tcpdump that captures from an interface, or from a log by our libpcap.
/// `options`, each after a blank, replace [`TCPDUMP_BUFFER`]; `file` may be `-`.
pub(crate) fn tcpdump(interface: &str, options: &str, file: &str) -> String {
    let command = TCPDUMP.command.replace(INTERFACE, interface).replace(FILE, file);
    command.replace(TCPDUMP_BUFFER, options)
}

/// A program that records packets of a packet socket.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    /// The command name.
    pub program: &'static str,
    /// Required programs.
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
    command: "tcpdump -i $PORT -n -Z root -B 65536 -w $FILE",
    line: "listening on",
    captured: |said| number_before(said, " packets captured"),
    // It gets a ring block when that is full or after a second, and drops the last one when it
    // ends. Source: tcpdump.c of 4.99, `pcap_set_timeout(pc, 1000)`.
    settles_in: Duration::from_millis(1300),
};

/// dumpcap, with a buffer of 64 MiB.
pub const DUMPCAP: Capture = Capture {
    program: "dumpcap",
    needs: &[Need { program: "dumpcap", package: "wireshark-common" }],
    command: "dumpcap -q -i $PORT -B 64 -w $FILE",
    line: "File: ",
    captured: |said| {
        let (_, of_interface) = said.split_once("received/dropped on interface '")?;
        number_after(of_interface, "':").map(|captured| captured as u64)
    },
    settles_in: SETTLE,
};

/// netsniff-ng, with a ring of 64 MiB.
pub const NETSNIFF: Capture = Capture {
    program: "netsniff-ng",
    needs: &[Need { program: "netsniff-ng", package: "netsniff-ng" }],
    command: "netsniff-ng --in $PORT --out $FILE --silent --ring-size 64MiB --no-hwtimestamp",
    line: "Running!",
    captured: |said| number_before(said, "packets passed filter"),
    settles_in: SETTLE,
};

impl Capture {
    /// Parses the number of packets that it reports to have written.
    ///
    /// # Errors
    /// If the summary is missing.
    pub fn captured(&self, said: &str) -> Result<u64, String> {
        let no_summary = || format!("{} has no summary: {}", self.program, said.trim());
        (self.captured)(said).ok_or_else(no_summary)
    }
}

/// A recording program with its interface.
#[derive(Clone, Debug)]
pub struct CaptureOn {
    capture: Capture,
    interface: String,
}

impl Capture {
    /// Sets the interface.
    pub fn on(&self, interface: &str) -> CaptureOn {
        CaptureOn { capture: *self, interface: interface.to_owned() }
    }
}

impl Launch for CaptureOn {
    fn command(&self, _: Memory) -> String {
        self.capture.command.replace(INTERFACE, &self.interface)
    }

    fn ready(&self) -> Ready {
        Ready::line(self.capture.line).with_packet_sockets(&[&self.interface])
    }

    fn settles_in(&self) -> Duration {
        self.capture.settles_in
    }
}

impl Launch for Capture {
    fn command(&self, memory: Memory) -> String {
        self.on(FAR).command(memory)
    }

    fn ready(&self) -> Ready {
        self.on(FAR).ready()
    }

    fn settles_in(&self) -> Duration {
        self.settles_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcpdump_has_other_options_in_place_of_its_buffer() {
        let none = tcpdump("burst:tap", "", "/dev/null");
        assert_eq!(none, "tcpdump -i burst:tap -n -Z root -w /dev/null");
        assert_eq!(tcpdump("v1", " -c 1 -U", "-"), "tcpdump -i v1 -n -Z root -c 1 -U -w -");
    }

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

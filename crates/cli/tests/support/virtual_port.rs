//! `dpdk-testpmd` with a virtual device, controlled through its standard input.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use burstline_lab::programs::{Device, Launch, Memory, Mode, Testpmd};
use burstline_skip::skip;
use burstline_sys::affinity::allowed_cores;
use burstline_testbed::Killed;

use super::Directory;
use super::live::wait_until;

/// A running testpmd.
pub(crate) struct VirtualPort {
    child: Killed,
    output: String,
}

/// The counters of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl VirtualPort {
    /// Returns whether testpmd is installed; reports if not.
    pub(crate) fn or_skip() -> bool {
        let is_there = super::is_there("dpdk-testpmd");
        if !is_there {
            skip("dpdk-testpmd is not installed: scripts/setup dpdk");
        }
        is_there
    }

    /// Starts testpmd with a device and a mode; it waits for [`go`](Self::go).
    pub(crate) fn start(directory: &Directory, name: &str, device: &str, mode: Mode) -> Self {
        let output = directory.file(&format!("{name}.out"));
        let cores = allowed_cores().unwrap();
        let testpmd = Testpmd {
            main: cores[0],
            cores: vec![cores[cores.len() - 1]],
            ports: vec![Device::Named(device.to_owned())],
            mode,
            has_rates: false,
            more: "-i --total-num-mbufs=4096 --disable-link-check".to_owned(),
        };
        let words = testpmd.command(Memory::Small);
        // Without this, output to a file would be buffered until its end.
        let mut command = Command::new("stdbuf");
        command.arg("-oL").args(words.split(' '));
        let to = || Stdio::from(fs::File::options().append(true).open(&output).unwrap());
        fs::write(&output, "").unwrap();
        let child = command.stdin(Stdio::piped()).stdout(to()).stderr(to()).spawn().unwrap();
        let port = Self { child: Killed(child), output };
        wait_until("testpmd is ready", || port.text().contains("testpmd> "));
        port
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap()).into_owned()
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&self, line: &str) {
        // It may have been killed.
        let _ = writeln!(self.child.stdin.as_ref().unwrap(), "{line}");
    }

    pub(crate) fn go(&self) {
        self.say("start");
    }

    /// Stops forwarding, and returns the counters so far.
    pub(crate) fn stop(&self) -> Counted {
        self.say("stop");
        self.counted()
    }

    pub(crate) fn counted(&self) -> Counted {
        let before = self.text().matches("Tx-bps:").count();
        self.say("show port stats 0");
        wait_until("testpmd says what it has counted", || {
            self.text().matches("Tx-bps:").count() > before
        });
        let text = self.text();
        let last = &text[text.rfind("NIC statistics").unwrap()..];
        let number = |name: &str| {
            let rest = last.split(name).nth(1).unwrap().trim_start();
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        Counted { received: number("RX-packets:"), sent: number("TX-packets:") }
    }

    /// Quits it like its user would.
    pub(crate) fn quit(self) {
        self.say("quit");
        wait_until("testpmd ends", || self.text().contains("Bye..."));
    }
}

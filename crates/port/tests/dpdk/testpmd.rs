//! A DPDK program as the peer.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::live::PATIENCE;
use burstline_skip::skip;
use burstline_testbed::Killed;

/// A testpmd process with a vhost-user device.
pub(crate) struct Testpmd(Killed);

/// Keeps testpmd stopped while alive.
pub(crate) struct Stopped<'a>(&'a Testpmd);

impl Testpmd {
    /// Returns once it listens at `socket`. `None` if it is not installed, after counting the
    /// test as skipped.
    pub(crate) fn start(socket: &Path, mode: &str) -> Option<Self> {
        let device = format!("net_vhost0,iface={}", socket.display());
        let eal = "--no-huge --no-shconf --no-pci --no-telemetry -m 128 --lcores 0@0,1@0";
        let rest = "--total-num-mbufs=4096 --no-mlockall --disable-link-check";
        let mode = format!("--forward-mode={mode}");
        let mut command = Command::new("dpdk-testpmd");
        command.args(eal.split(' ')).args(["--vdev", &device, "--", &mode]).args(rest.split(' '));
        // It runs until it gets input.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => {
                let program = Self(Killed(child));
                wait_until("testpmd listens", || socket.exists());
                Some(program)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                skip("dpdk-testpmd is not installed: scripts/setup dpdk");
                None
            }
            Err(error) => panic!("dpdk-testpmd: {error}"),
        }
    }

    fn signal(&self, signal: &str) {
        burstline_testbed::signal(self.0.id(), signal).unwrap();
    }

    /// Stops all its threads.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        self.signal("-STOP");
        Stopped(self)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal("-CONT");
    }
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(1));
    }
}

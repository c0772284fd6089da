//! What passes packets on between two interfaces: the kernel's bridge, and what it shares with
//! Open vSwitch.

use std::thread;
use std::time::Duration;

use burstline_testbed::Program;

use super::Job;
use super::captures::first_line;
use super::live::{Live, Own, Running};
use crate::live::{Road, pages_of};
use crate::scenario::Work;

/// From when a switch says that it is ready until it is.
pub(super) const SETTLE: Duration = Duration::from_millis(500);

/// After the last packet, so long.
const DRAIN: Duration = Duration::from_millis(200);

/// The kernel's bridge.
pub(super) struct Bridge;

/// What makes it. Its ports get addresses that no frame is for: a bridge keeps what is for itself.
const BRIDGE: &str = "ip link set v1 address 02:42:55:00:01:01 && ip link set w1 address \
                      02:42:55:00:01:02 && ip link add br0 type bridge && ip link set v1 master \
                      br0 && ip link set w1 master br0 && ip link set br0 up";

impl Live for Bridge {
    fn name(&self) -> &'static str {
        "linux-bridge"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Switch, Work::Latency]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("ip", "iproute2")]
    }

    fn version(&self) -> String {
        first_line("uname", &["-sr"])
    }

    fn is_switch(&self) -> bool {
        true
    }

    fn command(&self, _: &Job<'_>) -> String {
        BRIDGE.to_owned()
    }

    fn start<'a>(&'a self, _: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        shell(road, BRIDGE)?;
        thread::sleep(SETTLE);
        Ok(Box::new(Passing { programs: Vec::new() }))
    }
}

/// Runs a script on the far host, to its end.
pub(super) fn shell(road: &Road, script: &str) -> Result<(), String> {
    // What it says is told where it fails, and that is what is on standard error.
    let script = format!("({script}) >&2");
    let done = road.bed().far.command("sh", &["-c", &script]);
    done.map(drop).map_err(|error| error.to_string())
}

/// A switch at work. Its packets are counted where they come out.
pub(super) struct Passing {
    pub(super) programs: Vec<Program>,
}

impl Running for Passing {
    fn end(self: Box<Self>, _: u64) -> Result<Own, String> {
        thread::sleep(DRAIN);
        let processes: Vec<u32> = self.programs.iter().map(Program::process_id).collect();
        // A part of the kernel has no memory of its own.
        let pages = (!processes.is_empty()).then(|| pages_of(&processes));
        drop(self.programs);
        Ok(Own { pages, ..Own::default() })
    }
}

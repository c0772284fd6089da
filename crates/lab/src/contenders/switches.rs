//! What passes packets on between two interfaces: the kernel's bridge, and Open vSwitch with its
//! datapath in user space.

use std::thread;
use std::time::Duration;

use burstline_testbed::Program;

use super::Job;
use super::captures::first_line;
use super::live::{Live, Own, Running};
use crate::live::Road;
use crate::scenario::Work;

/// From when a switch says that it is ready until it is.
const SETTLE: Duration = Duration::from_millis(500);

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

    fn command(&self, _: &Job<'_>) -> String {
        BRIDGE.to_owned()
    }

    fn start<'a>(&'a self, _: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        shell(road, BRIDGE)?;
        thread::sleep(SETTLE);
        Ok(Box::new(Passing { programs: Vec::new() }))
    }
}

/// Open vSwitch with a database of its own.
pub(super) struct OpenVSwitch;

/// Five commands that have an Open vSwitch of our own, in `folder`, pass on between v1 and w1 on
/// `core`: the second and the fourth are programs that stay.
pub fn open_vswitch_commands(folder: &str, core: &str) -> [String; 5] {
    let homes = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]
        .map(|home| format!("{home}='{folder}'"))
        .join(" ");
    let (database, socket) = (format!("'{folder}/conf.db'"), format!("'{folder}/db.sock'"));
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    let control = format!("{homes} ovs-vsctl --retry --timeout=20 --db=unix:{socket}");
    [
        format!("{homes} ovsdb-tool create {database} {schema}"),
        format!("env {homes} ovsdb-server {database} --remote=punix:{socket}"),
        format!("{control} --no-wait init"),
        format!("env {homes} taskset -c {core} ovs-vswitchd unix:{socket}"),
        format!(
            "{control} add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 v1 -- \
             add-port br0 w1"
        ),
    ]
}

impl Live for OpenVSwitch {
    fn name(&self) -> &'static str {
        "ovs-userspace"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Switch, Work::Latency]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("ovsdb-server", "openvswitch-switch"), ("ovs-vswitchd", "openvswitch-switch")]
    }

    fn version(&self) -> String {
        first_line("ovs-vswitchd", &["--version"])
    }

    fn command(&self, job: &Job<'_>) -> String {
        open_vswitch_commands("FOLDER", &job.core_list()).join("; ")
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let folder = road.file("");
        let [create, server, init, switch, ports] =
            open_vswitch_commands(folder.trim_end_matches('/'), &job.core_list());
        let start = |script: &str| {
            let script = format!("exec {script} > /dev/null 2>&1");
            let program = road.bed().far.start("sh", &["-c", &script], &[]);
            program.map_err(|error| error.to_string())
        };
        shell(road, &create)?;
        let mut programs = vec![start(&server)?];
        shell(road, &init)?;
        programs.push(start(&switch)?);
        shell(road, &ports)?;
        thread::sleep(SETTLE);
        Ok(Box::new(Passing { programs }))
    }
}

/// Runs a script on the far host, to its end.
fn shell(road: &Road, script: &str) -> Result<(), String> {
    // What it says is told where it fails, and that is what is on standard error.
    let script = format!("({script}) >&2");
    let done = road.bed().far.command("sh", &["-c", &script]);
    done.map(drop).map_err(|error| error.to_string())
}

/// A switch at work. Its packets are counted where they come out.
struct Passing {
    programs: Vec<Program>,
}

impl Running for Passing {
    fn end(self: Box<Self>, _: u64) -> Result<Own, String> {
        thread::sleep(DRAIN);
        drop(self.programs);
        Ok(Own::default())
    }
}

//! What passes packets on between two interfaces: the kernel's bridge, and Open vSwitch with its
//! datapath in user space, by packet sockets or by DPDK.

use std::time::Duration;
use std::{fs, thread};

use burstline_sys::affinity::CoreId;
use burstline_testbed::{Program, Receiver};

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
pub(super) struct OpenVSwitch {
    name: &'static str,
    /// The program, and its Debian package.
    switch: (&'static str, &'static str),
    is_dpdk: bool,
}

impl OpenVSwitch {
    /// Its ports are packet sockets.
    pub(super) const USERSPACE: Self = Self {
        name: "ovs-userspace",
        switch: ("ovs-vswitchd", "openvswitch-switch"),
        is_dpdk: false,
    };
    /// Its ports are DPDK's, by AF_XDP, which a thread of its own polls without a pause.
    pub(super) const DPDK: Self = Self {
        name: "ovs-dpdk",
        switch: (
            "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
            "openvswitch-switch-dpdk librte-net-af-xdp23",
        ),
        is_dpdk: true,
    };

    fn commands(&self, folder: &str, job: &Job<'_>) -> [String; 5] {
        match self.is_dpdk {
            true => dpdk_commands(folder, job, self.switch.0),
            false => open_vswitch_commands(folder, &job.core_list()),
        }
    }
}

/// As [`open_vswitch_commands`], with DPDK: the thread that polls is on the contender's first core,
/// the others, which have little to do, are on the generator's.
fn dpdk_commands(folder: &str, job: &Job<'_>, switch: &str) -> [String; 5] {
    let main = job.places.generator;
    let core = job.places.contender.first().copied().unwrap_or(main);
    let [create, server, init, plain, _] = open_vswitch_commands(folder, "CORE");
    let control = init.trim_end_matches(" --no-wait init");
    // Open vSwitch asks for --in-memory unless memory is legacy, and it is not to be had without
    // huge pages. It takes pools as large as there is memory for.
    let settings = format!(
        "dpdk-init=true other_config:dpdk-lcore-mask={} other_config:pmd-cpu-mask={} \
         'other_config:dpdk-extra=--no-huge --legacy-mem --no-shconf -m 640 --no-pci \
         --no-telemetry'",
        mask(main),
        mask(core)
    );
    let port = |number: u32, interface: &str| {
        format!(
            "add-port br0 p{number} -- set interface p{number} type=dpdk 'options:dpdk-devargs=\
             net_af_xdp{number},iface={interface},start_queue=0,queue_count=1,\
             busy_budget=0'"
        )
    };
    [
        create,
        server,
        format!("{init} && {control} --no-wait set open_vswitch . other_config:{settings}"),
        plain
            .replace("taskset -c CORE ovs-vswitchd", &format!("taskset -c {main},{core} {switch}")),
        format!(
            "{control} add-br br0 -- set bridge br0 datapath_type=netdev -- {} -- {} && {control} \
             wait-until interface p0 link_state=up -- wait-until interface p1 link_state=up",
            port(0, "v1"),
            port(1, "w1")
        ),
    ]
}

/// A core as a mask in hexadecimal digits.
fn mask(core: CoreId) -> String {
    format!("0x{:x}{}", 1 << (core.0 % 4), "0".repeat(core.0 as usize / 4))
}

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
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Switch, Work::Latency]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        const SERVER: (&str, &str) = ("ovsdb-server", "openvswitch-switch");
        const USERSPACE: [(&str, &str); 2] = [SERVER, OpenVSwitch::USERSPACE.switch];
        const DPDK: [(&str, &str); 2] = [SERVER, OpenVSwitch::DPDK.switch];
        if self.is_dpdk { &DPDK } else { &USERSPACE }
    }

    fn version(&self) -> String {
        first_line(self.switch.0, &["--version"])
    }

    fn receiver(&self, _: Work) -> Receiver {
        if self.is_dpdk { Receiver::Program } else { Receiver::Stack }
    }

    fn command(&self, job: &Job<'_>) -> String {
        self.commands("FOLDER", job).join("; ")
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let folder = road.file("");
        let [create, server, init, switch, ports] =
            self.commands(folder.trim_end_matches('/'), job);
        let output = road.file("ovs-output");
        let start = |script: &str| {
            let script = format!("exec {script} > \"$0\" 2>&1");
            let program = road.bed().far.start("sh", &["-c", &script, &output], &[]);
            program.map_err(|error| error.to_string())
        };
        shell(road, &create)?;
        let mut programs = vec![start(&server)?];
        shell(road, &init)?;
        programs.push(start(&switch)?);
        shell(road, &ports).map_err(|why| format!("{}: {why}", worst(&output)))?;
        thread::sleep(SETTLE);
        Ok(Box::new(Passing { programs }))
    }
}

/// What a switch has said at its worst: its last errors, or its last lines.
fn worst(output: &str) -> String {
    let said = fs::read_to_string(output).unwrap_or_default();
    let is_bad = |line: &&str| line.contains("|EMER|") || line.contains("|ERR|");
    let bad: Vec<&str> = said.lines().filter(is_bad).collect();
    let all: Vec<&str> = if bad.is_empty() { said.lines().collect() } else { bad };
    all[all.len().saturating_sub(2)..].join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bit_of_its_core() {
        let masks = [0, 1, 3, 4, 9, 130].map(|core| mask(CoreId(core)));
        assert_eq!(masks[..5], ["0x1", "0x2", "0x8", "0x10", "0x200"]);
        assert_eq!(masks[5], format!("0x4{}", "0".repeat(32)));
    }

    #[test]
    fn the_worst_are_errors_or_what_was_said_last() {
        let path = std::env::temp_dir().join(format!("burstline-ovs-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let worst_of = |said: &str| {
            fs::write(path, said).unwrap();
            worst(path)
        };
        assert_eq!(worst_of("1|dpdk|INFO|a\n2|dpdk|ERR|b\n3|x|INFO|c\n"), "2|dpdk|ERR|b");
        assert_eq!(worst_of("a\nb\nc\n"), "b c");
        fs::remove_file(path).unwrap();
        assert_eq!(worst(path), "");
    }
}

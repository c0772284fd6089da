//! Open vSwitch with its datapath in user space, over packet sockets or DPDK.
//!
//! Each turn has a separate database and switch in a folder that is removed with it. The machine's
//! own instance is not touched.

use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use burstline_sys::affinity::CoreId;
use burstline_testbed::{Host, Program};

use super::memory::VIRTUAL;
use super::{Memory, READY_WITHIN, Ready, first_line};
use crate::live::{Need, shell};

/// The interfaces that it forwards between.
const PORTS: [&str; 2] = ["v1", "w1"];

/// Interval of the checks whether the switch has opened them.
const LOOK: Duration = Duration::from_millis(10);

/// Required by either datapath besides the switch.
const DATABASE: Need = Need { program: "ovsdb-server", package: "openvswitch-switch" };
const TASKSET: Need = Need { program: "taskset", package: "util-linux" };

/// MiB of DPDK memory in small pages. Open vSwitch allocates 262,144 mbufs, or halves the number
/// until they fit. Source: lib/netdev-dpdk.c of Open vSwitch 3.1, MAX_NB_MBUF and MIN_NB_MBUF.
const SMALL_MIB: u32 = 1024;

/// MiB of DPDK memory in reserved huge pages: as much as testpmd uses.
const HUGE_MIB: u32 = 512;

/// The transport between the switch and its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// Packet sockets.
    Sockets,
    /// DPDK's net_af_xdp, polled by a thread of the switch.
    Dpdk,
}

/// The settings of a switch besides its datapath, as arguments of ovs-vsctl(8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Adds and configures its ports.
    pub ports: String,
    /// Names of the ports, which must come up without an error.
    pub names: Vec<&'static str>,
    /// Settings of the switch before it starts.
    pub settings: &'static str,
}

impl Bridge {
    /// Lets guests and taps send packets of up to 64 KiB without segmentation.
    pub const TSO: &str = " other_config:userspace-tso-enable=true";

    /// Returns ports for guests, which create their sockets.
    pub fn of_guests(guests: [(&'static str, &str); 2]) -> Self {
        let port = |(name, socket): (&str, &str)| {
            format!(
                " -- add-port br0 {name} -- set interface {name} type=dpdkvhostuserclient \
                 options:vhost-server-path={socket}"
            )
        };
        let names = guests.iter().map(|(name, _)| *name).collect();
        Self { ports: guests.map(port).concat(), names, settings: "" }
    }
}

/// The cores of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCores<'a> {
    /// Core of threads that carry no packets, if they can be separated.
    pub main: CoreId,
    /// Cores of the packet threads; at least one.
    pub packets: &'a [CoreId],
}

/// Shell commands to run a separate Open vSwitch between v1 and w1.
#[derive(Clone, Debug)]
pub struct SwitchCommands {
    /// Creates the database.
    pub create: String,
    /// The database server, which keeps running.
    pub server: String,
    /// Writes the switch's configuration to the database.
    pub settings: String,
    /// The switch, which keeps running.
    pub switch: String,
    /// Creates the bridge and its ports, and fails with the errors of the switch.
    pub ports: String,
}

impl Datapath {
    /// Returns the package need of the switch.
    const fn program(self) -> Need {
        match self {
            Self::Sockets => Need { program: "ovs-vswitchd", package: "openvswitch-switch" },
            Self::Dpdk => Need {
                program: "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
                package: "openvswitch-switch-dpdk librte-net-af-xdp23",
            },
        }
    }

    /// Returns the commands, with all files in `folder` and the switch on these cores.
    pub fn commands(self, folder: &str, memory: Memory, cores: SwitchCores<'_>) -> SwitchCommands {
        let ports = PORTS.map(|interface| self.port(interface)).concat();
        let bridge = Bridge { ports, names: PORTS.to_vec(), settings: "" };
        self.commands_for(folder, memory, cores, &bridge)
    }

    /// The same for a given bridge.
    pub fn commands_for(
        self,
        folder: &str,
        memory: Memory,
        SwitchCores { main, packets }: SwitchCores<'_>,
        bridge: &Bridge,
    ) -> SwitchCommands {
        let homes = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
        // DPDK puts its sockets and locks into this folder.
        let homes = homes.into_iter().chain(["RUNTIME_DIRECTORY"]);
        let homes: Vec<_> = homes.map(|home| format!("{home}='{folder}'")).collect();
        let homes = homes.join(" ");
        let (database, socket) = (format!("'{folder}/conf.db'"), format!("'{folder}/db.sock'"));
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        let limit_s = READY_WITHIN.as_secs();
        let control = format!("{homes} ovs-vsctl --retry --timeout={limit_s} --db=unix:{socket}");
        let main = Some(main).filter(|_| self == Self::Dpdk);
        let words: Vec<_> = main.iter().chain(packets).map(CoreId::to_string).collect();
        let (program, words) = (self.program().program, words.join(","));
        let errors: Vec<_> =
            bridge.names.iter().map(|name| format!("get interface {name} error")).collect();
        let (errors, ports) = (errors.join(" -- "), &bridge.ports);
        SwitchCommands {
            create: format!("{homes} ovsdb-tool create {database} {schema}"),
            server: format!("env {homes} ovsdb-server {database} --remote=punix:{socket}"),
            settings: format!(
                "{control} --no-wait init{}{}",
                self.settings(memory, main, packets),
                bridge.settings
            ),
            switch: format!("env {homes} taskset -c {words} {program} unix:{socket}"),
            ports: format!(
                "{control} add-br br0 -- set bridge br0 datapath_type=netdev{ports} && \
                 ! {control} {errors} | grep -v '^\\[\\]$' >&2"
            ),
        }
    }

    /// Returns the settings that follow the command to start a database.
    fn settings(self, memory: Memory, main: Option<CoreId>, cores: &[CoreId]) -> String {
        let Some(main) = main else { return String::new() };
        let (main, cores) = (mask(&[main]), mask(cores));
        // With huge pages the switch adds --in-memory, so no file system for them is needed. It
        // does not work with small pages, and with --legacy-mem the switch does not add it.
        let memory = match memory {
            Memory::Huge => format!("-m {HUGE_MIB} {VIRTUAL}"),
            Memory::Small => format!("--no-huge --legacy-mem -m {SMALL_MIB}"),
        };
        format!(
            " -- set Open_vSwitch . other_config:dpdk-init=true \
             other_config:pmd-cpu-mask={cores} other_config:dpdk-lcore-mask={main} \
             other_config:dpdk-extra='--no-pci --no-telemetry {memory}'"
        )
    }

    fn port(self, interface: &str) -> String {
        let port = format!(" -- add-port br0 {interface}");
        match self {
            Self::Sockets => port,
            Self::Dpdk => format!(
                "{port} -- set interface {interface} type=dpdk \
                 'options:dpdk-devargs=\"net_af_xdp_{interface},iface={interface},busy_budget=0\"'"
            ),
        }
    }
}

impl fmt::Display for SwitchCommands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { create, server, settings, switch, ports } = self;
        write!(formatter, "{create}; {server}; {settings}; {switch}; {ports}")
    }
}

impl Datapath {
    /// Returns the required programs.
    pub fn needs(self) -> &'static [Need] {
        match self {
            Self::Sockets => const { &[DATABASE, Self::Sockets.program(), TASKSET] },
            Self::Dpdk => const { &[DATABASE, Self::Dpdk.program(), TASKSET] },
        }
    }

    /// Returns the version that the switch reports.
    pub fn version(self) -> String {
        first_line(self.program().program, &["--version"])
    }

    /// Starts a database and a switch on a host, with all files in `folder`. Returns when the
    /// switch has opened both interfaces.
    ///
    /// # Errors
    /// The errors of the switch.
    pub fn start(
        self,
        host: &Host,
        folder: &str,
        memory: Memory,
        cores: SwitchCores<'_>,
    ) -> Result<Vec<Program>, String> {
        let programs = self.commands(folder, memory, cores).start(host, folder)?;
        let ready = match self {
            Self::Sockets => Ready::at_once().with_packet_sockets(&PORTS),
            Self::Dpdk => Ready::at_once().with_xdp(&PORTS),
        };
        let began = Instant::now();
        while let Some(lack) = ready.lacks(host, "") {
            if began.elapsed() > READY_WITHIN {
                return Err(told(folder, lack));
            }
            thread::sleep(LOOK);
        }
        Ok(programs)
    }
}

impl SwitchCommands {
    /// Starts a database and a switch on a host. Returns when the switch has its bridge.
    ///
    /// # Errors
    /// The errors of the switch.
    pub fn start(&self, host: &Host, folder: &str) -> Result<Vec<Program>, String> {
        let start = |script: &str| {
            let script = format!("exec {script} > \"$0\" 2>&1");
            let program = host.start("sh", &["-c", &script, &output_in(folder)], &[]);
            program.map_err(|error| error.to_string())
        };
        shell(host, &self.create)?;
        let mut programs = vec![start(&self.server)?];
        shell(host, &self.settings)?;
        programs.push(start(&self.switch)?);
        shell(host, &self.ports).map_err(|why| told(folder, why))?;
        Ok(programs)
    }
}

/// Returns the output file of a switch's programs.
fn output_in(folder: &str) -> String {
    format!("{folder}/ovs-output")
}

/// Appends an error to the switch's own messages.
fn told(folder: &str, why: String) -> String {
    format!("{}: {why}", worst(&output_in(folder)))
}

/// Returns the most serious output of a switch: its last errors, or its last lines. If a port does
/// not open, DPDK prints two errors with the reason and then the switch two more.
fn worst(output: &str) -> String {
    let said = fs::read_to_string(output).unwrap_or_default();
    let is_bad = |line: &&str| line.contains("|EMER|") || line.contains("|ERR|");
    let bad: Vec<&str> = said.lines().filter(is_bad).collect();
    let all: Vec<&str> = if bad.is_empty() { said.lines().collect() } else { bad };
    let last = all[all.len().saturating_sub(4)..].iter();
    // Drop date and number.
    last.map(|line| line.splitn(3, '|').nth(2).unwrap_or(line)).collect::<Vec<_>>().join(" ")
}

/// Returns a hexadecimal mask with a bit for each core, of any length.
fn mask(cores: &[CoreId]) -> String {
    let highest = cores.iter().map(|core| core.0).max().unwrap_or(0);
    let digit = |digit: u32| {
        let bits = cores.iter().filter(|core| core.0 / 4 == digit).map(|core| 1 << (core.0 % 4));
        char::from_digit(bits.fold(0, |all, bit: u32| all | bit), 16).unwrap_or('0')
    };
    let digits = (0..=highest / 4).rev().map(digit);
    format!("0x{}", digits.collect::<String>())
}

#[cfg(test)]
mod tests {
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn a_mask_has_a_bit_for_each_core() {
        assert_eq!(mask(&[CoreId(0)]), "0x1");
        assert_eq!(mask(&[CoreId(1), CoreId(7), CoreId(4)]), "0x92");
        assert_eq!(mask(&[CoreId(130)]), format!("0x4{}", "0".repeat(32)));
    }

    #[test]
    fn memory_is_in_the_pages_that_are_asked_for() {
        let of = |memory| {
            let cores = SwitchCores { main: CoreId(0), packets: &[CoreId(1)] };
            Datapath::Dpdk.commands("FOLDER", memory, cores).settings
        };
        assert!(
            of(Memory::Huge).contains("-m 512 --iova-mode=va")
                && !of(Memory::Huge).contains("--no-huge")
        );
        assert!(of(Memory::Small).contains("--no-huge --legacy-mem -m 1024"));
    }

    #[test]
    fn the_worst_are_errors_or_what_was_said_last() {
        let folder = TemporaryFolder::create("burstline-ovs-").unwrap();
        let path = &folder.file("said");
        let worst_of = |said: &str| {
            fs::write(path, said).unwrap();
            worst(path)
        };
        let said = "now|1|dpdk|INFO|a\nnow|2|dpdk|ERR|b\nnow|3|x|INFO|c\nnow|4|netdev_dpdk|ERR|d\n";
        assert_eq!(worst_of(said), "dpdk|ERR|b netdev_dpdk|ERR|d");
        assert_eq!(worst_of("a\nb\nc\nd\ne\n"), "b c d e");
        fs::remove_file(path).unwrap();
        assert_eq!(worst(path), "");
    }
}

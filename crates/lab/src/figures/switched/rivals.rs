//! Who stands beside our switch.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::{Cable, Context, PAGES, Stage, load, sockets_are_there};
use crate::conditions::cycles_per_second;
use crate::live::Need;
use crate::pages::Reservation;
use crate::programs::{Datapath, Memory, Testpmd, Totals};

/// After the database has its bridge, until the switch has its ports.
const SETTLES: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
pub(super) enum Rival {
    /// Carries packets from one port to the other, and looks at nothing.
    Testpmd,
    /// Two rules, and the flows in its cache of exact matches.
    OpenVSwitch,
}

impl Rival {
    pub(super) fn needs(self) -> Vec<Need> {
        let mut needs = Testpmd::needs().to_vec();
        if let Self::OpenVSwitch = self {
            needs.extend_from_slice(Datapath::Dpdk.needs());
        }
        needs
    }

    /// Ns a packet.
    pub(super) fn turn(self, context: &Context, cable: Cable) -> Result<f64, String> {
        let _pages = Reservation::take(PAGES);
        let (mut stage, memory) = (Stage::new()?, Memory::now());
        let cycles = match self {
            Self::Testpmd => testpmd(context, &mut stage, cable, memory)?,
            Self::OpenVSwitch => open_vswitch(context, &mut stage, memory)?,
        };
        match cycles > 0.0 {
            true => Ok(1e9 * cycles / cycles_per_second()),
            false => Err("the rival has carried no packet".to_owned()),
        }
    }
}

/// Its cycles a packet.
fn testpmd(
    context: &Context,
    stage: &mut Stage,
    cable: Cable,
    memory: Memory,
) -> Result<f64, String> {
    let sockets = ["a", "b"].map(|name| stage.file(name));
    let device = |(number, socket): (usize, &String)| match cable {
        Cable::Vhost => format!("--vdev net_vhost{number},iface={socket},queues=1"),
        Cable::Memif => {
            let rest = "socket-abstract=no,rsize=10";
            format!("--vdev net_memif{number},role=server,id=0,socket={socket},{rest}")
        }
    };
    let devices: Vec<_> = sockets.iter().enumerate().map(device).collect();
    let (main, core) = (context.cores.producer, context.cores.consumer);
    let command = format!(
        "stdbuf -oL dpdk-testpmd --lcores 0@{main},1@{core} --no-pci --no-telemetry {} {} -- \
         --nb-cores=1 --forward-mode=io --record-core-cycles --no-mlockall --disable-link-check",
        memory.arguments(),
        devices.join(" ")
    );
    let process = stage.start("rival", &command)?;
    stage.wait(context, "rival", || {
        sockets_are_there(&sockets) && stage.said("rival").contains("Press enter to exit")
    })?;
    load(context, stage, cable, &sockets, memory)?;
    Ok(Totals::parse(&stage.end("rival", process)?)?.cycles)
}

/// Its processing cycles a packet.
fn open_vswitch(context: &Context, stage: &mut Stage, memory: Memory) -> Result<f64, String> {
    let folder = stage.folder.display().to_string();
    let cores = [context.cores.consumer];
    let commands = Datapath::Dpdk.commands(&folder, memory, (context.cores.producer, &cores));
    shell(&commands.create)?;
    stage.start("database", &commands.server)?;
    shell(&commands.settings)?;
    stage.start("rival", &commands.switch)?;
    let ports = ["a", "b"]
        .map(|port| format!(" -- add-port br0 {port} -- set interface {port} type=dpdkvhostuser"));
    let control = format!("ovs-vsctl --retry --timeout=60 --db=unix:'{folder}/db.sock'");
    shell(&format!(
        "OVS_RUNDIR='{folder}' {control} add-br br0 -- set bridge br0 datapath_type=netdev{}",
        ports.concat()
    ))?;
    let bridge = format!("'{folder}/br0.mgmt'");
    for (from, to) in [("a", "b"), ("b", "a")] {
        shell(&format!(
            "ovs-ofctl add-flow {bridge} priority=9,in_port={from},actions=output:{to}"
        ))?;
    }
    sleep(SETTLES);
    let sockets = ["a", "b"].map(|name| stage.file(name));
    stage.wait(context, "rival", || sockets_are_there(&sockets))?;
    load(context, stage, Cable::Vhost, &sockets, memory)?;
    let statistics =
        shell(&format!("ovs-appctl -t '{folder}'/ovs-vswitchd.*.ctl dpif-netdev/pmd-stats-show"))?;
    let of_thread = |line: &str| {
        let rest = line.trim().strip_prefix("avg processing cycles per packet:")?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    let cycles = statistics.lines().find_map(of_thread);
    cycles.ok_or_else(|| format!("no cycles: {statistics}"))
}

/// Runs a command of the shell's to its end, and returns what it has said.
fn shell(command: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-c", &format!("{command} 2>&1")]).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{command}: {}", said.trim())) }
}

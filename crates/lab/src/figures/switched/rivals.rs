//! Runs the rivals of our switch.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use burstline_testbed::Program;

use super::cable::Cable;
use super::load::{self, Loaded};
use super::{Carried, Context, Setting, pages_of_all};
use crate::live::{Contender, Need, Road, shell};
use crate::pages::{PAGES_OF_A_START, Reservation};
use crate::programs::{Bridge, Datapath, Memory, Mode, SwitchCores, Testpmd, Totals};

/// Time from the creation of the bridge until the switch's thread polls.
const SETTLES: Duration = Duration::from_millis(500);

/// Error of a testpmd turn that ended without counts.
pub(super) const NO_COUNTS: &str = "testpmd exited without its counts";

/// Names of its ports.
pub(super) const PORTS: [&str; 2] = ["a", "b"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// Forwards packets from one port to the other without reading them.
    Testpmd,
    /// Has the same rules as ours.
    OpenVSwitch,
}

impl Rival {
    pub(super) fn needs(self) -> &'static [Need] {
        match self {
            Self::Testpmd => Testpmd::needs(),
            Self::OpenVSwitch => Datapath::Dpdk.needs(),
        }
    }

    /// Starts it under load and reads its counters.
    pub(super) fn turn(
        self,
        context: &Context,
        setting: &Setting,
        road: &Road,
    ) -> Result<(Loaded, Carried), String> {
        match self {
            Self::Testpmd => testpmd(context, setting, road),
            Self::OpenVSwitch => open_vswitch(context, setting, road),
        }
    }
}

fn testpmd(context: &Context, setting: &Setting, road: &Road) -> Result<(Loaded, Carried), String> {
    let middle = Testpmd {
        main: context.cores.producer,
        cores: vec![context.cores.consumer],
        ports: load::sockets(road).map(|socket| setting.cable.near_end(socket)).to_vec(),
        mode: Mode::Forward,
        has_rates: false,
        more: "--record-core-cycles --disable-link-check".to_owned(),
    };
    let running = Contender::start(road, &middle.core_list(), &middle, &context.stop)?;
    let carried = |running: Contender<'_>| -> Result<Carried, String> {
        let pages = Some(running.pages());
        let (said, _) = running.end()?;
        let Totals { received, sent, cycles } =
            Totals::parse(&said).map_err(|why| format!("{NO_COUNTS}: {why}"))?;
        Ok(Carried { taken: received, passed_on: sent, cycles, pages })
    };
    if setting.cable != Cable::Memif {
        let loaded = load::send(context, setting, road, false)?;
        return Ok((loaded, carried(running)?));
    }
    // A memif port of DPDK's loses its counts when its peer disconnects. So the middle ends first,
    // and the load, whose counts are lost, is assumed to have sent and received what the middle
    // reports. The rates that it printed while sending are its own.
    let load = load::start(context, setting, road, false)?;
    let carried = carried(running)?;
    let (pps, _) = load.end()?;
    let totals = Totals { sent: carried.taken, received: carried.passed_on, cycles: 0.0 };
    Ok((Loaded { totals, pps }, carried))
}

fn open_vswitch(
    context: &Context,
    setting: &Setting,
    road: &Road,
) -> Result<(Loaded, Carried), String> {
    let host = &road.bed().far;
    let sockets = load::sockets(road);
    let bridge = Bridge::of_guests([(PORTS[0], &sockets[0]), (PORTS[1], &sockets[1])]);
    let programs = start_open_vswitch(context, road, &bridge)?;
    let folder = road.file("");
    let folder = folder.trim_end_matches('/');
    let rules = road.file("rules");
    let lines = setting.rules.lines(PORTS).join("\n");
    fs::write(&rules, lines).map_err(|error| format!("{rules}: {error}"))?;
    let control = format!("'{folder}/br0.mgmt'");
    shell(
        host,
        &format!("ovs-ofctl del-flows {control} && ovs-ofctl add-flows {control} {rules}"),
    )?;
    sleep(SETTLES);
    let loaded = load::send(context, setting, road, true)?;
    let ask =
        |script: String| host.command("sh", &["-c", &script]).map_err(|error| error.to_string());
    let threads =
        ask(format!("ovs-appctl -t '{folder}'/ovs-vswitchd*.ctl dpif-netdev/pmd-stats-show"))?;
    // Its guests have disconnected. Only their drop counters can still be read.
    let ports = ask(format!("ovs-ofctl -O OpenFlow14 dump-ports {control}"))?;
    let pages = Some(pages_of_all(&programs));
    drop(programs);
    Ok((loaded, Carried { pages, ..carried(&threads, &ports)? }))
}

/// Starts Open vSwitch on the measured core, except its main thread. The switch is the last item.
pub(super) fn start_open_vswitch(
    context: &Context,
    road: &Road,
    bridge: &Bridge,
) -> Result<Vec<Program>, String> {
    let folder = road.file("");
    let folder = folder.trim_end_matches('/');
    let packets = [context.cores.consumer];
    let cores = SwitchCores { main: context.cores.producer, packets: &packets };
    let _pages = Reservation::take(PAGES_OF_A_START);
    let commands = Datapath::Dpdk.commands_for(folder, Memory::now(), cores, bridge);
    commands.start(&road.bed().far, folder)
}

/// Parses the packets its threads received, and those its ports had no room for.
fn carried(threads: &str, ports: &str) -> Result<Carried, String> {
    let number = |text: &str, key: &str| {
        let rest = text.split_once(key)?.1.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse::<f64>().ok()
    };
    let taken = number(threads, "packets received:");
    let cycles = number(threads, "avg processing cycles per packet:");
    let (Some(taken), Some(cycles)) = (taken, cycles) else {
        return Err(format!("Open vSwitch has received nothing: {threads}"));
    };
    let drops = ports.split("_drops=").skip(1).filter_map(|rest| number(rest, ""));
    let passed_on = (taken - drops.sum::<f64>()) as u64;
    Ok(Carried { taken: taken as u64, passed_on, cycles, pages: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_open_vswitch_says_of_its_threads_and_ports() {
        let threads = "pmd thread numa_id 0 core_id 1:\n  packets received: 1056\n  avg cycles \
                       per packet: 51705.60 (54/1056)\n  avg processing cycles per packet: 158.50 \
                       (740064/1056)\nmain thread:\n  packets received: 0\n";
        let ports = "port 1: rx pkts=?, drop=?\n ovs_tx_retries=7, ovs_tx_failure_drops=50,\n \
                     ovs_rx_qos_drops=0,\nport 2:\n ovs_tx_failure_drops=6,\n";
        let expected = Carried { taken: 1056, passed_on: 1000, cycles: 158.5, pages: None };
        assert_eq!(carried(threads, ports), Ok(expected));
        assert!(carried("main thread:\n", ports).is_err());
    }
}

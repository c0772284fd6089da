//! `dpdk-testpmd`: DPDK's own test program.
//!
//! It is ready when it waits to be ended, and prints that when its threads forward. With
//! `--stats-period` it does not print it, and its statistics are no substitute. It first prints
//! them when the time stamp counter reaches a whole period: with a period of an hour, not in the
//! machine's first hour. So with statistics it is ready at the last line of each port that it
//! prints before its threads forward. Source: app/test-pmd/testpmd.c of DPDK 22.11 and 24.11,
//! `main` and `start_packet_forwarding`; config.c, `rxtx_config_display`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use burstline_sys::affinity::CoreId;
use burstline_testbed::signal;

use super::{Launch, Memory, Ready, number_after};
use crate::live::{Need, pages_of};
use crate::record::Pages;

/// Required programs.
const NEEDS: &[Need] = &[Need { program: "dpdk-testpmd", package: "dpdk-dev" }];

/// What it prints when its threads forward.
const FORWARDS: &str = "Press enter to exit";

/// The last line that it prints of each port before its threads forward.
const CONFIGURED: &str = "TX RS bit threshold=";

/// What it prints before its rates.
const RATES: &str = "Port statistics";

/// It has printed its rates within this many seconds, or it has hung.
const RATES_WITHIN_S: u32 = 120;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// An interface by net_af_xdp: one queue, no busy polling by the kernel.
    Interface(String),
    /// The guest's side of vhost-user, without a guest.
    Guest(Peer),
    /// The other side of vhost-user, net_vhost.
    Vhost(Peer),
    /// net_memif: rings in memory that the client owns. A client also lends its buffers, so it
    /// copies nothing.
    Memif(Peer),
    /// A device given as DPDK's own string with arguments.
    Named(String),
    /// net_null, which creates packets of this many bytes and accepts packets.
    Null {
        /// Size of each packet.
        bytes: u32,
    },
}

/// The other end of a port, reached by a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Path of the socket.
    pub socket: String,
    /// Whether testpmd creates the socket and the peer connects.
    pub is_server: bool,
}

/// Descriptors of a ring to a peer: with fewer, bursts are split.
pub const RING: u32 = 1024;

impl Device {
    /// Returns the argument that creates the port of this number.
    fn argument(&self, number: usize) -> String {
        match self {
            Self::Interface(name) => format!(
                "--vdev net_af_xdp{number},iface={name},start_queue=0,queue_count=1,busy_budget=0"
            ),
            Self::Guest(Peer { socket, is_server }) => {
                let server = if *is_server { ",server=1" } else { "" };
                format!("--vdev net_virtio_user{number},path={socket},queue_size={RING}{server}")
            }
            Self::Vhost(Peer { socket, is_server }) => {
                let client = u8::from(!is_server);
                format!("--vdev net_vhost{number},iface={socket},queues=1,client={client}")
            }
            Self::Memif(Peer { socket, is_server }) => {
                let role = if *is_server { "role=server" } else { "role=client,zero-copy=yes" };
                let log2 = RING.ilog2();
                format!(
                    "--vdev net_memif{number},{role},id=0,socket={socket},socket-abstract=no,\
                     rsize={log2}"
                )
            }
            Self::Named(words) => format!("--vdev {words}"),
            Self::Null { bytes } => format!("--vdev net_null{number},size={bytes}"),
        }
    }
}

/// The forwarding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Receives and frees packets. Its totals include cycles.
    Receive,
    /// Receives packets at one port and sends them by the other.
    Forward,
    /// Sends one packet of this many bytes without FCS, over and over.
    Send(usize),
    /// Sends packets of 60 bytes plus FCS in this many flows on each port, and receives.
    Flows(u32),
}

impl Mode {
    /// Returns testpmd's name for the mode.
    pub fn word(self) -> &'static str {
        match self {
            Self::Receive => "rxonly",
            Self::Forward => "io",
            Self::Send(_) => "txonly",
            Self::Flows(_) => "flowgen",
        }
    }

    /// Returns the first letter of the names of the counts that the mode is about.
    fn direction(self) -> char {
        match self {
            Self::Receive | Self::Forward => 'R',
            Self::Send(_) | Self::Flows(_) => 'T',
        }
    }
}

/// How to run it.
#[derive(Clone, Debug)]
pub struct Testpmd {
    /// Core of its main thread, which sleeps.
    pub main: CoreId,
    /// Core of each polling thread.
    pub cores: Vec<CoreId>,
    /// Its ports.
    pub ports: Vec<Device>,
    /// Its mode.
    pub mode: Mode,
    /// Whether it prints rates once a second, instead of a message that it is ready.
    pub has_rates: bool,
    /// Further arguments.
    pub more: String,
}

impl Testpmd {
    /// Returns the required programs.
    pub fn needs() -> &'static [Need] {
        NEEDS
    }

    /// Runs it over these interfaces.
    pub fn over(main: CoreId, cores: &[CoreId], interfaces: &[&str], mode: Mode) -> Self {
        let ports = interfaces.iter().map(|&name| Device::Interface(name.to_owned())).collect();
        let (cores, more) = (cores.to_vec(), String::new());
        Self { main, cores, ports, mode, has_rates: false, more }
    }

    /// Returns all its cores, as a list for taskset(1).
    pub fn core_list(&self) -> String {
        let all: Vec<_> = [&[self.main], &self.cores[..]].concat();
        all.iter().map(CoreId::to_string).collect::<Vec<_>>().join(",")
    }

    /// Runs it on this host and ends it after this many seconds. Returns its output on both
    /// streams. `before` is a prefix for the command: a program that runs programs, or empty.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run_for(&self, seconds: u32, memory: Memory, before: &str) -> Result<String, String> {
        let command = format!("timeout --signal=INT {seconds} {before} {}", self.command(memory));
        let output = Command::new("sh").args(["-c", &format!("exec {command} 2>&1")]).output();
        let output = output.map_err(|error| format!("{command}: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it on this host until it has printed rates for this many whole seconds after its start,
    /// and ends it. `has_rates` must be set.
    ///
    /// # Errors
    /// If it cannot be started, or ended before it had printed a rate for each second: its output.
    pub fn rate_after(&self, seconds: usize, memory: Memory) -> Result<Rated, String> {
        let (command, began) = (self.command(memory), Instant::now());
        let script =
            format!("exec timeout --signal=INT {RATES_WITHIN_S} stdbuf -oL {command} 2>&1");
        let started = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn();
        let mut running = started.map_err(|error| format!("{command}: {error}"))?;
        let output = BufReader::new(running.stdout.take().expect("it is piped"));
        let (mut said, mut shown, mut pages) = (String::new(), 0, Pages::default());
        let (sign, mut ready) = (self.ready(), None);
        for line in output.lines() {
            let line = line.map_err(|error| format!("{command}: {error}"))?;
            shown += usize::from(line.contains(RATES));
            said = said + &line + "\n";
            if ready.is_none() && sign.is_said(&said) {
                ready = Some(began.elapsed());
            }
            // The first rate is from its start, and the one now starting is incomplete.
            if line.contains(RATES) && shown == seconds + 2 {
                pages = pages_of([running.id()]);
                signal(running.id(), "-INT").map_err(|error| format!("interrupt it: {error}"))?;
            }
        }
        running.wait().map_err(|error| format!("{command}: {error}"))?;
        if shown < seconds + 2 {
            return Err(format!("dpdk-testpmd shows {shown} rates: {}", said.trim()));
        }
        let letter = self.mode.direction();
        let of = |key: &str| Rates::parse(&said, &format!("{letter}{key}")).0[seconds];
        Ok(Rated { pps: of("x-pps:"), packets: of("X-packets:") as u64, pages, ready })
    }

    fn interfaces(&self) -> Vec<&str> {
        let names = self.ports.iter().filter_map(|port| match port {
            Device::Interface(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }
}

impl Launch for Testpmd {
    fn command(&self, memory: Memory) -> String {
        let threads = (1..).zip(&self.cores).map(|(number, core)| format!("{number}@{core}"));
        let ports = self.ports.iter().enumerate().map(|(number, port)| port.argument(number));
        // A peer can map at most eight files, so not one per page.
        let is_shared =
            self.ports.iter().any(|port| matches!(port, Device::Guest(_) | Device::Memif(_)));
        let files = if is_shared { " --single-file-segments" } else { "" };
        let flags = match self.mode {
            Mode::Receive if !self.has_rates => {
                " --record-core-cycles --record-burst-stats".to_owned()
            }
            Mode::Receive | Mode::Forward => String::new(),
            Mode::Send(bytes) => format!(" --txpkts={bytes}"),
            Mode::Flows(flows) => format!(" --txpkts=64 --flowgen-flows={flows}"),
        };
        let mode = self.mode.word();
        let rates = if self.has_rates { " --stats-period=1" } else { "" };
        let more = if self.more.is_empty() { String::new() } else { format!(" {}", self.more) };
        format!(
            "dpdk-testpmd --lcores 0@{},{} --no-pci --no-telemetry {}{files} {} -- --nb-cores={} \
             --forward-mode={mode}{flags}{rates} --no-mlockall{more}",
            self.main,
            threads.collect::<Vec<_>>().join(","),
            memory.arguments(),
            ports.collect::<Vec<_>>().join(" "),
            self.cores.len()
        )
    }

    fn ready(&self) -> Ready {
        let ready = match self.has_rates {
            true => Ready::line(CONFIGURED).times(self.ports.len()),
            false => Ready::line(FORWARDS),
        };
        ready.with_xdp(&self.interfaces())
    }

    fn holds_input(&self) -> bool {
        !self.has_rates
    }
}

/// The result of a run that ended after some rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rated {
    /// Packets per second at the last whole second, received or, if the mode sends, sent.
    pub pps: f64,
    /// The same packets since its start.
    pub packets: u64,
    /// Its pages at that time.
    pub pages: Pages,
    /// Time from its start until it was ready; `None` if it did not print the sign.
    pub ready: Option<Duration>,
}

/// Its final output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Cycles of the time stamp counter per packet, in polls that found packets and in freeing
    /// them.
    pub cycles: f64,
}

impl Totals {
    /// Parses the totals at the end.
    ///
    /// # Errors
    /// If the totals are missing.
    pub fn parse(said: &str) -> Result<Self, String> {
        let totals = said.rsplit_once("Accumulated forward statistics");
        let find = |key: &str| totals.and_then(|(_, rest)| number_after(rest, key));
        let received = find("RX-packets:");
        let received = received.ok_or_else(|| format!("dpdk-testpmd has no totals: {said}"))?;
        Ok(Self {
            received: received as u64,
            sent: find("TX-packets:").unwrap_or_default() as u64,
            cycles: find("CPU cycles/packet=").unwrap_or_default(),
        })
    }
}

/// Sum of the rates of all its ports at each output. The first is from its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(pub Vec<f64>);

impl Rates {
    /// Parses the rates after a key.
    pub fn parse(said: &str, key: &str) -> Self {
        let of = |shown: &str| {
            let of_port = shown.split(key).skip(1);
            of_port.filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).sum()
        };
        Self(said.split(RATES).skip(1).map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: [CoreId; 2] = [CoreId(1), CoreId(2)];

    #[test]
    fn the_command_names_threads_ports_and_memory() {
        let testpmd = Testpmd::over(CoreId(0), &CORES[..1], &["v1", "w1"], Mode::Forward);
        let device = |number: u32, name: &str| {
            format!(
                "--vdev net_af_xdp{number},iface={name},start_queue=0,queue_count=1,busy_budget=0"
            )
        };
        assert_eq!(
            testpmd.command(Memory::Huge),
            format!(
                "dpdk-testpmd --lcores 0@0,1@1 --no-pci --no-telemetry --in-memory -m 512 \
                 --iova-mode=va {} {} -- --nb-cores=1 --forward-mode=io --no-mlockall",
                device(0, "v1"),
                device(1, "w1")
            )
        );
        assert!(testpmd.command(Memory::Small).contains(" --no-huge --no-shconf -m 1024 "));
        assert_eq!(testpmd.core_list(), "0,1");
        assert_eq!(testpmd.ready(), Ready::line("Press enter to exit").with_xdp(&["v1", "w1"]));
    }

    #[test]
    fn a_client_of_memif_lends_its_buffers_from_few_files() {
        let mut testpmd = Testpmd::over(CoreId(0), &CORES[..1], &[], Mode::Forward);
        let peer = |is_server| Peer { socket: "/s".to_owned(), is_server };
        testpmd.ports = vec![Device::Memif(peer(false)), Device::Memif(peer(true))];
        let command = testpmd.command(Memory::Huge);
        let same = "id=0,socket=/s,socket-abstract=no,rsize=10";
        assert!(command.contains(&format!("net_memif0,role=client,zero-copy=yes,{same} ")));
        assert!(command.contains(&format!("net_memif1,role=server,{same} ")), "{command}");
        assert!(command.contains(" --single-file-segments "), "{command}");
    }

    /// The sign that it is ready must also appear in the first hour after boot.
    #[test]
    fn it_is_not_asked_for_statistics_unless_for_rates() {
        let (main, cores) = (CoreId(0), &CORES[..]);
        let mut testpmd = Testpmd::over(main, cores, &["v1"], Mode::Send(60));
        assert!(testpmd.holds_input() && !testpmd.command(Memory::Huge).contains("stats-period"));
        testpmd.has_rates = true;
        testpmd.ports = vec![Device::Null { bytes: 64 }];
        testpmd.more = "--burst=64".to_owned();
        let command = testpmd.command(Memory::Huge);
        assert!(!testpmd.holds_input() && command.contains(" --stats-period=1 "), "{command}");
        // As config.c prints it, of one port and of two.
        let port = "      TX offloads=0x0 - TX RS bit threshold=0\n";
        let ready = |testpmd: &Testpmd, said: &str| testpmd.ready().is_said(said);
        assert!(ready(&testpmd, port) && !ready(&testpmd, RATES));
        testpmd.ports.push(Device::Null { bytes: 64 });
        assert!(!ready(&testpmd, port) && ready(&testpmd, &port.repeat(2)));
        testpmd.ports.pop();
        assert!(
            command.contains("--vdev net_null0,size=64 --") && command.ends_with(" --burst=64")
        );
    }

    #[test]
    fn totals_and_rates_are_those_that_it_prints() {
        let said = "Forward statistics for port 0\n RX-packets: 9 RX-dropped: 1\n\
            +++ Accumulated forward statistics for all ports+++\n  RX-packets: 12   RX-dropped: 0\n\
            \x20 TX-packets: 11\n\
            CPU cycles/packet=635.50 (total cycles=7626 / total rxonly packets=12) at 2450 MHz\n";
        let totals = Totals { received: 12, sent: 11, cycles: 635.5 };
        assert_eq!(Totals::parse(said), Ok(totals));
        assert!(Totals::parse("").is_err());
        let shown = |a: u32, b: u32| format!("Port statistics\nRx-pps: {a} \nRx-pps: {b} \n");
        let rates = Rates::parse(&(shown(1, 2) + &shown(5, 6)), "Rx-pps:");
        assert_eq!(rates.0, [3.0, 11.0]);
        assert!(Rates::parse("", "Rx-pps:").0.is_empty());
    }
}

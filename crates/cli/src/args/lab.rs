//! `burstline lab`.

use std::path::PathBuf;

use burstline_engine::PollMode;
use burstline_lab::rfc2544::Test;
use burstline_port::{Address, Rate};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand, ValueEnum};

use super::lab_report::{DocumentsArgs, ReportArgs};
use super::lab_run::{CompareArgs, ListArgs, RunArgs, RunOptions};
use super::sizes::sizes;
use super::values::{self, Cores};

/// The name of all tests of the RFC.
const ALL_TESTS: &str = "all";

/// Run experiments with contenders, measure a device, or work out what its bus can do
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) what: Lab,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    List(ListArgs),
    Run(Box<RunArgs>),
    Compare(CompareArgs),
    Rfc2544(Box<Rfc2544Args>),
    #[command(hide = true)]
    DpdkBalance(DpdkBalanceArgs),
    #[command(hide = true)]
    Generator(GeneratorArgs),
    /// When a PCIe slot saturates in three modes of DMA: lab run pcie
    Pcie(Box<RunOptions>),
    Report(ReportArgs),
    Documents(DocumentsArgs),
    /// What forwarding costs host, bus and link in three modes of DMA: lab run dma
    Dma(Box<RunOptions>),
    /// What keeping packets costs an application: lab run retention
    Retention(Box<RunOptions>),
}

/// The lab's balancer on DPDK; the lab starts it itself
#[derive(Debug, Args)]
pub(crate) struct DpdkBalanceArgs {
    /// EAL's arguments, --, and its own
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// The generator of a run on another machine, which starts it over ssh (lab run --generator)
#[derive(Debug, Args)]
pub(crate) struct GeneratorArgs {
    /// Where to send
    #[arg(long, value_name = "PORT", value_parser = values::sink)]
    pub(crate) port: Address,

    /// Where to receive the packets that come back
    #[arg(long, value_name = "PORT", value_parser = values::source)]
    pub(crate) back: Option<Address>,

    /// Exit when nothing was received for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::span_ns)]
    pub(crate) silence: u64,
}

const EXAMPLES: &str = "\
Examples:
  burstline lab rfc2544 --tx eth1 --rx eth2                     all four tests, 60 s a trial
  burstline lab rfc2544 --tx xdp:eth1 --rx xdp:eth2 --trial 2s  quicker, and the report says so
  burstline lab rfc2544 --tx v0 --rx w0 --sizes 64,1518 --tests throughput,latency --json
  burstline lab rfc2544 --tx v0 --rx w0 --sizes numa            64 to 1500 bytes
  burstline lab rfc2544 --tx v0 --rx w0 --link 1Gbit --cores 0,1 --poll busy
  burstline lab rfc2544 --dut bounce,bridge,testpmd --trial 5s  contenders that are started here
  burstline lab rfc2544 --dut bounce --sizes 64 --tests throughput,half --trial 5s

The device under test is between the two ports: a bridge, testpmd, a switch, burstline itself. It
has to forward packets from one port to the other, unchanged; with --checksums it may rewrite
headers, as a router does.

--dut runs the scenario rfc2544 (lab run rfc2544) with these contenders. They take turns at each
size, each as the device under test between two cables: network namespaces with veth pairs, gone
when the turn ends. The sender has v0, the receiver w0, the device v1 and w1. The sender has the
first core, the device the second and the receiver a third; on two cores sender and receiver share
one. A contender that is not installed is not run, and the report says so. Huge pages are reserved
while a device starts, if that is allowed: testpmd and Open vSwitch on DPDK take 512 MiB of them, or
else small pages, and the report says which.

throughput: the highest rate at which a trial loses nothing, by halving, down to --resolution.
latency: of a trial at that rate, from when a packet was due until it arrived here.
loss: from the highest rate down in tenths, until two trials in a row lose nothing.
back-to-back: the longest burst at top speed without loss, up to 2 s.
half: a million packets at half the throughput; none should be lost, reordered, duplicated or
damaged. Runs only if named.

A row is generator-limited if less than 99% of the target rate was offered and nothing was lost: the
device may be faster. It is receiver-limited if this program lost packets itself.";

/// Find a device's zero-loss rate, latency, loss and longest burst, as in RFC 2544
///
/// One port sends marked packets, the other checks them: a packet that does not arrive, or arrives
/// damaged, is lost. Sizes include the FCS. The table has a row for each size; while it runs, each
/// trial has a line on standard error. Ctrl-C prints the finished part. The threads that receive
/// give up their rights. The one that sends keeps them, because each trial opens its port again.
#[derive(Clone, Debug, Args)]
#[command(name = "rfc2544", after_long_help = EXAMPLES)]
pub(crate) struct Rfc2544Args {
    /// Where to send: an interface or xdp: [with --dut: xdp:v0]
    #[arg(long, value_name = "PORT", required_unless_present = "duts")]
    #[arg(value_parser = values::sink)]
    pub(crate) tx: Option<Address>,

    /// Where to receive: an interface or xdp: [with --dut: xdp:w0?frames=16384]
    #[arg(long, value_name = "PORT", required_unless_present = "duts")]
    #[arg(value_parser = values::source)]
    pub(crate) rx: Option<Address>,

    /// Contenders to start here and to test, each in its turns
    #[arg(long = "dut", value_name = "LIST", value_delimiter = ',')]
    pub(crate) duts: Vec<Device>,

    /// Frame sizes in bytes, FCS included: a list, standard (64 to 1518), numa (64 to 1500), or all
    /// of both
    #[arg(long, value_name = "LIST", default_value = "standard", value_parser = sizes)]
    pub(crate) sizes: Box<[u32]>,

    /// Which tests
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = ALL_TESTS)]
    #[arg(value_parser = test())]
    pub(crate) tests: Vec<String>,

    /// How long each trial sends
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::span_ns)]
    pub(crate) trial: u64,

    /// The search ends when the highest rate without loss and the lowest with loss are this close,
    /// in percent
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    pub(crate) resolution: f64,

    /// The link's rate: 10Gbit (default: the interface's; with --dut, 10Gbit)
    #[arg(long, value_name = "RATE")]
    pub(crate) link: Option<Rate>,

    /// How many flows to send
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) flows: u32,

    /// Destination link address, for devices that check it
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub(crate) dst_mac: Option<String>,

    /// The device may rewrite headers: packets are intact if their own checksums hold
    #[arg(long)]
    pub(crate) checksums: bool,

    /// Cores of sender and receiver, and with --dut of the device: A,B,C
    #[arg(long, value_name = "LIST", value_parser = values::cores)]
    pub(crate) cores: Option<Cores>,

    /// How the receiver waits for packets
    #[arg(long, value_name = "MODE", default_value = "adaptive")]
    #[arg(value_parser = values::poll_mode())]
    pub(crate) poll: PollMode,

    /// Write the record, too: DIR/rfc2544.json, for lab report and lab compare
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print one JSON object at the end instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no progress while it runs
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A contender that can be started here as the device under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// burstline bounce, in place
    Bounce,
    /// The kernel's bridge
    Bridge,
    /// dpdk-testpmd in io mode over net_af_xdp
    Testpmd,
    /// Open vSwitch, its datapath in user space over packet sockets
    Ovs,
    /// Open vSwitch, its datapath on DPDK over net_af_xdp
    OvsDpdk,
}

impl Device {
    /// Returns the name on the command line and in reports, and the name in scenarios.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Bounce => ["bounce", "burstline-xdp"],
            Self::Bridge => ["bridge", "linux-bridge"],
            Self::Testpmd => ["testpmd", "testpmd"],
            Self::Ovs => ["ovs", "ovs-userspace"],
            Self::OvsDpdk => ["ovs-dpdk", "ovs-dpdk"],
        }
    }

    /// Returns the name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Returns the name in scenarios.
    pub(crate) fn contender(self) -> &'static str {
        self.names()[1]
    }
}

/// Returns a parser for `all` or one test.
fn test() -> PossibleValuesParser {
    let all = PossibleValue::new(ALL_TESTS).help("The four of RFC 2544");
    let rfc = Test::RFC.map(|test| PossibleValue::new(test.name()));
    let half = "A million packets at half the throughput; not part of RFC 2544";
    let half = PossibleValue::new(Test::Half.name()).help(half);
    [all].into_iter().chain(rfc).chain([half]).collect::<Vec<_>>().into()
}

impl Rfc2544Args {
    /// Returns the requested tests.
    pub(crate) fn tests(&self) -> Vec<Test> {
        let is_of_all = |test: &Test| {
            Test::RFC.contains(test) && self.tests.iter().any(|name| name == ALL_TESTS)
        };
        let is_named = |test: &Test| self.tests.iter().any(|name| name == test.name());
        Test::all().filter(|test| is_of_all(test) || is_named(test)).collect()
    }
}

/// Checks a link address and returns it as typed.
fn mac(text: &str) -> Result<String, &'static str> {
    let known = burstline_wire::link_address::parse(text);
    known.map(|_| text.to_owned()).ok_or("expected a link address, e.g. 02:00:00:00:00:01")
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.01..=50.0).contains(percent));
    percent.ok_or_else(|| "expected a percentage from 0.01 to 50".to_owned())
}

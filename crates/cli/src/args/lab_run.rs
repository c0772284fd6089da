//! `burstline lab list`, `lab run` and `lab compare`.

use std::path::PathBuf;

use burstline_lab::remote::Spec;
use burstline_lab::scenario::Rate;
use clap::Args;

use super::sizes::sizes;
use super::values;

const RUN_EXAMPLES: &str = "\
Examples:
  burstline lab run numa-rtc --quick           a minute, and a record in runs/numa-rtc.json
  burstline lab run all --quick --out /tmp/lab every scenario, in under ten minutes
  burstline lab run numa-rtc --sizes 64,1500 --repeats 9
  burstline lab run numa-pipeline numa-placement
                                               figures 5 and 6 of the NUMA document
  burstline lab run dna-capture --packets 1G   a billion packets for each contender and turn
  burstline lab run dna-capture --contenders burstline-xdp,testpmd --rates max,500k
  burstline lab run ./mine.toml --json         a scenario of your own: see docs/scenarios.md
  burstline lab run numa-rtc --generator ssh:gen1,port=eth1,to=eth3
                                               frames are made by gen1, and come in here by eth3
  burstline lab run latency --generator ssh:gen1,port=eth1,to=eth3,back=eth2,from=eth4

Contenders take turns in one run, in an order set by --seed. A contender that is not installed, or
cannot do the work, is in the record as not run, with the reason. Each record is one JSON file:
machine, commands, medians with all samples, the document's own figures, and doubts: reasons to
distrust the figures. Ctrl-C ends the run and writes the finished part.

--generator makes the frames on another machine, which a cable connects to this one: above, gen1's
eth1 goes to this machine's eth3. ssh has to log in as root without a prompt, and gen1 needs this
program in the same version. Keys: port=, where the generator sends: eth1, or xdp:eth1. to=, this
machine's end of that cable [default: the same name]. back=, where the generator receives frames
that a contender passes on (bounce, switch, latency), and from=, this machine's end of that cable.
program=PATH there; config=FILE of ssh; connect=10s, silence=30s, how long to wait for either.
Contenders run in this machine's own network, on to and from as they are. The record has both
machines, and how far their clocks were apart, with the uncertainty; times of one machine are never
subtracted from times of the other. Each row has what was sent, arrived and delivered, and what was
lost between: cable, generator_port. It works with count, record, bounce, switch and latency.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  burstline lab compare numa-rtc numa-pipeline         records in runs/: the cost of distribution
  burstline lab compare before/numa-rtc.json after/numa-rtc.json
  burstline lab compare numa-rtc numa-pipeline --metric rho --dir /tmp/lab";

/// List the scenarios: what they do, from which document, and which contenders can run here
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Start each program, and what works on interfaces, for a tiny turn to see if it runs; as root
    #[arg(long = "try")]
    pub(crate) is_trying: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run scenarios: contenders at the same work, in turns, with a record of it
#[derive(Debug, Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Scenarios by name, files of your own (with a dot or a slash), or all
    #[arg(value_name = "SCENARIO", required = true)]
    pub(crate) scenarios: Vec<String>,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// How scenarios are run.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The short form of each, all within ten minutes: points without time left are skipped
    #[arg(long)]
    pub(crate) quick: bool,

    /// Where records go, each as NAME.json
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,

    /// Turns of each contender at each point
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeats: Option<u16>,

    /// Packets of a turn, in place of a time (suffixes k, M, G)
    #[arg(long, value_name = "N", value_parser = values::packets)]
    pub(crate) packets: Option<u64>,

    /// Frame sizes in bytes, FCS included: a list, standard (64 to 1518), or numa (64 to 1500)
    #[arg(long, value_name = "LIST", value_parser = sizes)]
    pub(crate) sizes: Option<Box<[u32]>>,

    /// Rates: a list of max and packets a second (suffixes k, M, G); ignored by work without a rate
    #[arg(long, value_name = "LIST", value_parser = rates)]
    pub(crate) rates: Option<Box<[Rate]>>,

    /// Contenders: any that can do the work, also if the scenario does not name them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) contenders: Vec<String>,

    /// The generator's machine, and its port: frames come from there by a cable (see below)
    #[arg(long, value_name = "ssh:HOST,port=PORT")]
    pub(crate) generator: Option<Spec>,

    /// The seed for the order of turns
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Count instructions and simulate caches, for contenders in memory: slow; needs valgrind
    #[arg(long)]
    pub(crate) simulate: bool,

    /// Print each record as JSON, one per line, instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no progress while it runs
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Compare two records: ratios by contender and point, and whether samples overlap
#[derive(Debug, Args)]
#[command(after_long_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// A record: a file, or a scenario's name in --dir
    #[arg(value_name = "A")]
    pub(crate) first: String,

    /// The record to divide by A
    #[arg(value_name = "B")]
    pub(crate) second: String,

    /// Where records are
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) dir: PathBuf,

    /// Which figure: mpps, rho, cpu_ns, ... [default: the main one of A]
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses `max,500k`.
fn rates(text: &str) -> Result<Box<[Rate]>, String> {
    let rate = |word: &str| match word {
        "max" => Some(Rate::Max),
        number => values::packets(number).ok().map(Rate::PerSecond),
    };
    let rates: Option<Vec<Rate>> = text.split(',').map(rate).collect();
    let rates = rates.filter(|rates| rates.iter().all(is_possible));
    let wanted = "rates: max, or packets a second from 1 to 1G, as max,500k";
    rates.map(Vec::into_boxed_slice).ok_or_else(|| wanted.to_owned())
}

/// Returns whether a rate is allowed, by the same limit as in scenario files.
fn is_possible(rate: &Rate) -> bool {
    !matches!(rate, Rate::PerSecond(packets) if *packets > 1_000_000_000)
}

//! The command line. Each flag is defined once, for parsing, help, completions and the man page.

mod balance;
mod bounce;
mod capture;
mod count;
mod flags;
mod flows;
mod generate;
mod lab;
mod lab_report;
mod lab_run;
mod merge;
mod questions;
mod replay;
mod run;
mod switch;

pub(crate) use flags::values;
use flags::{common, format, inline, log, moment, output, sizes, sources};
use questions::{archive, demo, doctor, explain, extcap, fetch, ports, query, top, version};

use std::path::PathBuf;

use burstline_port::{Address, Filter, Role};
use burstline_sys::users::Account;
use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand,
    ValueHint,
};

use crate::failure::Failure;
pub(crate) use archive::{CheckArgs, ExtractArgs, FilesArgs, IndexArgs, InfoArgs, RecoverArgs};
pub(crate) use balance::{BalanceArgs, ModeArg};
pub(crate) use bounce::BounceArgs;
pub(crate) use capture::{CaptureArgs, NOTHING, Trigger, UNTIL_READER};
pub(crate) use common::{CommonArgs, JobArgs, LIST, SUPERVISED, SourceArgs};
pub(crate) use count::{CountArgs, Verify};
pub(crate) use demo::DemoArgs;
pub(crate) use doctor::{
    Doctor, DoctorArgs, DoctorLogsArgs, DoctorPlanArgs, DoctorPortsArgs, Mode,
};
pub(crate) use explain::ExplainArgs;
pub(crate) use extcap::ExtcapArgs;
pub(crate) use fetch::FetchArgs;
pub(crate) use flows::{FlowsAction, FlowsArgs};
pub(crate) use format::{FormatArgs, LinkTypeArgs};
pub(crate) use generate::GenerateArgs;
pub(crate) use lab::{GeneratorArgs, Lab, LabArgs, Rfc2544Args};
pub(crate) use lab_report::{DocumentsArgs, ReportArgs};
pub(crate) use lab_run::{CompareArgs, ListArgs, RunOptions};
pub(crate) use log::LogArgs;
pub(crate) use merge::MergeArgs;
pub(crate) use moment::Moment;
pub(crate) use output::OutputArgs;
pub(crate) use ports::{PortsArgs, details};
pub(crate) use query::QueryArgs;
pub(crate) use replay::ReplayArgs;
pub(crate) use run::{LogFormat, RunArgs};
pub(crate) use sources::ANY;
pub(crate) use switch::{MirrorArgs, Named, SwitchAction, SwitchArgs};
pub(crate) use top::TopArgs;
pub(crate) use version::{VersionArgs, commit};

/// Hint that completions use for a port: see `verbs::shell`. No argument here is a host name.
pub(crate) const PORT_HINT: ValueHint = ValueHint::Hostname;

const ABOUT: &str = "Capture, replay and distribute packets, accounting for every loss";

/// Help text about ports; `{KEYS}` stands for the tables of their keys.
const PORTS: &str = "\
Sources are SCHEME:ADDRESS[?key=value&...]. A word without a scheme is a network interface if there
is one of this name, else a file; a word with a slash is a file:
  trace.pcap, file:trace.pcapng, -          pcap and pcapng, also in gzip or zstd; - is stdin
  set:/var/rec, 'set:rec/*.pcapng'          files as one source, in order of time
  'gen:?packets=1000000&size=imix'          generated traffic, at full speed
  'gen:?size=64&rate=100000'                without end, 100,000 packets a second
  eth0, 'afpacket:eth0?direction=in'        a live interface, which the host keeps using
  xdp:eth1, 'xdp:eth1@0?mode=generic'       taken from the host: all receive queues, or one
  'nicsim:a?mode=inline&rate=10Gbit'        a simulated card and its driver, bus bytes counted
  log:tap, 'log:tap?lossless&from=oldest'   packets that another program publishes as tap

The keys of gen: are the flags of generate (burstline help generate): 'gen:?size=64&flows=16'. In
the name of a file after file: write %3F for a question mark. In an address within an address write
%26 for &.

Sinks are addresses, too:
  x.pcapng, 'x.pcap?format=pcap', -         a file; format=segmented|pcapng|pcap-ns|pcap; for a new
                                            name without .pcapng, .pcap, .cap, .gz or .zst at its
                                            end write file:NAME or ./NAME
  eth1, xdp:eth1, xdp:eth1@0                sends through an interface: the kernel, or a queue
  tap:host0                                 an interface that the program makes; also a source
  inject:eth1                               the interface receives it as if from the wire; root only
  log:tap                                   other programs read it: burstline count log:tap
  null:, gen:                               discards

Sinks that send wait for room while the device makes progress, and up to wait_ms (100 ms) without
progress. Then packets are counted as lost.

Keys of each kind, as in 'xdp:eth1?frames=8192&busy_poll=64'. N is a number like 10k, SIZE like 64m,
TIME like 500ms; a yes|no key also takes on|off. burstline ports xdp explains keys and defaults:
{KEYS}
A name of --publish or log: is a socket in $BURSTLINE_RUN, if that is set. Otherwise it is in
/run/burstline for root, and in $XDG_RUNTIME_DIR/burstline or /tmp/burstline-UID for others, who can
also read root's. A name with a slash is the socket's path. log:tap@1 is one of several logs; doctor
logs lists them all.

rho in a report is percent of a core for each Gbit/s of line rate; a short run says little about it.

SIGINT, SIGTERM and SIGHUP end a job with its report. A second signal, at least a second after the
first, ends the program at once, without a report. SIGUSR1 prints statistics on standard error.

Exit code: 0 done; 1 failed, damaged input, packets lost and none delivered, any packet lost under
--fail-on-loss or --lossless, or a ledger that does not close; 2 usage. Packets that a filter or
another option of yours leaves out are not counted as a loss.";

/// `burstline`.
#[derive(Debug, Parser)]
#[command(name = "burstline", version = version::line(), about = ABOUT, after_help = PROGRAM_END)]
#[command(after_long_help = PORTS.replace("{KEYS}", &ports::outline()))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The last line of a short help text.
const SHORT_END: &str = "--help-all has all flags, with examples.";

/// The last line of the program's own short help.
const PROGRAM_END: &str = "\
burstline help COMMAND explains a command. --help-all also has sources, sinks and their keys,
signals and exit codes.";

impl Cli {
    /// Returns the whole command line, with `--help` (short text) and `--help-all` (long text).
    pub(crate) fn whole() -> Command {
        with_help(Self::command())
    }

    /// Parses the arguments of the process.
    pub(crate) fn read() -> Result<Typed, clap::Error> {
        let matches: ArgMatches = Self::whole().try_get_matches()?;
        // `-D` replaces all other arguments of a verb, so look for it before they are checked.
        let of_verb = matches.subcommand().map(|(_, verb)| verb);
        let wants =
            |verb: &ArgMatches| verb.try_get_one::<bool>(LIST).ok().flatten() == Some(&true);
        match of_verb.is_some_and(wants) {
            true => Ok(Typed::Interfaces),
            false => Self::from_arg_matches(&matches).map(|cli| Typed::Verb(Box::new(cli.verb))),
        }
    }
}

/// A parsed command line.
pub(crate) enum Typed {
    Verb(Box<Verb>),
    /// `-D`: list the interfaces.
    Interfaces,
}

impl Verb {
    /// Returns the source arguments of verbs that have them.
    fn sources(&mut self) -> Option<&mut SourceArgs> {
        match self {
            Self::Count(args) => Some(&mut args.common),
            Self::Flows(args) if args.action.is_none() => Some(&mut args.source),
            Self::Capture(args) => Some(&mut args.common),
            Self::Merge(args) => Some(&mut args.common),
            Self::Balance(args) => Some(&mut args.source),
            _ => None,
        }
    }

    /// Returns the job arguments of verbs that run a job.
    pub(crate) fn job(&self) -> Option<&JobArgs> {
        match self {
            Self::Count(args) => Some(&args.common),
            Self::Flows(args) => Some(&args.source),
            Self::Capture(args) => Some(&args.common),
            Self::Merge(args) => Some(&args.common),
            Self::Balance(args) => Some(&args.source),
            Self::Bounce(args) => Some(&args.job),
            Self::Generate(args) => Some(&args.job),
            Self::Replay(args) => Some(&args.job),
            Self::Switch(args) => Some(&args.job),
            _ => None,
        }
    }

    /// Returns the user that threads switch to when they drop privileges, if it is a different one.
    pub(crate) fn successor(&self) -> Option<&Account> {
        match self {
            Self::Query(args) => args.successor.as_ref(),
            _ => self.job()?.successor.as_ref(),
        }
    }

    /// Returns the filters of its packets.
    pub(crate) fn filters(&self) -> Vec<&Filter> {
        fn of_sources(args: &SourceArgs) -> [Option<&Filter>; 2] {
            [args.filter.as_ref(), args.only.as_ref()]
        }
        let [first, second] = match self {
            Self::Count(args) => of_sources(&args.common),
            Self::Flows(args) => of_sources(&args.source),
            Self::Capture(args) => of_sources(&args.common),
            Self::Merge(args) => of_sources(&args.common),
            Self::Balance(args) => of_sources(&args.source),
            Self::Bounce(args) => [args.only.as_ref(), None],
            Self::Replay(args) => [args.filter.as_ref(), None],
            Self::Extract(args) => [args.filter.as_ref(), None],
            Self::Switch(args) => [args.only.as_ref(), None],
            _ => [None; 2],
        };
        let third = match self {
            Self::Balance(args) => args.shed.as_ref(),
            _ => None,
        };
        [first, second, third].into_iter().flatten().collect()
    }

    /// Returns whether only errors are printed.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Self::Check(args) => args.files.quiet,
            Self::Recover(args) => args.files.quiet,
            Self::Info(args) => args.files.quiet,
            Self::Extract(args) => args.files.quiet,
            Self::Index(args) => args.files.quiet,
            Self::Fetch(args) => args.quiet,
            // Wireshark opens a window for what it says; the others have a screen or a report.
            Self::Extcap(_) | Self::Top(_) | Self::Doctor(_) => true,
            _ => self.job().is_some_and(|job| job.quiet),
        }
    }

    /// Returns whether the user asked that threads keep their privileges.
    pub(crate) fn keeps_privileges(&self) -> bool {
        self.job().is_some_and(|job| job.keep_privileges)
    }

    /// Returns the ports that must exist before the job begins: sources, and sinks that are
    /// interfaces or name nothing that exists.
    pub(crate) fn needed_ports(&self) -> Vec<&Address> {
        let (sources, sinks): (Vec<&Address>, Vec<&Address>) = match self {
            Self::Count(args) => (args.common.sources.iter().collect(), vec![]),
            Self::Capture(args) => {
                (args.common.sources.iter().collect(), args.output.iter().collect())
            }
            Self::Merge(args) => (args.common.sources.iter().collect(), vec![]),
            Self::Balance(args) => (args.source.sources.iter().collect(), vec![]),
            Self::Bounce(args) => (vec![&args.from], vec![&args.to]),
            Self::Generate(args) => (vec![], vec![&args.output]),
            Self::Replay(args) => {
                let mapped = args.map.iter().map(|(_, sink)| sink);
                (args.files.iter().collect(), args.output.iter().chain(mapped).collect())
            }
            Self::Switch(args) => (vec![], args.ports.iter().map(|port| &port.address).collect()),
            _ => (vec![], vec![]),
        };
        let is_needed = |sink: &&Address| {
            // A word that is neither interface nor file may become an interface, such as a VLAN.
            sink.resolved(Role::Sink).map_or(true, |found| found.interface().is_some())
        };
        let sinks = sinks.into_iter().filter(is_needed);
        sources.into_iter().chain(sinks).collect()
    }

    /// Returns whether the service started this process.
    pub(crate) fn is_supervised(&self) -> bool {
        match self {
            Self::Run(args) => args.answers,
            _ => self.job().is_some_and(|job| job.is_supervised),
        }
    }

    /// Splits the positional arguments into sources and filter.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        self.sources().map_or(Ok(()), SourceArgs::settle)
    }
}

/// Adds `--help` and `--help-all` to a command and all its subcommands.
fn with_help(command: Command) -> Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let long = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    let has_end = command.get_after_long_help().is_none() || command.get_after_help().is_some();
    let command = command.mut_args(with_short_help).disable_help_flag(true);
    let command = command.arg(short.help("Print a short help text"));
    let command = command.arg(long.help("Print all flags, with examples"));
    let command = if has_end { command } else { command.after_help(SHORT_END) };
    command.mut_subcommands(with_help)
}

/// Makes the first sentence of a flag's long help its short help.
fn with_short_help(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    match (arg.get_long_help(), help.split_once(". ")) {
        (None, Some((first, _))) => {
            let first = first.to_owned();
            arg.help(first).long_help(help)
        }
        _ => arg,
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Count(Box<CountArgs>),
    Flows(Box<FlowsArgs>),
    Capture(Box<CaptureArgs>),
    Merge(Box<MergeArgs>),
    Extract(Box<ExtractArgs>),
    Fetch(Box<FetchArgs>),
    Query(Box<QueryArgs>),
    Info(InfoArgs),
    Check(CheckArgs),
    Recover(RecoverArgs),
    Index(IndexArgs),
    Generate(Box<GenerateArgs>),
    Replay(Box<ReplayArgs>),
    Lab(LabArgs),
    Bounce(Box<BounceArgs>),
    Switch(Box<SwitchArgs>),
    Balance(Box<BalanceArgs>),
    Run(RunArgs),
    Demo(DemoArgs),
    Doctor(DoctorArgs),
    Ports(PortsArgs),
    Top(TopArgs),
    Explain(ExplainArgs),
    Extcap(Box<ExtcapArgs>),
    Version(VersionArgs),
    /// Print a completion script for a shell
    ///
    /// Example: burstline completions bash > /etc/bash_completion.d/burstline
    Completions {
        /// The shell
        #[arg(required_unless_present = "words")]
        shell: Option<clap_complete::Shell>,

        /// Print the ports that there are now, for the scripts
        #[arg(long, hide = true, exclusive = true)]
        words: bool,
    },
    /// Print the manual page of the program, or of a verb
    ///
    /// Examples: burstline man | man -l -, burstline man capture | man -l -,
    /// burstline man --into /usr/local/share/man/man1
    Man {
        /// The verb, as in `burstline man doctor ports`
        #[arg(value_name = "VERB")]
        verb: Vec<String>,

        /// Write all pages into this folder instead, one for each verb; it is created if missing
        #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
        #[arg(value_hint = ValueHint::DirPath)]
        into: Option<PathBuf>,
    },
}

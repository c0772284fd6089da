//! `burstline switch`: the switch, and the commands that control a running one.

mod client;
mod requests;
mod server;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use burstline_engine::{
    Fabric, INLINE_WORKERS_MAX, Inline, InlinePorts, OpenedPort, Progress, SwitchHandle,
    SwitchPort, Switched, Workers,
};
use burstline_port::{Address, OpenOptions};
use burstline_switch::{Config, SwitchConfig};

use crate::args::SwitchArgs;
use crate::confinement::read_by_nobody;
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};
use server::Server;
pub(crate) use server::serve_door;

/// Interval between looks whether to end, while nothing else happens.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs a switch, or sends a command to a running one.
pub(crate) fn switch(args: &SwitchArgs) -> Result<ExitCode, Failure> {
    match &args.action {
        Some(action) => client::control(action),
        None => run(args),
    }
}

/// Checks the configuration file of a switch without running it.
pub(super) fn check(args: &SwitchArgs) -> Result<(), Failure> {
    Read::of(args).map(drop)
}

/// A configuration file, and its text for errors.
struct Read {
    text: String,
    config: Config,
    path: String,
}

impl Read {
    fn of(args: &SwitchArgs) -> Result<Self, Failure> {
        let Some(path) = &args.config else {
            return Ok(Self {
                text: String::new(),
                config: Config::default(),
                path: String::new(),
            });
        };
        let path = path.display().to_string();
        read_by_nobody(Path::new(&path), |text| {
            let text = text.map_err(|error| Failure::new(format!("read {path}: {error}")))?;
            let config = Config::parse(&text);
            let config = config.map_err(|error| Failure::usage(format!("{path}: {error}")))?;
            Ok(Self { text, config, path: path.clone() })
        })?
    }

    /// Returns the ports of the command line and of the file.
    fn ports(&self, args: &SwitchArgs) -> Result<Vec<SwitchPort>, Failure> {
        let mut ports = args.ports.clone();
        for text in &self.config.ports {
            let port = text.parse::<SwitchPort>();
            ports.push(port.map_err(|error| Failure::usage(format!("{}: {error}", self.path)))?);
        }
        Ok(ports)
    }

    /// Returns the targets of mirrors: addresses, or names of ports.
    fn targets<'a>(&'a self, ports: &'a [SwitchPort]) -> impl Iterator<Item = &'a str> {
        let own = ports.iter().filter_map(|port| port.mirror.as_deref());
        self.config.rules.targets().into_iter().chain(own)
    }
}

/// What a switch opens: its ports and the targets of its mirrors.
#[derive(Default)]
pub(crate) struct Opens {
    pub(crate) ports: Vec<Address>,
    pub(crate) targets: Vec<Address>,
}

impl Opens {
    /// Adds targets: addresses, or names of ports, which are nothing to open.
    fn add_targets<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.targets.extend(names.into_iter().filter_map(|name| name.parse().ok()));
    }
}

/// Returns what a switch with these arguments opens.
pub(crate) fn opens(args: &SwitchArgs) -> Result<Opens, Failure> {
    let read = Read::of(args)?;
    let ports = read.ports(args)?;
    let mut opens = Opens::default();
    opens.add_targets(read.targets(&ports));
    opens.ports.extend(ports.into_iter().map(|port| port.address));
    Ok(opens)
}

fn run(args: &SwitchArgs) -> Result<ExitCode, Failure> {
    let common = &args.job;
    let stop = signals::stop_flag(common.quiet)?;
    let read = Read::of(args)?;
    let ports = read.ports(args)?;
    if ports.is_empty() && args.name.is_none() {
        return Err(Failure::usage(
            "no port: give --port or --config, or --name to add some later",
        ));
    }
    let takes_away = ports.iter().any(|port| port.address.takes_away());
    if !takes_away && args.name.is_none() && (args.only.is_some() || args.steal) {
        return Err(Failure::usage("--only and --steal apply to xdp: ports; there is none"));
    }
    // Before ports are opened: a second switch with this name must not touch them.
    let server = args.name.as_deref().map(Server::bind).transpose()?;
    let addresses: Vec<_> = ports.iter().map(|port| port.address.clone()).collect();
    let mut placed = common.place_at(&addresses, &Workers::default())?;
    placed.fit(1);
    let options = OpenOptions {
        only: args.only.clone().unwrap_or_default(),
        may_steal: args.steal,
        ..OpenOptions::default()
    };
    let (fabric, inline) = open(args, &ports, &read, &options)?;
    let (handle, orders) = SwitchHandle::new()?;
    let progress = Progress::new(1).named(["switch".to_owned()]);
    inline.iter().for_each(|inline| inline.show(&progress));
    let mut view = View::new("switch", common, Stream::Stdout);
    let run = common.run(&stop, &progress);
    let outcome = thread::scope(|scope| {
        let serving = server.as_ref().map(Server::end);
        if let Some(server) = server {
            let keeps_privileges = common.keep_privileges;
            let (begun, has_begun) = mpsc::channel();
            let control = move || server.serve(&handle, &options, keeps_privileges, begun);
            job::start(scope, "control", control)?;
            // Before packets are read: who hands the door on says who may ask for more.
            while has_begun.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
                && !stop.load(Relaxed)
            {}
        }
        let outcome = job::watch(&mut view, &run, common.keep_privileges, || {
            burstline_engine::switch(fabric, orders, &placed.threads, &run)
        });
        if let Some(end) = serving {
            end.raise();
        }
        outcome
    });
    let Switched { mut report, status } = outcome?;
    let inline = job::end_inline(inline, &stop, &mut report);
    let view = view.with_switched(status, inline);
    job::conclude(&view, &report, &common.demands())
}

/// Opens the ports and mirror targets, and builds the switch.
fn open(
    args: &SwitchArgs,
    ports: &[SwitchPort],
    read: &Read,
    options: &OpenOptions,
) -> Result<(Fabric, Option<Inline>), Failure> {
    let config = &read.config;
    let inline_ports = inline_ports(args, ports)?;
    let (opened, inline) = OpenedPort::open_all(ports, options, inline_ports.as_ref())?;
    args.job.warn(opened.iter().flat_map(OpenedPort::accounts));
    let names: Vec<&str> = opened.iter().map(OpenedPort::name).collect();
    let mut wanted: Vec<&str> = read.targets(ports).collect();
    wanted.retain(|name| !names.contains(name));
    wanted.sort_unstable();
    wanted.dedup();
    let targets = requests::open_targets(&wanted, options)?;
    let present = names.join(", ");
    let is_known = |name: &str| names.contains(&name) || wanted.contains(&name);
    config.rules.check(is_known).map_err(|unknown| {
        let error = config.unknown(&read.text, &unknown, &present);
        Failure::usage(format!("{}: {error}", read.path))
    })?;
    let defaults = SwitchConfig::default();
    let size = SwitchConfig {
        addresses_max: args.addresses.or(config.addresses_max).unwrap_or(defaults.addresses_max),
        age_ns: args.age.or(config.age_ns).unwrap_or(defaults.age_ns),
        seed: seed(),
    };
    let fabric = Fabric::with(size, opened, targets, config.rules.clone(), &config.statics)?;
    Ok((fabric, inline))
}

/// Returns the ports whose packets wait for verdicts.
fn inline_ports(args: &SwitchArgs, ports: &[SwitchPort]) -> Result<Option<InlinePorts>, Failure> {
    let Some(options) = &args.inline else { return Ok(None) };
    let present: Vec<_> = ports.iter().filter_map(|port| port.name().ok()).collect();
    if let Some(name) = args.inline_ports.iter().find(|name| !present.contains(name)) {
        let present = present.join(", ");
        return Err(Failure::usage(format!(
            "--inline-port {name}: the switch does not begin with such a port; it has: {present}"
        )));
    }
    let number = if args.inline_ports.is_empty() { ports.len() } else { args.inline_ports.len() };
    let (logs, most) = (number * options.workers, 2 * INLINE_WORKERS_MAX);
    if !(1..=most).contains(&logs) {
        return Err(Failure::usage(format!(
            "--inline: {number} ports with {} workers need {logs} logs, and there must be \
             1-{most}: name ports by --inline-port, or fewer workers",
            options.workers
        )));
    }
    Ok(Some(InlinePorts { options: options.clone(), names: args.inline_ports.clone() }))
}

/// Returns a number that no outsider can guess.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(SystemTime::now())
}

//! `burstline balance`.

use std::process::ExitCode;
use std::sync::Arc;

use burstline_engine::{
    BalanceOptions, CaptureOptions, Distribution, LogRequest, Mode, Policy, Progress, WORKERS_MAX,
    Workers,
};
use burstline_log::LogConfig;
use burstline_port::{Address, OpenOptions};
use burstline_topo::LogSharing;
use burstline_wire::hash::HashKind;

use crate::args::{BalanceArgs, ModeArg, values};
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Distributes the packets of all sources over workers.
pub(crate) fn balance(args: &BalanceArgs) -> Result<ExitCode, Failure> {
    let (common, groups) = (&args.source, &args.workers.0);
    let stop = signals::stop_flag(common.quiet)?;
    let hash = match args.hash {
        Distribution::Hash(kind) => kind,
        Distribution::RoundRobin => HashKind::None,
    };
    if args.cutoff.is_some() && args.hash == Distribution::RoundRobin {
        return Err(Failure::usage("--cutoff needs flows: --hash round-robin has none"));
    }
    let mode = mode(args)?;
    let sinks = sink_addresses(args)?;
    // Use our own worker threads unless other programs do the work.
    let has_workers = args.output.is_some() || args.log.publish.is_none();
    let workers = args.workers.workers();
    let logs = if mode == Mode::Share { 1 } else { workers };
    let log = LogRequest { divided_by: Some(logs), ..args.log.request() };
    let count = if has_workers { workers } else { 0 };
    let log_bytes = log.bytes().saturating_mul(logs);
    let sharing = match mode {
        Mode::Copy => LogSharing::Copy,
        Mode::Share => LogSharing::Share,
    };
    let placed = common.place(&Workers { count, name: "worker", log_bytes, sharing })?;
    // Workers that only count do not use timestamps.
    let may_share_times = args.output.is_none() && args.log.publish.is_none();
    let (flag, forwards) = (Some(Arc::clone(&stop)), sinks.iter().any(Address::leads_to_interface));
    let ports = OpenOptions { stop: flag, may_share_times, forwards, ..common.open_options(hash) };
    let mut ahead = common.open_sinks_ahead(&sinks, &ports)?;
    let sources = common.open_sources(&ports)?;
    let receivers = placed.threads.receivers.clamp(1, sources.len().max(1));
    if receivers * workers > WORKERS_MAX {
        let what = format!(
            "{workers} workers with {receivers} receive threads need a log each: \
            there are {WORKERS_MAX} at most"
        );
        return Err(Failure::usage(what));
    }
    let log_homes = placed.log_homes(receivers, workers);
    let options = BalanceOptions {
        job: CaptureOptions {
            threads: placed.threads,
            log: LogConfig {
                name: "balance".to_owned(),
                ..log.config(&common.sources, hash, placed.log_node)
            },
            policy: args.lossless.then_some(Policy::Lossless),
            table: ports.table.clone(),
            publish: args.log.publish.clone(),
        },
        mode,
        log_homes,
        distribution: args.hash,
        groups: groups.clone(),
        has_workers,
        cutoff_bytes: args.cutoff.map(|bytes| bytes as u64),
        shed: args.shed.clone(),
    };
    let progress = Progress::with_workers(sources.len(), workers).named(job::names(&sources));
    let mut view = View::new("balance", common, Stream::beside(&sinks));
    let open = |number: usize| common.open_sink_now(ahead[number].take(), &sinks[number], &ports);
    let demands = common.demands_with(args.lossless);
    let run = common.run(&stop, &progress);
    job::run(&mut view, &run, &demands, common.keep_privileges, || {
        burstline_engine::balance(sources, open, &options, &run)
    })
}

/// Returns how workers read packets. Prints a note if a source cannot be shared.
fn mode(args: &BalanceArgs) -> Result<Mode, Failure> {
    if args.mode == ModeArg::Copy {
        return Ok(Mode::Copy);
    }
    if args.hash == Distribution::RoundRobin {
        return Err(Failure::usage("--mode share needs flows: --hash round-robin has none"));
    }
    Ok(Mode::Share)
}

/// Returns a sink for each worker.
pub(crate) fn sink_addresses(args: &BalanceArgs) -> Result<Vec<Address>, Failure> {
    let workers = args.workers.workers();
    let Some(template) = &args.output else {
        return Ok(vec!["null:".parse()?; workers]);
    };
    if template.is_empty() {
        return Err(Failure::usage("invalid value '' for '--output <SINK>': a file, or a port"));
    }
    if workers > 1 && !template.contains(NUMBER) && template != "null:" {
        let what = format!(
            "-o {template} is one sink for {workers} workers: write {NUMBER} in it \
            where the worker's number is to be"
        );
        return Err(Failure::usage(what));
    }
    let address = |number: usize| values::sink(&template.replace(NUMBER, &number.to_string()));
    (0..workers).map(|number| Ok(address(number)?)).collect()
}

/// The placeholder for the worker's number.
const NUMBER: &str = "{k}";

//! `burstline flows`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use burstline_engine::{EngineError, FlowsOptions, Inlet, Progress, Workers};
use burstline_fleet::{BusSink, IpfixSink};
use burstline_flow::{
    BootId, NotWritten, Origin, PortName, RecordSink, SensorName, TreeSink, compact_telling,
};
use burstline_port::OpenOptions;
use burstline_wire::hash::HashKind;

use crate::args::{FlowsAction, FlowsArgs};
use crate::confinement::give_up;
use crate::failure::{FAILED, Failure, complain};
use crate::view::{self, Stream, View};
use crate::words::counted_text;
use crate::{job, signals};

/// Makes flow records of the packets of all sources, or compacts a tree of records.
pub(crate) fn flows(args: &FlowsArgs) -> Result<ExitCode, Failure> {
    if let Some(FlowsAction::Compact { tree, json }) = &args.action {
        return compact(tree, *json);
    }
    let common = &args.source;
    let stop = signals::stop_flag(common.quiet)?;
    let mut placed = common.place(&Workers::default())?;
    let ports =
        OpenOptions { stop: Some(Arc::clone(&stop)), ..common.open_options(HashKind::None) };
    // Before files are read: a host's name may take libraries, which cannot be loaded later.
    let collectors = collectors(args)?;
    let sources = common.open_sources(&ports)?;
    placed.fit(sources.len());
    let threads = placed.threads;
    let (sinks, last) = sinks(args, &sources, collectors)?;
    let options = FlowsOptions {
        flows: args.flows,
        idle_ns: args.idle,
        active_ns: args.active,
        table: ports.table.clone(),
    };
    let progress = Progress::new(sources.len()).named(job::names(&sources));
    let mut view = View::new("flows", common, Stream::Stdout);
    if let Some(last) = &last {
        view.announce(&view::flows::not_written(last));
    }
    let run = common.run(&stop, &progress);
    let mut report = job::watch(&mut view, &run, common.keep_privileges, || {
        burstline_engine::flows(sources, sinks, &options, &threads, &run)
    })?;
    if let Some(flows) = &mut report.flows {
        flows.last = last;
        let lost = flows.records_lost();
        if common.fail_on_loss && lost > 0 && report.errors.is_empty() {
            let (lost, verb) =
                (counted_text(lost, "record"), if lost == 1 { "was" } else { "were" });
            let what = format!("{lost} {verb} lost, and --fail-on-loss allows none");
            report.errors.push(EngineError::Records(what));
        }
    }
    job::conclude(&view, &report, &common.demands())
}

/// Compacts a tree of many files into few. Prints a line for each file with invalid content.
fn compact(tree: &Path, is_json: bool) -> Result<ExitCode, Failure> {
    // Its files may be of sensors.
    give_up()?;
    let mut errors = Vec::new();
    let done = compact_telling(tree, &mut |error| {
        complain(&error.to_string());
        errors.push(error.to_string());
    });
    let done = done.map_err(|error| Failure::new(error.to_string()))?;
    view::print(&view::flows::compacted(&done, &errors, is_json))?;
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The sinks for records, and what the previous start has not written.
type Sinks = (Vec<Box<dyn RecordSink>>, Option<NotWritten>);

fn collectors(args: &FlowsArgs) -> Result<Vec<Box<dyn RecordSink>>, Failure> {
    let mut sinks: Vec<Box<dyn RecordSink>> = Vec::new();
    for collector in &args.ipfix {
        let opened = IpfixSink::open(collector.clone());
        sinks.push(Box::new(opened.map_err(|error| Failure::new(error.to_string()))?));
    }
    Ok(sinks)
}

/// Opens the other sinks, beside these.
fn sinks(
    args: &FlowsArgs,
    sources: &[Inlet],
    mut sinks: Vec<Box<dyn RecordSink>>,
) -> Result<Sinks, Failure> {
    if args.output.is_none() && args.buses().next().is_none() {
        return match args.spool {
            Some(_) => Err(Failure::usage("--spool: needs --kafka or --nats".to_owned())),
            None => Ok((sinks, None)),
        };
    }
    let failed = |error: burstline_flow::TreeError| Failure::new(error.to_string());
    let sensor = sensor(args).map_err(failed)?;
    let ports = sources.iter().map(port_name).collect();
    // All sinks share the origin of this start.
    let origin = Arc::new(Origin { sensor, boot: BootId::default(), ports });
    for bus in args.buses() {
        let opened = BusSink::open(bus, &origin, args.spool.as_ref());
        sinks.push(Box::new(opened.map_err(|error| Failure::new(error.to_string()))?));
    }
    let Some(tree) = &args.output else { return Ok((sinks, None)) };
    let every = Duration::from_nanos(args.every);
    let (sink, last) = TreeSink::open(tree, Origin::clone(&origin), every).map_err(failed)?;
    sinks.push(Box::new(match args.mode {
        Some(mode) => sink.with_mode(mode),
        None => sink,
    }));
    Ok((sinks, last))
}

fn sensor(args: &FlowsArgs) -> Result<SensorName, burstline_flow::TreeError> {
    match &args.sensor {
        Some(name) => SensorName::new(name),
        None => SensorName::new(host_name().trim_end()),
    }
}

/// Returns the host name, or an empty string if the kernel does not report it.
fn host_name() -> String {
    std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default()
}

/// Returns the name of a source and the absolute paths of its files.
fn port_name(source: &Inlet) -> PortName {
    let text = |path: PathBuf| {
        let path = std::path::absolute(&path).unwrap_or(path);
        path.to_string_lossy().into_owned()
    };
    let files = source.files().into_iter().map(text).collect();
    PortName { name: source.port().info().name.clone(), files }
}

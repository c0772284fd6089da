//! `burstline capture`.

use std::process::ExitCode;
use std::slice;
use std::sync::Arc;

use burstline_engine::{CaptureOptions, Policy, Progress, Workers};
use burstline_log::LogConfig;
use burstline_port::{OpenOptions, open_stripes};

use super::output::output_options;
use super::{flight, resume};
use crate::args::CaptureArgs;
use crate::confinement::{self, takes_rights};
use crate::failure::Failure;
use crate::paths::address_of;
use crate::view::{Stream, View};
use crate::{job, reader, signals};

/// Records the packets of all sources.
pub(crate) fn capture(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag(common.quiet)?;
    if args.until_reader {
        reader::begin()?;
    }
    if !common.sources.iter().chain(&args.output).any(takes_rights) {
        confinement::give_up_before_files(common)?;
    }
    let resumed = if args.resume { resume::plan(args)? } else { None };
    let path = resumed.as_ref().map_or(args.write(), |plan| &plan.path);
    let sink = match &args.output {
        Some(output) => output.clone(),
        None => address_of(path, args.format)?,
    };
    let shape = args.log.request();
    let log_bytes = shape.bytes();
    let recorder = Workers { count: 1, name: "record", log_bytes, ..Workers::default() };
    let placed = common.place(&recorder)?;
    let threads = placed.threads;
    // With `--keep`, a log holds the history.
    let queue_bytes = shape.queue_bytes(&common.sources, &threads).filter(|_| args.keep.is_none());
    let flag = Some(Arc::clone(&stop));
    let forwards = sink.leads_to_interface();
    let mut output = output_options(&args.files, path, common)?;
    // The next file's name was free when it was chosen.
    output.creation.is_new = args.resume && output.rotation.is_none();
    let striped = resumed.as_ref().filter(|plan| plan.paths.len() > 1);
    if let Some([one]) = resumed.as_ref().map(|plan| &plan.resumed[..]) {
        output.resumed = one.clone();
    }
    let ports = OpenOptions { queue_bytes, stop: flag, forwards, output, ..common.open_options() };
    let log = shape.config(&common.sources, common.hash, placed.log_node);
    let options = CaptureOptions {
        log: LogConfig { keep_ns: args.keep, ..log },
        threads,
        policy: args.lossless.then_some(Policy::Lossless),
        table: ports.table.clone(),
        publish: args.log.publish.clone(),
    };
    let flight = flight::plan(args)?;
    let ahead = common.open_sink_ahead(&sink, &ports)?;
    let sources = common.open_sources(&ports)?;
    let progress = Progress::new(sources.len()).named(job::names(&sources));
    let stream = Stream::beside(slice::from_ref(&sink));
    let mut view = View::new("capture", common, stream).with_sources(common);
    if flight.is_none() {
        view = view.with_sink(&sink);
    }
    let demands = common.demands_with(args.lossless);
    let run = common.run(&stop, &progress);
    let report = job::watch(&mut view, &run, common.keep_privileges, || match flight {
        Some(flight) => flight.run(sources, &options, &ports, &run),
        None => {
            let open = || {
                let opened = match striped {
                    _ if ahead.is_some() => Ok(ahead.expect("the sink is open")),
                    Some(plan) => open_stripes(&sink, &plan.paths, &plan.resumed, &ports),
                    None => common.open_sink(&sink, &ports),
                };
                if args.resume { opened.map_err(resume::taken) } else { opened }
            };
            burstline_engine::capture(sources, open, &options, &run)
        }
    })?;
    if args.until_reader && reader::is_gone(0) {
        return Ok(ExitCode::SUCCESS);
    }
    job::conclude(&view, &report, &demands)
}

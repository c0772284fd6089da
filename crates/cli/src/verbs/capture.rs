//! `burstline capture`.

use std::fs;
use std::process::ExitCode;
use std::slice;
use std::sync::Arc;

use burstline_engine::{CaptureOptions, Policy, Progress, Workers};
use burstline_log::LogConfig;
use burstline_port::{
    Address, FileNaming, OpenOptions, OutputOptions, is_interface, striped_paths,
};
use burstline_sys::calendar::format_local;
use burstline_sys::clock;

use super::{flight, resume};
use crate::args::{CaptureArgs, CommonArgs, Format, OutputArgs};
use crate::failure::Failure;
use crate::paths::address_of;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Records the packets of all sources.
pub(crate) fn capture(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag(common.quiet)?;
    let resumed = if args.resume { resume::plan(args)? } else { None };
    let path = resumed.as_ref().map_or(args.write(), |plan| &plan.path);
    let sink = match &args.output {
        Some(output) => output.clone(),
        None => output_address(path, args.format)?,
    };
    let shape = args.log.request();
    let log_bytes = shape.bytes();
    let recorder = Workers { count: 1, name: "record", log_bytes, ..Workers::default() };
    let placed = common.place(&recorder)?;
    let threads = placed.threads;
    // The past is kept in a log.
    let queue_bytes = shape.queue_bytes(&common.sources, &threads).filter(|_| args.keep.is_none());
    let flag = Some(Arc::clone(&stop));
    let forwards = sink.leads_to_interface();
    let mut output = output_options(&args.files, path, common)?;
    output.resumed = resumed.as_ref().map(|plan| plan.resumed.clone());
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
    let sources = common.open_sources(&ports)?;
    let progress = Progress::new(sources.len());
    let mut view = View::new("capture", common, Stream::beside(slice::from_ref(&sink)));
    if flight.is_none() {
        view = view.with_sink(&sink);
    }
    let demands = common.demands_with(args.lossless);
    let run = common.run(&stop, &progress);
    job::run(&mut view, &run, &demands, common.keep_privileges, || match flight {
        Some(flight) => flight.run(sources, &options, &ports, &run),
        None => {
            let open = || common.open_sink(&sink, &ports);
            burstline_engine::capture(sources, open, &options, &run)
        }
    })
}

/// The address of an output that is named by its path, as it is, whatever characters are in it.
pub(super) fn output_address(path: &str, format: Option<Format>) -> Result<Address, Failure> {
    if path.is_empty() {
        return Err(Failure::usage("invalid value '' for '--write <FILE>': a path, or -"));
    }
    check_no_interface(path)?;
    Ok(address_of(path, format)?)
}

/// How files are written. Found wanting before anything is opened: a file that cannot be made must
/// not be a surprise when it is needed.
pub(super) fn output_options(
    files: &OutputArgs,
    path: &str,
    common: &CommonArgs,
) -> Result<OutputOptions, Failure> {
    files.check().map_err(Failure::usage)?;
    let keeps_privileges = common.keep_privileges;
    let mut options = files.options(keeps_privileges);
    let Some(rotation) = &options.rotation else {
        // It is made before the rights go. Files of a rotation are made by that user.
        if let Some(successor) = &common.successor {
            let creation = &mut options.creation;
            creation.user.get_or_insert(successor.user);
            creation.group.get_or_insert(successor.group);
        }
        return Ok(options);
    };
    let is_given = options.creation.user.is_some() || options.creation.group.is_some();
    if is_given && !keeps_privileges {
        let what = "--owner with several files needs --keep-privileges: later files are made \
                    without root's rights";
        return Err(Failure::usage(what));
    }
    let timed = match rotation.naming {
        FileNaming::Timed => format_local(clock::realtime_ns() / 1_000_000_000, path),
        _ => None,
    };
    let path = timed.as_deref().unwrap_or(path);
    for path in striped_paths(path).map_err(Failure::usage)? {
        if path != "-" && fs::metadata(&path).map_or(true, |found| found.is_file()) {
            flight::Names::new(&path).rehearse(keeps_privileges)?;
        }
    }
    Ok(options)
}

/// Fails where the path of a file is the name of an interface: who writes that may mean either.
pub(super) fn check_no_interface(path: &str) -> Result<(), Failure> {
    match is_interface(path) {
        true => Err(Failure::usage(format!(
            "invalid value '{path}' for '--write <FILE>': that is a network interface; for a file \
             of this name write ./{path}"
        ))),
        false => Ok(()),
    }
}

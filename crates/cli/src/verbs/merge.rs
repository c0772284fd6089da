//! `burstline merge`.

use std::process::ExitCode;
use std::slice;
use std::sync::Arc;

use burstline_engine::{
    CaptureOptions, Inlet, LogRequest, MergeOptions, Placed, Policy, Progress, Workers,
};
use burstline_port::{Address, OpenOptions, PortTable, open_sink};

use super::output::output_options;
use crate::args::{MergeArgs, NOTHING};
use crate::failure::Failure;
use crate::paths::address_of;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Merges the packets of all sources.
pub(crate) fn merge(args: &MergeArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag(common.quiet)?;
    let sink = sink_address(args)?;
    check_share(args)?;
    let mut placed = place(args)?;
    let output = output_options(&args.files, args.write.as_deref().unwrap_or(NOTHING), common)?;
    let stop_flag = Some(Arc::clone(&stop));
    let ports = OpenOptions { stop: stop_flag, output, ..common.open_options() };
    check_offsets(args)?;
    let opened = common.open_each(&ports)?;
    let offsets_ns = offsets_ns(args, &opened);
    let sources: Vec<Inlet> = opened.into_iter().flatten().collect();
    let log = request(args, sources.len());
    if args.share {
        placed.fit(sources.len() + SHARED_BEHIND);
    }
    let options = CaptureOptions {
        log: log.config(&common.sources, common.hash, placed.log_node),
        threads: placed.threads,
        policy: args.lossless.then_some(Policy::Lossless),
        table: ports.table.clone(),
        publish: args.log.publish.clone(),
    };
    // Without an output the thread that merges also counts.
    let is_one_thread = args.write.is_none() && !args.share;
    let merging = MergeOptions { lateness_ns: args.lateness, offsets_ns, is_one_thread };
    let progress = Progress::new(sources.len()).named(job::names(&sources));
    let stream = Stream::beside(slice::from_ref(&sink));
    let mut view = View::new("merge", common, stream).with_sources(common).with_sink(&sink);
    let demands = common.demands_with(args.lossless);
    let run = common.run(&stop, &progress);
    job::run(&mut view, &run, &demands, common.keep_privileges, || {
        let open = || open_sink(&sink, &ports);
        match args.share {
            false => burstline_engine::merge(sources, open, &options, &merging, &run),
            true => burstline_engine::merge_shared(sources, open, &options, &merging, &run),
        }
    })
}

/// The threads of a shared merge that read logs: one names the order, one records.
const SHARED_BEHIND: usize = 2;

/// Places the threads. One thread reads all sources of a merge that copies, so it goes near the
/// first. Without an output it also counts, and needs no second thread.
fn place(args: &MergeArgs) -> Result<Placed, Failure> {
    let common = &args.common;
    let (ports, count, receivers) = match args.share {
        false => (&common.sources[..1], usize::from(args.write.is_some()), 1),
        true => (common.ports(), SHARED_BEHIND, common.ports().len()),
    };
    let (name, log_bytes) = ("record", request(args, receivers).bytes());
    let workers = Workers { count, name, log_bytes, ..Workers::default() };
    common.place_receiving(ports, &workers, receivers)
}

/// Returns the request for the log of a merge, or for each of the `logs` of a shared one.
fn request(args: &MergeArgs, logs: usize) -> LogRequest {
    LogRequest { divided_by: args.share.then_some(logs), ..args.log.request() }
}

/// Rejects what a shared merge cannot do: nobody else can follow its order, and nothing is copied.
fn check_share(args: &MergeArgs) -> Result<(), Failure> {
    if args.share && args.log.publish.is_some() {
        let what = "--share: other programs cannot follow the order; --publish needs copies";
        return Err(Failure::usage(what));
    }
    if args.share && !args.offset.is_empty() {
        let what = "--share: packets stay as they were received; --offset needs copies";
        return Err(Failure::usage(what));
    }
    Ok(())
}

pub(super) fn sink_address(args: &MergeArgs) -> Result<Address, Failure> {
    Ok(address_of(args.write.as_deref().unwrap_or(NOTHING), args.format)?)
}

/// Rejects an offset for an address that is not a source.
fn check_offsets(args: &MergeArgs) -> Result<(), Failure> {
    let sources = &args.common.sources;
    if args.common.is_one_set() && !args.offset.is_empty() {
        let (files, most) = (sources.len(), PortTable::MAX_ENTRIES);
        let what = format!("--offset: {files} files are one source; at most {most} have their own");
        return Err(Failure::usage(what));
    }
    match args.offset.iter().find(|offset| !sources.contains(&offset.source)) {
        None => Ok(()),
        Some(offset) => {
            let source = &offset.source;
            Err(Failure::usage(format!("--offset {source}: no such source")))
        }
    }
}

/// Returns the time offset of each port; a source may consist of several ports.
fn offsets_ns(args: &MergeArgs, opened: &[Vec<Inlet>]) -> Vec<i64> {
    let each = args.common.sources.iter().zip(opened);
    let offset = |source: &Address| {
        let of_it = args.offset.iter().filter(|offset| offset.source == *source);
        of_it.fold(0, |sum: i64, offset| sum.saturating_add(offset.ns))
    };
    each.flat_map(|(source, ports)| vec![offset(source); ports.len()]).collect()
}

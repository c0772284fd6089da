//! `burstline count`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_engine::{CaptureOptions, Progress};
use burstline_port::{Address, OpenOptions, open_sink};

use super::capture::log_config;
use crate::args::{CountArgs, NOTHING};
use crate::failure::Failure;
use crate::placement::Workers;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Counts the packets of all sources.
pub(crate) fn count(args: &CountArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag()?;
    if args.log.publish.is_some() {
        return publish(args, &stop);
    }
    let mut placed = common.place(&Workers { count: 0, name: "", log_bytes: 0 })?;
    let ports = OpenOptions { stop: Some(Arc::clone(&stop)), ..common.open_options() };
    let sources = common.open_sources(&ports)?;
    placed.fit(sources.len());
    let threads = placed.threads;
    let progress = Progress::new(sources.len());
    let mut view = View::new("count", common, Stream::Stdout);
    let limits = common.limits();
    job::run(&mut view, &progress, &stop, false, common.keep_privileges, || {
        burstline_engine::count(sources, &limits, &threads, &stop, &progress)
    })
}

/// Receives into a log that others may read, and counts what is in it.
fn publish(args: &CountArgs, stop: &Arc<AtomicBool>) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let counter = Workers { count: 1, name: "record", log_bytes: args.log.buffer };
    let placed = common.place(&counter)?;
    let ports = OpenOptions { stop: Some(Arc::clone(stop)), ..common.open_options() };
    let options = CaptureOptions {
        limits: common.limits(),
        log: log_config(common, &args.log, placed.log_node),
        threads: placed.threads,
        policy: None,
        table: ports.table.clone(),
        publish: args.log.publish.clone(),
    };
    let sink: Address = NOTHING.parse()?;
    let sources = common.open_sources(&ports)?;
    let progress = Progress::new(sources.len());
    let mut view = View::new("count", common, Stream::Stdout);
    job::run(&mut view, &progress, stop, false, common.keep_privileges, || {
        let open = || open_sink(&sink, &ports);
        burstline_engine::capture(sources, open, &options, stop, &progress)
    })
}

//! `burstline count`.

use std::process::ExitCode;

use burstline_engine::Progress;

use crate::args::CountArgs;
use crate::failure::Failure;
use crate::placement::Workers;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Counts the packets of all sources.
pub(crate) fn count(args: &CountArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag()?;
    let mut placed = common.place(&Workers { count: 0, name: "", log_bytes: 0 })?;
    let sources = common.open_sources(&common.open_options())?;
    placed.fit(sources.len());
    let threads = placed.threads;
    let progress = Progress::new(sources.len());
    let mut view = View::new("count", common, Stream::Stdout);
    let limits = common.limits();
    job::run(&mut view, &progress, &stop, false, common.keep_privileges, || {
        burstline_engine::count(sources, &limits, &threads, &stop, &progress)
    })
}

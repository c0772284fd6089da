//! `burstline count`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use burstline_engine::{
    CaptureOptions, EngineError, Integrity, Progress, Verifier, Workers, count_verified,
};
use burstline_port::{Address, OpenOptions, open_sink};

use crate::args::{CountArgs, NOTHING, Verify};
use crate::failure::Failure;
use crate::outcome::Demands;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Counts the packets of all sources.
pub(crate) fn count(args: &CountArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag(common.quiet)?;
    if args.log.publish.is_some() {
        return publish(args, &stop);
    }
    if args.log.buffer.is_some() || args.log.request().has_shape() {
        let what = "--buffer, --segment and --pages apply to the log of --publish; there is none";
        return Err(Failure::usage(what));
    }
    let mut placed = common.place(&Workers::default())?;
    let ports = OpenOptions {
        stop: Some(Arc::clone(&stop)),
        // Only the latency of marked packets needs the arrival time of each packet.
        may_share_times: args.verify.is_none(),
        ..common.open_options()
    };
    let sources = common.open_sources(&ports)?;
    placed.fit(sources.len());
    let threads = placed.threads;
    let progress = Progress::new(sources.len()).named(job::names(&sources));
    let mut view = View::new("count", common, Stream::Stdout).with_sources(common);
    let run = common.run(&stop, &progress);
    let verifier = args.verify.map(|verify| Mutex::new(Verifier::new(integrity(verify))));
    // Create it before the run, which may drop the privileges for that.
    let create = |path| ports.files.create(path).map(|file| (file, path));
    let log = args.latency_log.as_deref().map(create).transpose().map_err(EngineError::from)?;
    let started = SystemTime::now();
    let report = job::watch(&mut view, &run, common.keep_privileges, || match &verifier {
        None => burstline_engine::count(sources, &threads, &run),
        Some(verifier) => count_verified(sources, verifier, &threads, &run),
    })?;
    let verifier = verifier.map(|own| own.into_inner().unwrap_or_else(PoisonError::into_inner));
    let verdict = verifier.as_ref().map(|verifier| verifier.verdict(args.expect));
    if let (Some(verifier), Some((file, path))) = (&verifier, log) {
        let elapsed = Duration::from_nanos(report.elapsed_ns);
        let mut file = BufWriter::new(file);
        let written = verifier.write_latency_log(&mut file, started, elapsed);
        written.and_then(|()| file.flush()).map_err(|error| refused(path, &error))?;
    }
    let is_refuted = verdict.as_ref().is_some_and(|verdict| !verdict.is_good());
    let demands = Demands { expected: args.expect, is_refuted, ..common.demands() };
    job::conclude(&view.with_verdict(verdict), &report, &demands)
}

fn integrity(verify: Verify) -> Integrity {
    match verify {
        Verify::Frame => Integrity::Frame,
        Verify::Checksums => Integrity::Checksums,
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("write {}: {error}", path.display()))
}

/// Receives into a log that other programs may read, and counts its packets.
fn publish(args: &CountArgs, stop: &Arc<AtomicBool>) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let log = args.log.request();
    let log_bytes = log.bytes();
    let counter = Workers { count: 1, name: "record", log_bytes, ..Workers::default() };
    let placed = common.place(&counter)?;
    let ports = OpenOptions { stop: Some(Arc::clone(stop)), ..common.open_options() };
    let options = CaptureOptions {
        log: log.config(&common.sources, common.hash, placed.log_node),
        threads: placed.threads,
        policy: None,
        table: ports.table.clone(),
        publish: args.log.publish.clone(),
    };
    let sink: Address = NOTHING.parse()?;
    let sources = common.open_sources(&ports)?;
    let progress = Progress::new(sources.len()).named(job::names(&sources));
    let mut view = View::new("count", common, Stream::Stdout).with_sources(common);
    let run = common.run(stop, &progress);
    let report = job::watch(&mut view, &run, common.keep_privileges, || {
        let open = || open_sink(&sink, &ports);
        burstline_engine::capture(sources, open, &options, &run)
    })?;
    let demands = Demands { expected: args.expect, ..common.demands() };
    job::conclude(&view, &report, &demands)
}

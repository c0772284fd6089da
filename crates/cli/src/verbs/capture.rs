//! `burstline capture`.

use std::process::ExitCode;
use std::slice;
use std::sync::Arc;

use burstline_engine::{CaptureOptions, Policy, Progress, Threads};
use burstline_log::{LogConfig, MAX_READERS};
use burstline_port::{Address, AddressError, OpenOptions, is_interface, open_sink};
use burstline_sys::memory::NodeId;

use super::{file_address, flight};
use crate::args::{CaptureArgs, CommonArgs, Format, LogArgs, NOTHING};
use crate::failure::Failure;
use crate::placement::Workers;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Records the packets of all sources.
pub(crate) fn capture(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag(common.quiet)?;
    let sink = sink_address(args)?;
    let log_bytes = args.log.bytes();
    let recorder = Workers { count: 1, name: "record", log_bytes, ..Workers::default() };
    let placed = common.place(&recorder)?;
    let threads = placed.threads;
    let (queue_bytes, flag) = (queue(args, &threads), Some(Arc::clone(&stop)));
    let forwards = sink.leads_to_interface();
    let ports = OpenOptions { queue_bytes, stop: flag, forwards, ..common.open_options() };
    let log = log_config(common, &args.log, placed.log_node);
    let options = CaptureOptions {
        limits: common.limits(),
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
    let demands = common.demands_with(args.lossless);
    job::run(&mut view, &progress, &stop, &demands, common.keep_privileges, || match flight {
        Some(flight) => flight.run(sources, &options, &ports, &stop, &progress),
        None => {
            let open = || open_sink(&sink, &ports);
            burstline_engine::capture(sources, open, &options, &stop, &progress)
        }
    })
}

/// The shape of a job's log, or of each: the recorder has a seat, and who is let in later.
pub(super) fn log_config(common: &CommonArgs, log: &LogArgs, node: Option<NodeId>) -> LogConfig {
    let hash_kind = common.hash.code().into();
    LogConfig { hash_kind, ..log_of(&common.sources, log, node) }
}

/// As [`log_config`], without a hash.
pub(super) fn log_of(sources: &[Address], log: &LogArgs, node: Option<NodeId>) -> LogConfig {
    let default = LogConfig::default();
    let readers = if log.publish.is_some() { default.max_readers } else { 0 };
    LogConfig {
        name: "capture".to_owned(),
        bytes: log.bytes(),
        segment_bytes: log.segment.unwrap_or_else(|| segment_for(sources)),
        pages: log.pages.unwrap_or_default(),
        node,
        max_readers: (readers + 1).min(MAX_READERS),
        ..default
    }
}

/// How deep a live source's own queue is to be, so that it needs no log: where one core is to do
/// all the work, and nothing is said about a log but its size.
fn queue(args: &CaptureArgs, threads: &Threads) -> Option<usize> {
    let is_alone = args.common.sources.len() == 1 && threads.cores.len() < 2;
    let log = &args.log;
    let needs_a_log = log.publish.is_some() || args.keep.is_some();
    (is_alone && !log.has_shape() && !needs_a_log).then_some(log.bytes())
}

/// The size of a segment that holds every packet of these sources.
fn segment_for(sources: &[Address]) -> usize {
    let has_files = sources.iter().any(Address::is_file);
    if has_files { 512 << 10 } else { LogConfig::default().segment_bytes }
}

/// The sink's address: `-o`, or `-w`, which takes a path as it is, whatever characters are in it.
fn sink_address(args: &CaptureArgs) -> Result<Address, Failure> {
    if let Some(output) = &args.output {
        return Ok(output.clone());
    }
    if args.write().is_empty() {
        return Err(Failure::usage("invalid value '' for '--write <FILE>': a path, or -"));
    }
    check_no_interface(args.write())?;
    Ok(address_of(args.write(), args.format)?)
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

/// The address of the file at `path`.
pub(super) fn address_of(path: &str, format: Option<Format>) -> Result<Address, AddressError> {
    if path == NOTHING {
        return path.parse();
    }
    let mut address = file_address(path);
    if let Some(format) = format {
        let name = match format {
            Format::Segmented => "segmented",
            Format::Pcapng => "pcapng",
            Format::PcapNs => "pcap-ns",
            Format::Pcap => "pcap",
        };
        address += &format!("?format={name}");
    }
    address.parse()
}

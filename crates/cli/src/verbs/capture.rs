//! `burstline capture`.

use std::process::ExitCode;
use std::slice;
use std::sync::Arc;

use burstline_engine::{CaptureOptions, Policy, Progress, Workers};
use burstline_log::LogConfig;
use burstline_port::{Address, AddressError, OpenOptions, is_interface};

use super::{file_address, flight};
use crate::args::{CaptureArgs, Format, NOTHING};
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Records the packets of all sources.
pub(crate) fn capture(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag(common.quiet)?;
    let sink = sink_address(args)?;
    let shape = args.log.request();
    let log_bytes = shape.bytes();
    let recorder = Workers { count: 1, name: "record", log_bytes, ..Workers::default() };
    let placed = common.place(&recorder)?;
    let threads = placed.threads;
    // The past is kept in a log.
    let queue_bytes = shape.queue_bytes(&common.sources, &threads).filter(|_| args.keep.is_none());
    let flag = Some(Arc::clone(&stop));
    let forwards = sink.leads_to_interface();
    let ports = OpenOptions { queue_bytes, stop: flag, forwards, ..common.open_options() };
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

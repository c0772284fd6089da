//! `burstline capture`.

use std::process::ExitCode;

use burstline_engine::{CaptureOptions, Policy, Progress};
use burstline_log::LogConfig;
use burstline_port::{Address, open_sink};

use super::file_address;
use crate::args::{CaptureArgs, Format};
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};

/// The one word for `-w` that is no path.
const NOTHING: &str = "null:";

/// Threads of a capture, unless cores are named: the receiver and the recorder.
const THREADS: usize = 2;

/// Records the packets of all sources.
pub(crate) fn capture(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let common = &args.common;
    let stop = signals::stop_flag()?;
    let sink = sink_address(args)?;
    let threads = common.threads(THREADS)?;
    let ports = common.open_options();
    let options = CaptureOptions {
        limits: common.limits(),
        log: LogConfig {
            name: "capture".to_owned(),
            bytes: args.buffer,
            segment_bytes: args.segment.unwrap_or_else(|| segment_for(&common.sources)),
            pages: args.pages,
            node: common.memory_node(&threads),
            max_readers: 1,
            hash_kind: common.hash.code().into(),
            ..LogConfig::default()
        },
        threads,
        policy: args.lossless.then_some(Policy::Lossless),
        table: ports.table.clone(),
    };
    let sources = common.open_sources(&ports)?;
    let progress = Progress::new(sources.len());
    let stream = if args.write == "-" { Stream::Stderr } else { Stream::Stdout };
    let mut view = View::new("capture", common, stream);
    job::run(&mut view, &progress, &stop, args.lossless, common.keep_privileges, || {
        let open = || open_sink(&sink, &ports);
        burstline_engine::capture(sources, open, &options, &stop, &progress)
    })
}

/// The size of a segment that holds every packet of these sources.
fn segment_for(sources: &[Address]) -> usize {
    let has_files = sources.iter().any(|source| source.scheme() == "file");
    if has_files { 512 << 10 } else { LogConfig::default().segment_bytes }
}

/// The sink's address: `-w` takes a path as it is, whatever characters are in it.
fn sink_address(args: &CaptureArgs) -> Result<Address, Failure> {
    let path = &args.write;
    if path.is_empty() {
        return Err(Failure::usage("invalid value '' for '--write <FILE>': a path, or -"));
    }
    if path == NOTHING {
        return Ok(path.parse()?);
    }
    let mut address = file_address(path);
    if let Some(format) = args.format {
        let name = match format {
            Format::Segmented => "segmented",
            Format::Pcapng => "pcapng",
            Format::PcapNs => "pcap-ns",
            Format::Pcap => "pcap",
        };
        address += &format!("?format={name}");
    }
    Ok(address.parse()?)
}

//! From an address to a port: the one list of schemes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_wire::hash::HashKind;

use crate::opened::OpenedFiles;
use crate::{
    Address, AddressError, Filter, Port, PortError, PortTable, Probe, ProbeOptions, Role, afpacket,
    file, generator, inject, log_sink, log_source, nicsim, xdp,
};

/// What every port of a job is opened with. Clones belong to the same job.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The interfaces of the job.
    pub table: PortTable,
    /// Which flow hash to compute for each packet.
    pub hash: HashKind,
    /// Bytes kept of each packet.
    pub snapshot_bytes: Option<u32>,
    /// Which packets the sources deliver; the others are [`Loss::Filtered`](crate::Loss::Filtered).
    pub filter: Filter,
    /// The files that the job reads and writes, so that it does not write what it reads.
    pub files: OpenedFiles,
    /// Whether an interface may be taken away from the host that it lives on.
    pub may_steal: bool,
    /// Which packets `xdp:` ports take from the host; the others are
    /// [`Loss::Passed`](crate::Loss::Passed).
    pub only: Filter,
    /// Whether what the sources deliver is sent on by an interface.
    pub forwards: bool,
    /// Whether one time will do for all packets of a poll, because nobody looks at it. A source
    /// that pays for each packet's own then takes that, unless its address says otherwise.
    pub may_share_times: bool,
    /// Set when the job is to end: where opening waits for something, it waits no longer.
    pub stop: Option<Arc<AtomicBool>>,
    /// Bytes of packets that a live source's own queue should have room for, where nothing else
    /// queues them. `None`: as the port thinks best.
    pub queue_bytes: Option<usize>,
}

/// One kind of port.
pub struct Scheme {
    /// What stands before the colon.
    pub name: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// An address to start from.
    pub example: &'static str,
    open_sources: Option<OpenSources>,
    open_sink: Option<Open>,
    pub(crate) probing: Probing,
}

/// How it is found out whether such a port can be opened here.
#[derive(Clone, Copy)]
pub(crate) enum Probing {
    /// It needs nothing of the machine.
    Always,
    /// It is part of this program, or it is not.
    Built(bool),
    /// By trying it with an interface.
    Interface(fn(&Address, &ProbeOptions, &mut Probe)),
}

type Open = fn(&Address, &OpenOptions) -> Result<Box<dyn Port>, PortError>;
type OpenSources = fn(&Address, &OpenOptions) -> Result<Vec<Box<dyn Port>>, PortError>;

/// Every scheme that this program has.
pub const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "file",
        help: "a capture file, FIFO or - : pcap, pcapng, either in gzip or zstd; writes pcapng",
        example: "file:trace.pcap",
        open_sources: Some(|address, options| Ok(vec![file::open_source(address, options)?])),
        open_sink: Some(file::open_sink),
        probing: Probing::Always,
    },
    Scheme {
        name: "afpacket",
        help: "copies of what a network interface receives and sends; sends by it; needs \
               CAP_NET_RAW",
        example: "afpacket:eth0?direction=in",
        open_sources: Some(|address, options| Ok(vec![afpacket::open_source(address, options)?])),
        open_sink: Some(afpacket::open_sink),
        probing: Probing::Interface(afpacket::probe),
    },
    Scheme {
        name: "xdp",
        help: "takes what a network interface receives away from the host, needs CAP_BPF; sends by \
               it, needs CAP_NET_RAW",
        example: "xdp:eth1?mode=native",
        open_sources: Some(xdp::open_sources),
        open_sink: Some(xdp::open_sink),
        probing: Probing::Interface(xdp::probe),
    },
    Scheme {
        name: "dpdk",
        help: "a device that DPDK drives, by DPDK's name and arguments; receives, sends, forwards; \
               needs a program built with make dpdk",
        example: "dpdk:net_pcap0,rx_pcap=a.pcap",
        open_sources: Some(DPDK.0),
        open_sink: Some(DPDK.1),
        probing: Probing::Built(cfg!(feature = "dpdk")),
    },
    Scheme {
        name: "log",
        help: "what another process publishes (--publish NAME), read where it lies; as a sink, \
               publishes",
        example: "log:tap?from=oldest",
        open_sources: Some(log_source::open_sources),
        open_sink: Some(log_sink::open_sink),
        probing: Probing::Always,
    },
    Scheme {
        name: "inject",
        help: "a sink whose packets come in by a network interface as if off the wire; needs root",
        example: "inject:veth1",
        open_sources: None,
        open_sink: Some(inject::open_sink),
        probing: Probing::Interface(inject::probe),
    },
    Scheme {
        name: "gen",
        help: "makes packets of given sizes, flows and rate; as a sink, discards",
        example: "gen:?packets=1000&size=64&flows=16",
        open_sources: Some(|address, options| Ok(vec![generator::open_source(address, options)?])),
        open_sink: Some(generator::open_sink),
        probing: Probing::Always,
    },
    Scheme {
        name: "nicsim",
        help: "a simulated card to receive by, with three ways of DMA and an account of the bus, \
               plugged into source=",
        example: "nicsim:a?mode=inline&source=gen:&rate=10Gbit",
        open_sources: Some(nicsim::open_sources),
        open_sink: None,
        probing: Probing::Always,
    },
    Scheme {
        name: "null",
        help: "a sink that discards",
        example: "null:",
        open_sources: None,
        open_sink: Some(generator::open_sink),
        probing: Probing::Always,
    },
];

#[cfg(feature = "dpdk")]
const DPDK: (OpenSources, Open) = (crate::dpdk::open_sources, crate::dpdk::open_sink);
#[cfg(not(feature = "dpdk"))]
const DPDK: (OpenSources, Open) = (
    |address, _| Err(PortError::WithoutDpdk { port: address.to_string() }),
    |address, _| Err(PortError::WithoutDpdk { port: address.to_string() }),
);

/// Opens an address to receive from: one port, or one for each receive queue of an interface.
pub fn open_sources(
    address: &Address,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Port>>, PortError> {
    let address = address.resolved(Role::Source)?;
    let open = scheme(&address)?.open_sources;
    let open = open.ok_or_else(|| PortError::CannotReceive { port: address.to_string() })?;
    open(&address, options)
}

/// Opens an address that is one port to receive from.
///
/// # Errors
/// As [`open_sources`], and [`PortError::SeveralQueues`].
pub fn open_source(address: &Address, options: &OpenOptions) -> Result<Box<dyn Port>, PortError> {
    let mut ports = open_sources(address, options)?;
    match (ports.pop(), ports.len()) {
        (Some(port), 0) => Ok(port),
        (_, others) => {
            Err(PortError::SeveralQueues { port: address.to_string(), queues: others + 1 })
        }
    }
}

/// Opens a sink.
pub fn open_sink(address: &Address, options: &OpenOptions) -> Result<Box<dyn Port>, PortError> {
    let address = address.resolved(Role::Sink)?;
    let open = scheme(&address)?.open_sink;
    let open = open.ok_or_else(|| PortError::CannotTransmit { port: address.to_string() })?;
    open(&address, options)
}

fn scheme(address: &Address) -> Result<&'static Scheme, AddressError> {
    let found = SCHEMES.iter().find(|scheme| scheme.name == address.scheme());
    found.ok_or_else(|| AddressError::UnknownScheme {
        address: address.to_string(),
        scheme: address.scheme().to_owned(),
        known: SCHEMES.iter().map(|scheme| scheme.name).collect::<Vec<_>>().join(", "),
    })
}

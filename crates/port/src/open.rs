//! Opens addresses as ports, and holds the only list of schemes.
//!
//! A [`Scheme`] describes itself completely: its keys, how to open it in each role, how to probe
//! it, its crossings, and properties that others need before it is open. No other code compares
//! scheme names.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_wire::hash::HashKind;

use crate::opened::OpenedFiles;
use crate::{
    Address, AddressError, Crossing, Filter, GENERATOR_KEYS, Key, OutputOptions, PortError,
    PortTable, Probe, ProbeOptions, Role, Selection, Sink, Source, Treatment, afpacket, dpdk, file,
    generator, inject, log_sink, log_source, memif, nicsim, peer, tap, vhost, xdp,
};

/// Options shared by every port of a job. Clones belong to the same job.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The interfaces of the job.
    pub table: PortTable,
    /// Which flow hash to compute for each packet.
    pub hash: HashKind,
    /// Bytes kept of each packet.
    pub snapshot_bytes: Option<u32>,
    /// Which packets the sources deliver; others are [`Loss::Filtered`](crate::Loss::Filtered).
    pub filter: Filter,
    /// Which packets of files and sets the sources deliver; others count as filtered, too.
    pub selection: Selection,
    /// The files that the job reads and writes, so that no output overwrites an input.
    pub files: OpenedFiles,
    /// Whether interfaces of a set are also named after their files: `FILE:eth1`. Then two files
    /// share no interface.
    pub names_files: bool,
    /// Whether a port may take an interface away from the host that uses it.
    pub may_steal: bool,
    /// Which packets `xdp:` ports take from the host; others are
    /// [`Loss::Passed`](crate::Loss::Passed).
    pub only: Filter,
    /// Whether an interface forwards the packets that the sources deliver.
    pub forwards: bool,
    /// Whether one timestamp will do for all packets of a poll, because the job does not use them.
    /// A source with costly per-packet timestamps then shares one, unless its address says
    /// otherwise.
    pub may_share_times: bool,
    /// Set when the job is to end: any wait while opening stops.
    pub stop: Option<Arc<AtomicBool>>,
    /// How output files are written.
    pub output: OutputOptions,
    /// Bytes of packets that a live source's own queue should hold, if nothing else queues them.
    /// `None` leaves the size to the port.
    pub queue_bytes: Option<usize>,
}

/// Does something before files are opened.
pub type BeforeFiles = fn() -> io::Result<()>;

/// A kind of port, with everything known before it is opened.
pub struct Scheme {
    /// The part before the colon.
    pub name: &'static str,
    /// The part after it, in help texts.
    pub target: &'static str,
    /// A one-line description.
    pub help: &'static str,
    /// An example address.
    pub example: &'static str,
    source: Option<Face<OpenSources>>,
    sink: Option<Face<OpenSink>>,
    /// A path between two ports of this scheme on which packets stay in place.
    crossing: Option<Face<OpenCrossings>>,
    pub(crate) probing: Probing,
    /// Whether it is a capture file.
    is_file: bool,
    /// How it names the interface whose link carries its packets.
    interface: Option<InterfaceName>,
    /// Whether its packets leave by a device or come in by one.
    is_device: bool,
    /// Whether its sources take packets away from the host.
    takes_away: bool,
    /// The scheme that a receiving port sends by, if it is not this one.
    returns_by: Option<&'static str>,
    /// The parameter that limits a source to incoming packets. Without it the source also gets
    /// packets sent by its interface.
    inward: Option<(&'static str, &'static str)>,
}

/// A port in one role: the keys of its address, and the function that opens it.
struct Face<F> {
    keys: &'static [Key],
    open: F,
}

/// How an address names an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterfaceName {
    /// By its name.
    Whole,
    /// By its name, and perhaps a queue: `NAME@QUEUE`.
    Queues,
}

/// How to find out whether this port can be opened on this machine.
#[derive(Clone, Copy)]
pub(crate) enum Probing {
    /// No test: it needs nothing of the machine.
    Always,
    /// Whether it was compiled in.
    Built(bool),
    /// Tested by checking what it needs of the machine.
    Machine(fn(&mut Probe)),
    /// Tested on an interface.
    Interface(fn(&Address, &ProbeOptions, &mut Probe)),
}

type OpenSink = fn(&Address, &OpenOptions) -> OpenedSink;
type OpenSources = fn(&Address, &OpenOptions) -> OpenedSources;
type OpenCrossings =
    fn([&Address; 2], bool, &Treatment, &OpenOptions) -> Result<Vec<Box<dyn Crossing>>, PortError>;

/// What opening an address returns, by its role.
pub(crate) type OpenedSink = Result<Box<dyn Sink>, PortError>;
pub(crate) type OpenedSources = Result<Vec<Box<dyn Source>>, PortError>;

/// The scheme of files.
pub(crate) const FILE: &str = "file";

/// The scheme of interfaces that the host keeps using.
pub(crate) const INTERFACE: &str = "afpacket";

/// The scheme of packets that another program publishes.
pub(crate) const LOG: &str = "log";

/// The defaults of a scheme.
const PLAIN: Scheme = Scheme {
    name: "",
    target: "",
    help: "",
    example: "",
    source: None,
    sink: None,
    crossing: None,
    probing: Probing::Always,
    is_file: false,
    interface: None,
    is_device: false,
    takes_away: false,
    returns_by: None,
    inward: None,
};

/// Every scheme that this program has.
pub const SCHEMES: &[Scheme] = &[
    Scheme {
        name: FILE,
        target: "PATH",
        help: "a capture file, FIFO or - : pcap or pcapng, also in gzip or zstd; writes pcapng",
        example: "file:trace.pcap",
        source: Some(Face {
            keys: file::SOURCE_KEYS,
            open: |address, options| Ok(vec![file::open_source(address, options)?]),
        }),
        sink: Some(Face { keys: file::SINK_KEYS, open: file::open_sink }),
        is_file: true,
        ..PLAIN
    },
    Scheme {
        name: file::SET,
        target: "FOLDER|GLOB",
        help: "the capture files of a folder, or those that match a pattern, in time order as one \
               source",
        example: "set:/var/rec/*.pcapng",
        source: Some(Face { keys: file::SET_KEYS, open: file::open_set_address }),
        ..PLAIN
    },
    Scheme {
        name: INTERFACE,
        target: "IFACE",
        help: "copies of the packets that a network interface receives and sends; sends through \
               it; needs CAP_NET_RAW",
        example: "afpacket:eth0?direction=in",
        source: Some(Face { keys: afpacket::KEYS, open: afpacket::open_sources }),
        sink: Some(Face { keys: afpacket::SINK_KEYS, open: afpacket::open_sink }),
        probing: Probing::Interface(afpacket::probe),
        interface: Some(InterfaceName::Whole),
        is_device: true,
        inward: Some(("direction", "in")),
        ..PLAIN
    },
    Scheme {
        name: "xdp",
        target: "IFACE[@QUEUE]",
        help: "takes the packets that a network interface receives away from the host, needs \
               CAP_BPF; sends through it, needs CAP_NET_RAW",
        example: "xdp:eth1?mode=native",
        source: Some(Face { keys: xdp::KEYS, open: xdp::open_sources }),
        sink: Some(Face { keys: xdp::SINK_KEYS, open: xdp::open_sink }),
        crossing: Some(Face { keys: xdp::BOUNCE_KEYS, open: xdp::open_crossings }),
        probing: Probing::Interface(xdp::probe),
        interface: Some(InterfaceName::Queues),
        is_device: true,
        takes_away: true,
        returns_by: Some(INTERFACE),
        ..PLAIN
    },
    Scheme {
        name: "dpdk",
        target: "DEVARGS",
        help: "a device with a DPDK driver, by DPDK's name and arguments; receives, sends, \
               forwards; needs a program built with make dpdk",
        example: "dpdk:net_pcap0,rx_pcap=a.pcap",
        source: Some(Face { keys: dpdk::KEYS, open: DPDK.0 }),
        sink: Some(Face { keys: dpdk::KEYS, open: DPDK.1 }),
        crossing: Some(Face { keys: dpdk::KEYS, open: DPDK.2 }),
        probing: Probing::Built(cfg!(feature = "dpdk")),
        is_device: true,
        ..PLAIN
    },
    Scheme {
        name: "tap",
        target: "NAME",
        help: "an interface that the program makes: it receives what the host sends there, and \
               sends to the host; needs CAP_NET_ADMIN",
        example: "tap:host0?mtu=9000",
        source: Some(Face { keys: tap::KEYS, open: tap::open_sources }),
        sink: Some(Face { keys: tap::SINK_KEYS, open: tap::open_sink }),
        probing: Probing::Machine(tap::probe),
        is_device: true,
        ..PLAIN
    },
    Scheme {
        name: "vhost",
        target: "PATH",
        help: "a guest's network card (vhost-user, device side) at the socket PATH: receives what \
               the guest sends, and sends to it",
        example: "vhost:/run/vm1.sock",
        source: Some(Face { keys: vhost::KEYS, open: peer::open_sources::<vhost::Port> }),
        sink: Some(Face { keys: vhost::SINK_KEYS, open: peer::open_sink::<vhost::Port> }),
        is_device: true,
        ..PLAIN
    },
    Scheme {
        name: "memif",
        target: "PATH",
        help: "another dataplane (VPP, DPDK) at the socket PATH, through shared memory: receives \
               what it sends, and sends to it",
        example: "memif:/run/memif.sock?client",
        source: Some(Face { keys: memif::KEYS, open: peer::open_sources::<memif::Port> }),
        sink: Some(Face { keys: memif::SINK_KEYS, open: peer::open_sink::<memif::Port> }),
        is_device: true,
        ..PLAIN
    },
    Scheme {
        name: LOG,
        target: "NAME[@LOG]",
        help: "packets that another process publishes (--publish NAME), read in place; as a sink, \
               publishes",
        example: "log:tap?from=oldest",
        source: Some(Face { keys: log_source::KEYS, open: log_source::open_sources }),
        sink: Some(Face { keys: log_sink::KEYS, open: log_sink::open_sink }),
        ..PLAIN
    },
    Scheme {
        name: "inject",
        target: "IFACE",
        help: "a sink whose packets a network interface receives as if from the wire; needs root",
        example: "inject:veth1",
        sink: Some(Face { keys: inject::KEYS, open: inject::open_sink }),
        probing: Probing::Interface(inject::probe),
        is_device: true,
        ..PLAIN
    },
    Scheme {
        name: "gen",
        help: "generates packets of given sizes, flows and rate; as a sink, discards",
        example: "gen:?packets=1000&size=64&flows=16",
        source: Some(Face { keys: GENERATOR_KEYS, open: generator::open_sources }),
        sink: Some(Face { keys: &[], open: generator::open_sink }),
        ..PLAIN
    },
    Scheme {
        name: "nicsim",
        target: "[NAME]",
        help: "a simulated card that receives from source=, with three kinds of DMA and counts of \
               bus bytes",
        example: "nicsim:a?mode=inline&source=gen:&rate=10Gbit",
        source: Some(Face { keys: nicsim::KEYS, open: nicsim::open_sources }),
        ..PLAIN
    },
    Scheme {
        name: "null",
        help: "a sink that discards",
        example: "null:",
        sink: Some(Face { keys: &[], open: generator::open_sink }),
        ..PLAIN
    },
];

#[cfg(feature = "dpdk")]
const DPDK: (OpenSources, OpenSink, OpenCrossings) =
    (dpdk::open_sources, dpdk::open_sink, |ends, is_both, treatment, _| {
        dpdk::open_crossings(ends, is_both, treatment)
    });
#[cfg(not(feature = "dpdk"))]
const DPDK: (OpenSources, OpenSink, OpenCrossings) = (
    |address, _| Err(PortError::WithoutDpdk { port: address.to_string() }),
    |address, _| Err(PortError::WithoutDpdk { port: address.to_string() }),
    |ends, _, _, _| Err(PortError::WithoutDpdk { port: ends[0].to_string() }),
);

impl Scheme {
    /// Returns the keys of a source's address, if the scheme has sources.
    pub fn source_keys(&self) -> Option<&'static [Key]> {
        self.source.as_ref().map(|face| face.keys)
    }

    /// Returns the keys of a sink's address, if the scheme has sinks.
    pub fn sink_keys(&self) -> Option<&'static [Key]> {
        self.sink.as_ref().map(|face| face.keys)
    }

    /// Returns the keys of the addresses of a crossing, if the scheme has crossings.
    pub fn crossing_keys(&self) -> Option<&'static [Key]> {
        self.crossing.as_ref().map(|face| face.keys)
    }
}

/// Queries on an address before it is opened. Scheme names are compared only here.
impl Address {
    fn known_scheme(&self) -> Result<&'static Scheme, AddressError> {
        let found = SCHEMES.iter().find(|scheme| scheme.name == self.scheme());
        let scheme = found.ok_or_else(|| AddressError::unknown_scheme(self))?;
        let is_possible = self.target().is_empty() || !scheme.target.is_empty();
        is_possible.then_some(scheme).ok_or_else(|| AddressError::no_target(self))
    }

    fn is(&self, what: impl FnOnce(&Scheme) -> bool) -> bool {
        self.known_scheme().is_ok_and(what)
    }

    /// Whether it names a capture file.
    pub fn is_file(&self) -> bool {
        self.is(|scheme| scheme.is_file)
    }

    /// Whether it names standard input or output.
    pub fn is_standard(&self) -> bool {
        self.is_file() && self.target() == "-"
    }

    /// Whether its packets leave by a device, or come in by one.
    pub fn leads_to_interface(&self) -> bool {
        self.is(|scheme| scheme.is_device)
    }

    /// Whether this source takes packets away from the host.
    pub fn takes_away(&self) -> bool {
        self.is(|scheme| scheme.takes_away)
    }

    /// Returns the name of the interface whose link packets use, and the queues that the address
    /// names. `None` if the port itself has no interface.
    pub fn interface(&self) -> Option<(&str, Option<Queues<'_>>)> {
        let target = self.target();
        match self.known_scheme().ok()?.interface? {
            InterfaceName::Whole => Some((target, None)),
            InterfaceName::Queues => Some(match target.split_once('@') {
                Some((name, queue)) => (name, Some(Queues::One(queue))),
                None => (target, Some(Queues::All)),
            }),
        }
    }

    /// Returns the same word as the address of an interface.
    #[must_use]
    pub fn as_interface(&self) -> Self {
        self.with_scheme(INTERFACE)
    }

    /// Returns the keys of this address in a role; `None` if it does not have this role.
    pub(crate) fn keys_of(&self, role: Role) -> Result<Option<&'static [Key]>, AddressError> {
        let scheme = self.known_scheme()?;
        Ok(match role {
            Role::Source => scheme.source_keys(),
            Role::Sink => scheme.sink_keys(),
        })
    }

    /// Returns the address of the sink by which this receiving port sends.
    pub(crate) fn returning(&self) -> Result<Self, AddressError> {
        match (self.known_scheme()?.returns_by, self.interface()) {
            (Some(scheme), Some((name, _))) => {
                Ok(self.with_scheme(scheme).of_parts(name, self.parameters().to_vec()))
            }
            _ => Ok(self.clone()),
        }
    }

    /// Returns this source without packets that its interface sends, unless the address already
    /// chooses.
    ///
    /// # Errors
    /// As for any address.
    pub fn inward(&self) -> Result<Self, AddressError> {
        match self.known_scheme()?.inward {
            Some((key, value)) if self.parameter(key).is_none() => {
                let separator = if self.parameters().is_empty() { '?' } else { '&' };
                format!("{self}{separator}{key}={value}").parse()
            }
            _ => Ok(self.clone()),
        }
    }
}

/// Receive queues of an interface, each a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues<'a> {
    /// All.
    All,
    /// The one of this number, as typed.
    One(&'a str),
}

/// Whether a scheme has a key that needs no value.
pub(crate) fn stands_alone(scheme: &str, key: &str) -> bool {
    let known = SCHEMES.iter().find(|known| known.name == scheme);
    let tables = known.into_iter().flat_map(|known| [known.source_keys(), known.sink_keys()]);
    let mut keys = tables.flatten().flatten();
    keys.any(|known| known.name == key && known.stands_alone)
}

/// Opens an address for receiving: one port, or one per receive queue of an interface.
pub fn open_sources(
    address: &Address,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Source>>, PortError> {
    let address = address.resolved(Role::Source)?;
    let face = address.known_scheme()?.source.as_ref();
    let face = face.ok_or_else(|| PortError::CannotReceive { port: address.to_string() })?;
    (face.open)(&address, options)
}

/// Opens an address that is a single port for receiving.
///
/// # Errors
/// As [`open_sources`], and [`PortError::SeveralQueues`].
pub fn open_source(address: &Address, options: &OpenOptions) -> Result<Box<dyn Source>, PortError> {
    let mut ports = open_sources(address, options)?;
    match (ports.pop(), ports.len()) {
        (Some(port), 0) => Ok(port),
        (_, others) => {
            Err(PortError::SeveralQueues { port: address.to_string(), queues: others + 1 })
        }
    }
}

/// Opens a sink.
pub fn open_sink(address: &Address, options: &OpenOptions) -> Result<Box<dyn Sink>, PortError> {
    let address = address.resolved(Role::Sink)?;
    let face = address.known_scheme()?.sink.as_ref();
    let face = face.ok_or_else(|| PortError::CannotTransmit { port: address.to_string() })?;
    (face.open)(&address, options)
}

/// Opens crossings between two ports, if packets can stay in place. With `is_both` it also opens
/// the other direction. Returns a crossing for each direction of each pair of queues, or `None` if
/// the two ports share no memory.
///
/// # Errors
/// [`PortError`]: the address is wrong, or the kernel or a driver refuses.
pub fn open_crossings(
    ends: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
    options: &OpenOptions,
) -> Result<Option<Vec<Box<dyn Crossing>>>, PortError> {
    let [from, to] = [ends[0].known_scheme()?, ends[1].known_scheme()?];
    match &from.crossing {
        Some(face) if from.name == to.name => {
            (face.open)(ends, is_both, treatment, options).map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;

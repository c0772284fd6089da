//! Ports: sources and sinks of packets, and a conformance suite that every backend must pass.
//!
//! ```text
//!  Source     lend(&mut Scratch)     no copy, the bytes stay where they are
//!             receive(&mut Writer)   one copy, into a log
//!  Sink       transmit(&Burst)       out; what it cannot take is `full`
//!  Crossing   pass(budget)           in by one port and out by another, in one memory
//!  all three  account()              offered, lost by cause, in flight
//! ```
//!
//! All three are a [`Port`]. Each is a trait object: one indirect call per burst, none per packet.
//! Tracing and faults are wrappers, and ports themselves. An [`Address`]
//! (`SCHEME:ADDRESS?key=value`) names a port; [`open_source`], [`open_sink`] and [`open_crossings`]
//! open it.
//!
//! Invariants, checked for every backend by the conformance suite (`tests/conformance`):
//! - I1: `offered` counts what reached the port, by a counter that the delivering loop does not
//!   increment. offered = delivered + every named loss + in flight.
//! - I2: a packet is delivered at most once, whole or flagged as cut, in the port's own order.
//! - I3: if the source can wait, no packet is lost because a log or a budget was full.
//! - I4: no input makes a port panic; damage is reported as a value with its position.
//!
//! There is one `unsafe` block: it accepts the user's promise that a log may be read in place.
#![deny(unsafe_code)]

mod account;
mod address;
mod afpacket;
mod crossing;
mod dpdk;
mod duplex;
mod error;
mod file;
mod filter;
mod generator;
mod halves;
mod inject;
mod judge;
mod live;
mod log_sink;
mod log_source;
mod lost;
mod memif;
mod nicsim;
mod open;
mod opened;
mod peer;
mod port;
mod probe;
mod replay;
mod table;
mod tap;
mod vhost;
mod watch;
mod wrap;
mod xdp;

use address::{bare, near};
use open::{OpenedSink, OpenedSources};

pub use account::{Loss, LossKind, LossPlace, Losses, PortAccount, RingFill, RingKind};
pub use address::{Address, AddressError, Key, Kind, Values};
pub use bare::{Role, interfaces_up, is_interface};
#[cfg(feature = "dpdk")]
pub use burstline_dpdk::{
    PciDriver as DpdkDriver, leaked_mbufs, pci_drivers as dpdk_drivers, version as dpdk_version,
};
pub use burstline_wire::grammar::Rate;
pub use burstline_xdp::bpf::load_for_job;
pub use crossing::{Carried, Census, Crossing, Rewrite, Touch, Touched, Treatment};
pub use duplex::{Duplex, open_duplex, open_prompt_sink, open_way_back};
pub use error::PortError;
pub use file::{
    CATALOGUE, Capture, CaptureReader, Captures, Chosen, FileNaming, Flush, Found, Indexed,
    Interfaces, NotIndexed, OutputOptions, Resumed, Rotation, RunGap, RunPiece, RunPlace,
    Selection, SetPlaces, captures_of, catalogued, check_rotated, choose, index_path,
    is_index_stale, link_siblings, newest_numbered, numbered, open_chosen, open_set, open_stripes,
    rotated, rotated_as, rotated_link_siblings, run_gaps, steady_folder, striped_paths,
    unfilled_gaps, write_index,
};
pub use filter::{Filter, FilterByLink, FilterProblem};
pub use generator::GENERATOR_KEYS;
pub use log_source::LogSettings;
pub use lost::{LostOf, LostPackets, Tally};
pub use near::did_you_mean;
pub use open::{
    BeforeFiles, OpenOptions, Queues, SCHEMES, Scheme, open_crossings, open_sink, open_source,
    open_sources,
};
pub use opened::OpenedFiles;
pub use port::{
    Capabilities, InterfaceTotals, Lent, Pacing, Places, Port, PortInfo, PortState, Received, Sink,
    Source, TimestampSource,
};
pub use probe::{Probe, ProbeOptions, Remark, probe_ports};
pub use replay::{InterfaceKey, ReplayOptions, Routes, Timing, open_replay};
pub use table::{PortTable, TableEntry};
pub use wrap::{
    Copying, FaultInjector, FaultPlan, Impairer, ImpairmentCounts, ImpairmentPlan, ImpairmentTally,
    Tracer,
};

//! What ports to other processes have in common that share rings with us: `vhost:` and `memif:`.
//!
//! ```text
//!   rings that the peer fills --> FromPeers --> LiveSource
//!   rings that we fill        <-- ToPeers   <-- LiveSink
//! ```
//!
//! A ring is in its berth, or with one of these for a burst. The control thread of the device puts
//! it there and takes it out, when a peer comes and goes. While there is none the source is idle,
//! and the sink loses what it gets as `link_down`.
//!
//! Invariants:
//! - E1: offered of a source is how far the index went that the peer sees; what is no packet is
//!   lost by name.
//! - E2: a packet is sent when the peer can see it; what a peer does with it is its own.

mod sink;
mod source;

use std::path::Path;

use burstline_peer::{AttendError, FromPeer, Lanes, ToPeer};

use crate::halves::{Devices, Half, Role};
use crate::live::LiveSource;
use crate::{Address, AddressError, Key, OpenOptions, PortError, Sink, Source, Values};

/// A device with rings.
pub(crate) trait Device: Sized + Send + Sync + 'static {
    type From: FromPeer;
    type To: ToPeer;
    /// How it was opened.
    type Options: PartialEq + Send + Sync;

    /// Keys of its sources.
    const KEYS: &'static [Key];
    /// Keys of its sinks.
    const SINK_KEYS: &'static [Key];

    /// The devices of this kind that are open.
    fn opened() -> &'static Devices<Self, Self::Options>;

    /// Reads the keys, of a source or of a sink.
    fn parse(values: &Values<'_>) -> Result<Self::Options, AddressError>;

    /// Opens one at a socket.
    fn open(path: &Path, options: &Self::Options) -> Result<Self, AttendError>;

    fn lanes(&self) -> &Lanes<Self::From, Self::To>;

    /// Whether packets may be unfinished.
    fn passes_offloads(options: &Self::Options) -> bool;
}

/// Opens a device to receive from.
pub(crate) fn open_source<D: Device>(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let wanted = D::parse(&address.values(D::KEYS)?)?;
    let half = take::<D>(address, wanted, Role::Source)?;
    let intake = source::FromPeers::new(half);
    Ok(Box::new(LiveSource::new(address, address.target(), options, intake)?))
}

/// Opens a device to send to.
pub(crate) fn open_sink<D: Device>(
    address: &Address,
    _options: &OpenOptions,
) -> Result<Box<dyn Sink>, PortError> {
    let values = address.values(D::SINK_KEYS)?;
    let wanted = D::parse(&values)?;
    sink::sink(&values, take::<D>(address, wanted, Role::Sink)?)
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read<D: Device>(address: &Address) {
    let _ = address.values(D::KEYS).map(|values| D::parse(&values).map(drop));
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink<D: Device>(address: &Address) {
    let _ = address
        .values(D::SINK_KEYS)
        .map(|values| (D::parse(&values).map(drop), crate::live::wait_ns(&values)));
}

/// Takes a role at the device of `address`, which is opened if it is not yet.
fn take<D: Device>(
    address: &Address,
    wanted: D::Options,
    role: Role,
) -> Result<Half<D, D::Options>, PortError> {
    let path = address.target();
    D::opened().take(address, path.to_owned(), wanted, role, |options| {
        Ok(D::open(Path::new(path), options)?)
    })
}

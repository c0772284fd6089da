//! The common part of ports that share rings with other processes: `vhost:` and `memif:`.
//!
//! ```text
//!   rings that the peer fills --> FromPeers --> LiveSource
//!   rings that we fill        <-- ToPeers   <-- LiveSink
//! ```
//!
//! A ring is in its berth, or held by one of these for a burst. The device's control thread puts it
//! there and removes it when a peer connects and disconnects. Without a peer the source is idle,
//! and the sink loses its packets as `link_down`.
//!
//! Invariants:
//! - E1: offered of a source is the progress of the index that the peer sees; entries that are not
//!   packets are lost by name.
//! - E2: a packet counts as sent when the peer can see it; what the peer does with it is not
//!   counted.

mod sink;
mod source;

use std::path::Path;

use burstline_peer::{AttendError, FromPeer, Lanes, ToPeer};

use crate::halves::{Devices, Half, Role};
use crate::live::{LiveSource, judge};
use crate::{
    Address, AddressError, Key, OpenOptions, OpenedSink, OpenedSources, PortError, Values,
};

/// A device with rings.
pub(crate) trait Device: Sized + Send + Sync + 'static {
    type From: FromPeer;
    type To: ToPeer;
    /// The options that it was opened with.
    type Options: PartialEq + Send + Sync;

    /// Keys of its sources.
    const KEYS: &'static [Key];
    /// Keys of its sinks.
    const SINK_KEYS: &'static [Key];

    /// Returns the open devices of this kind.
    fn opened() -> &'static Devices<Self, Self::Options>;

    /// Parses the keys of a source or a sink.
    fn parse(values: &Values<'_>) -> Result<Self::Options, AddressError>;

    /// Opens a device at a socket.
    fn open(path: &Path, options: &Self::Options) -> Result<Self, AttendError>;

    fn lanes(&self) -> &Lanes<Self::From, Self::To>;

    /// Whether packets may have unfinished offloads.
    fn passes_offloads(options: &Self::Options) -> bool;
}

/// Opens a device for receiving.
pub(crate) fn open_sources<D: Device>(address: &Address, options: &OpenOptions) -> OpenedSources {
    let wanted = D::parse(&address.values(D::KEYS)?)?;
    let judge = judge(address, options)?;
    let intake = source::FromPeers::new(take::<D>(address, wanted, Role::Source)?);
    let name = address.target();
    Ok(vec![Box::new(LiveSource::new(address, name, judge, &options.table, intake)?)])
}

/// Opens a device for sending.
pub(crate) fn open_sink<D: Device>(address: &Address, _options: &OpenOptions) -> OpenedSink {
    let values = address.values(D::SINK_KEYS)?;
    let wanted = D::parse(&values)?;
    sink::sink(&values, take::<D>(address, wanted, Role::Sink)?)
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read<D: Device>(address: &Address) {
    let _ = address.values(D::KEYS).map(|values| D::parse(&values).map(drop));
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink<D: Device>(address: &Address) {
    let _ = address
        .values(D::SINK_KEYS)
        .map(|values| (D::parse(&values).map(drop), crate::live::wait_ns(&values)));
}

/// Takes a role of the device of `address`, and opens the device if necessary.
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

//! `vhost:` ports: a guest's network card, by vhost-user.
//!
//! ```text
//!   guest, or a program with DPDK's virtio-user            this program
//!   driver's transmit ring --> memory of the guest --> source: a copy into our buffer; lend
//!   driver's receive ring  <-- memory of the guest <-- sink: a copy
//! ```
//!
//! `burstline_vhost` speaks the protocol and works on the rings. The port listens at a socket, or
//! connects to one with `client`. A guest may come, go and come back: while there is none the
//! source is idle and the sink loses what it gets as `link_down`.
//!
//! Invariants:
//! - U1: offered of a source is how far the used index went that the guest sees; a chain that is
//!   no packet is lost by name.
//! - U2: a packet is sent when the guest can see it; what a guest does with it is its own.
//! - U3: in a process a socket has at most one source and one sink.

mod settings;
mod sink;
mod source;

use std::path::Path;

use burstline_vhost::DeviceOptions;

use crate::halves::{self, Devices, Role};
use crate::live::LiveSource;
use crate::{Address, OpenOptions, PortError, Source};
pub(crate) use settings::{KEYS, SINK_KEYS};
pub(crate) use sink::open_sink;

/// One role at a device, until it is dropped.
type Half = halves::Half<burstline_vhost::Port, DeviceOptions>;

static OPEN: Devices<burstline_vhost::Port, DeviceOptions> = Devices::new();

fn take(address: &Address, options: DeviceOptions, role: Role) -> Result<Half, PortError> {
    let path = address.target();
    OPEN.take(address, path.to_owned(), options, role, |options| {
        Ok(burstline_vhost::Port::open(Path::new(path), options)?)
    })
}

/// Opens a device to receive from.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let wanted = settings::parse(&address.values(KEYS)?)?;
    let half = take(address, wanted, Role::Source)?;
    let intake = source::FromGuests::new(half);
    Ok(Box::new(LiveSource::new(address, address.target(), options, intake)?))
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = address.values(KEYS).map(|values| settings::parse(&values));
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink(address: &Address) {
    let _ = address
        .values(SINK_KEYS)
        .map(|values| (settings::parse(&values), crate::live::wait_ns(&values)));
}

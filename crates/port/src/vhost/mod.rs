//! `vhost:` ports: a guest's network card, by vhost-user.
//!
//! ```text
//!   guest, or a program with DPDK's virtio-user            this program
//!   driver's transmit ring --> memory of the guest --> source: a copy into our buffer; lend
//!   driver's receive ring  <-- memory of the guest <-- sink: a copy
//! ```
//!
//! `burstline_vhost` speaks the protocol and works on the rings. The port listens at a socket, or
//! connects to one with `client`. A guest may come, go and come back.

mod settings;

use std::path::Path;

use burstline_peer::Lanes;
use burstline_vhost::{DeviceOptions, FromGuest, Port, ToGuest};

use crate::halves::{Devices, Half, Role};
use crate::live::LiveSource;
use crate::peer::{self, Device, FromPeers};
use crate::{Address, OpenOptions, PortError, Sink, Source};
pub(crate) use settings::{KEYS, SINK_KEYS};

impl Device for Port {
    type From = FromGuest;
    type To = ToGuest;
    type Options = DeviceOptions;

    fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        self.lanes()
    }
}

static OPEN: Devices<Port, DeviceOptions> = Devices::new();

fn take(
    address: &Address,
    options: DeviceOptions,
    role: Role,
) -> Result<Half<Port, DeviceOptions>, PortError> {
    let path = address.target();
    OPEN.take(address, path.to_owned(), options, role, |options| {
        Ok(Port::open(Path::new(path), options)?)
    })
}

/// Opens a device to receive from.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let half = take(address, settings::parse(&address.values(KEYS)?)?, Role::Source)?;
    let passes_offloads = half.options().passes_offloads;
    let intake = FromPeers::new(half, passes_offloads);
    Ok(Box::new(LiveSource::new(address, address.target(), options, intake)?))
}

/// Opens a device to send to.
pub(crate) fn open_sink(
    address: &Address,
    _options: &OpenOptions,
) -> Result<Box<dyn Sink>, PortError> {
    let values = address.values(SINK_KEYS)?;
    let half = take(address, settings::parse(&values)?, Role::Sink)?;
    let passes_offloads = half.options().passes_offloads;
    peer::sink(&values, half, passes_offloads)
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

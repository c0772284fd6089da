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

use burstline_peer::{AttendError, Lanes};
use burstline_vhost::{DeviceOptions, FromGuest, Port, ToGuest};

use crate::halves::Devices;
use crate::peer::{self, Device};
use crate::{Address, OpenOptions, PortError, Sink, Source};
pub(crate) use settings::{KEYS, SINK_KEYS};

static OPEN: Devices<Port, DeviceOptions> = Devices::new();

impl Device for Port {
    type From = FromGuest;
    type To = ToGuest;
    type Options = DeviceOptions;

    fn open(path: &Path, options: &DeviceOptions) -> Result<Self, AttendError> {
        Self::open(path, options)
    }

    fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        self.lanes()
    }

    fn passes_offloads(options: &DeviceOptions) -> bool {
        options.passes_offloads
    }
}

/// Opens a device to receive from.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    let wanted = settings::parse(&address.values(KEYS)?)?;
    peer::open_source(&OPEN, address, wanted, options)
}

/// Opens a device to send to.
pub(crate) fn open_sink(
    address: &Address,
    _options: &OpenOptions,
) -> Result<Box<dyn Sink>, PortError> {
    let values = address.values(SINK_KEYS)?;
    peer::open_sink(&OPEN, &values, settings::parse(&values)?)
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

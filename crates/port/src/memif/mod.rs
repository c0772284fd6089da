//! `memif:` ports: another dataplane, such as VPP or a program with DPDK, by shared memory.
//!
//! ```text
//!   peer                                     this program
//!   its ring, in the client's memory --> source: a copy into our buffer; lend
//!   its ring, in the client's memory <-- sink: a copy
//! ```
//!
//! `burstline_memif` speaks the protocol and works on the rings. The port is the server and
//! listens, or with `client` it connects and has the memory. A peer may come, go and come back.

mod settings;

use std::path::Path;

use burstline_memif::{DeviceOptions, FromPeer, Port, ToPeer};
use burstline_peer::{AttendError, Lanes};

use crate::halves::Devices;
use crate::peer::{self, Device};
use crate::{Address, OpenOptions, PortError, Sink, Source};
pub(crate) use settings::{KEYS, SINK_KEYS};

static OPEN: Devices<Port, DeviceOptions> = Devices::new();

impl Device for Port {
    type From = FromPeer;
    type To = ToPeer;
    type Options = DeviceOptions;

    fn open(path: &Path, options: &DeviceOptions) -> Result<Self, AttendError> {
        Self::open(path, options)
    }

    fn lanes(&self) -> &Lanes<FromPeer, ToPeer> {
        self.lanes()
    }

    fn passes_offloads(_options: &DeviceOptions) -> bool {
        false
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

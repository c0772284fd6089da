//! `memif:` ports: shared memory with another dataplane, such as VPP or a DPDK program.
//!
//! ```text
//!   peer                                     this program
//!   its ring, in the client's memory --> source: a copy into our buffer; lend
//!   its ring, in the client's memory <-- sink: a copy
//! ```
//!
//! `burstline_memif` implements the protocol and the rings. The port is the server and listens, or
//! with `client` it connects and provides the memory. A peer may disconnect and reconnect.

mod settings;

use std::path::Path;

pub(crate) use burstline_memif::Port;
use burstline_memif::{DeviceOptions, FromPeer, ToPeer};
use burstline_peer::{AttendError, Lanes};

use crate::halves::Devices;
use crate::peer::Device;
use crate::{AddressError, Key, Values};
pub(crate) use settings::{KEYS, SINK_KEYS};

static OPEN: Devices<Port, DeviceOptions> = Devices::new();

impl Device for Port {
    type From = FromPeer;
    type To = ToPeer;
    type Options = DeviceOptions;

    const KEYS: &'static [Key] = KEYS;
    const SINK_KEYS: &'static [Key] = SINK_KEYS;

    fn opened() -> &'static Devices<Self, DeviceOptions> {
        &OPEN
    }

    fn parse(values: &Values<'_>) -> Result<DeviceOptions, AddressError> {
        settings::parse(values)
    }

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

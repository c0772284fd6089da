//! `vhost:` ports: a guest's network card, by vhost-user.
//!
//! ```text
//!   guest, or a program with DPDK's virtio-user            this program
//!   driver's transmit ring --> memory of the guest --> source: a copy into our buffer; lend
//!   driver's receive ring  <-- memory of the guest <-- sink: a copy
//! ```
//!
//! `burstline_vhost` implements the protocol and the rings. The port listens on a socket, or
//! connects to one with `client`. A guest may disconnect and reconnect.

mod settings;

use std::path::Path;

use burstline_peer::{AttendError, Lanes};
pub(crate) use burstline_vhost::Port;
use burstline_vhost::{DeviceOptions, FromGuest, ToGuest};

use crate::halves::Devices;
use crate::peer::Device;
use crate::{AddressError, Key, Values};
pub(crate) use settings::{KEYS, SINK_KEYS};

static OPEN: Devices<Port, DeviceOptions> = Devices::new();

impl Device for Port {
    type From = FromGuest;
    type To = ToGuest;
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

    fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        self.lanes()
    }

    fn passes_offloads(options: &DeviceOptions) -> bool {
        options.passes_offloads
    }
}

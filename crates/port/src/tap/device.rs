//! The open devices of this process, so that a source and a sink can share one.

use burstline_sys::tap::{self, Tap, TapOptions};

use crate::halves::{self, Devices, Role};
use crate::{Address, PortError};

/// One role of a device, held until dropped.
pub(super) type Half = halves::Half<Tap, TapOptions>;

static OPEN: Devices<Tap, TapOptions> = Devices::new();

/// Takes a role of the device of `address`, and opens the device if necessary.
pub(super) fn take(address: &Address, options: TapOptions, role: Role) -> Result<Half, PortError> {
    let name = address.target();
    let key = format!("{name} {}", tap::network());
    OPEN.take(address, key, options, role, |options| Ok(Tap::open(name, options)?))
}

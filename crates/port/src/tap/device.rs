//! The devices that this process has open, so that a source and a sink share one.

use burstline_sys::tap::{self, Tap, TapOptions};

use crate::halves::{self, Devices, Role};
use crate::{Address, PortError};

/// One role at a device, until it is dropped.
pub(super) type Half = halves::Half<Tap, TapOptions>;

static OPEN: Devices<Tap, TapOptions> = Devices::new();

/// Takes a role at the device of `address`, which is opened if it is not yet.
pub(super) fn take(address: &Address, options: TapOptions, role: Role) -> Result<Half, PortError> {
    let name = address.target();
    let key = format!("{name} {}", tap::network());
    OPEN.take(address, key, options, role, |options| Ok(Tap::open(name, options)?))
}

/// Packets that its queues have room for.
pub(super) fn capacity(half: &Half) -> u64 {
    u64::from(half.device().depth()) * u64::from(half.options().queues)
}

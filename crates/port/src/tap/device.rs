//! The devices that this process has open, so that a source and a sink share one.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use burstline_sys::tap::{self, Tap, TapOptions};

use crate::{Address, PortError};

/// A device, and which roles at it are taken.
pub(super) struct Device {
    pub(super) tap: Tap,
    network: u64,
    options: TapOptions,
    /// The source, and the sink (T3).
    roles: Mutex<[bool; 2]>,
}

/// One role at a device, until it is dropped.
pub(super) struct Half {
    device: Arc<Device>,
    role: Role,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Sink,
}

static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

impl Half {
    /// Takes a role at the device of `address`, which is opened if it is not yet.
    pub(super) fn take(
        address: &Address,
        options: &TapOptions,
        role: Role,
    ) -> Result<Self, PortError> {
        let network = tap::network();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|device| device.strong_count() > 0);
        let is_it = |device: &Arc<Device>| {
            device.network == network && device.tap.interface().name == address.target()
        };
        let known = open.iter().filter_map(Weak::upgrade).find(is_it);
        let device = match known {
            Some(device) => device,
            None => {
                let tap = Tap::open(address.target(), options)?;
                let (options, roles) = (options.clone(), Mutex::default());
                let device = Arc::new(Device { tap, network, options, roles });
                open.push(Arc::downgrade(&device));
                device
            }
        };
        if device.options != *options {
            return Err(PortError::TapDiffers { port: address.to_string() });
        }
        let mut roles = device.roles.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut roles[role as usize], true) {
            return Err(PortError::TapTaken { port: address.to_string() });
        }
        drop(roles);
        Ok(Self { device, role })
    }

    pub(super) fn tap(&self) -> &Tap {
        &self.device.tap
    }

    /// Packets that its queues have room for.
    pub(super) fn capacity(&self) -> u64 {
        u64::from(self.device.options.depth) * u64::from(self.device.options.queues)
    }

    pub(super) fn passes_offloads(&self) -> bool {
        self.device.options.passes_offloads
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let mut roles = self.device.roles.lock().unwrap_or_else(PoisonError::into_inner);
        roles[self.role as usize] = false;
    }
}

//! Devices that a source and a sink share, so that one address can be opened as both.
//!
//! ```text
//!   source  Half --.
//!                  +--> Shared { device, options }    opened by the first, closed with the last
//!   sink    Half --'
//! ```
//!
//! Invariants:
//! - H1: in a process a device has at most one source and one sink.
//! - H2: both were opened with the same options.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{Address, PortError};

/// The role of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Source,
    Sink,
}

/// The open devices of one kind.
pub(crate) struct Devices<D, O>(Mutex<Vec<Weak<Shared<D, O>>>>);

struct Shared<D, O> {
    key: String,
    device: D,
    options: O,
    /// Whether the source and the sink are taken (H1).
    roles: Mutex<[bool; 2]>,
}

/// One role of a device, held until dropped.
pub(crate) struct Half<D, O> {
    shared: Arc<Shared<D, O>>,
    role: Role,
}

impl<D, O: PartialEq> Devices<D, O> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Takes a role of the device that `key` names, and opens the device if necessary.
    pub(crate) fn take(
        &self,
        address: &Address,
        key: String,
        options: O,
        role: Role,
        open: impl FnOnce(&O) -> Result<D, PortError>,
    ) -> Result<Half<D, O>, PortError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|device| device.strong_count() > 0);
        let found = known.iter().filter_map(Weak::upgrade).find(|device| device.key == key);
        let shared = match found {
            Some(shared) => shared,
            None => {
                let device = open(&options)?;
                let roles = Mutex::default();
                let shared = Arc::new(Shared { key, device, options, roles });
                known.push(Arc::downgrade(&shared));
                return Ok(Half::of(shared, role));
            }
        };
        if shared.options != options {
            return Err(PortError::DeviceDiffers { port: address.to_string() });
        }
        if shared.roles()[role as usize] {
            return Err(PortError::DeviceTaken { port: address.to_string() });
        }
        Ok(Half::of(shared, role))
    }
}

impl<D, O> Shared<D, O> {
    fn roles(&self) -> MutexGuard<'_, [bool; 2]> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D, O> Half<D, O> {
    fn of(shared: Arc<Shared<D, O>>, role: Role) -> Self {
        shared.roles()[role as usize] = true;
        Self { shared, role }
    }

    #[inline]
    pub(crate) fn device(&self) -> &D {
        &self.shared.device
    }

    #[inline]
    pub(crate) fn options(&self) -> &O {
        &self.shared.options
    }

    /// Whether this half reports the device's events: the source, if there is one.
    pub(crate) fn is_teller(&self) -> bool {
        self.role == Role::Source || !self.shared.roles()[Role::Source as usize]
    }
}

impl<D, O> Drop for Half<D, O> {
    fn drop(&mut self) {
        self.shared.roles()[self.role as usize] = false;
    }
}

//! A device: its rings and the features it offers.

use std::io;

use burstline_peer::Lanes;

use crate::features;
use crate::from_guest::FromGuest;
use crate::to_guest::ToGuest;

/// The options of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// The number of queue pairs, in `[1, QUEUES_MAX]`.
    pub pairs: u16,
    /// Whether it connects to a front-end that listens, instead of listening itself.
    pub is_client: bool,
    /// Whether packets may be merged or lack checksums.
    pub passes_offloads: bool,
}

/// State shared by the control thread and the packet threads.
#[derive(Debug)]
pub struct Device {
    options: DeviceOptions,
    lanes: Lanes<FromGuest, ToGuest>,
}

impl Device {
    /// Creates a device without a socket, for [`Session`](crate::Session) alone.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(options: DeviceOptions) -> io::Result<Self> {
        Ok(Self { lanes: Lanes::new(options.pairs)?, options })
    }

    /// Returns the device's rings.
    pub fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        &self.lanes
    }

    pub(crate) fn features(&self) -> u64 {
        features::offered(self.options.pairs, self.options.passes_offloads)
    }
}

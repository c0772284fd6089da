//! A device: its rings, and what it offers.

use std::io;

use burstline_peer::Lanes;

use crate::features;
use crate::from_guest::FromGuest;
use crate::to_guest::ToGuest;

/// How a device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Pairs of queues, in `[1, QUEUES_MAX]`.
    pub pairs: u16,
    /// Connect to a front-end that listens, instead of listening.
    pub is_client: bool,
    /// Whether packets may be unfinished: merged, and without checksums.
    pub passes_offloads: bool,
}

/// What the control thread and the packet threads share.
#[derive(Debug)]
pub struct Device {
    options: DeviceOptions,
    lanes: Lanes<FromGuest, ToGuest>,
}

impl Device {
    /// One without a socket: for [`Session`](crate::Session) alone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(options: DeviceOptions) -> io::Result<Self> {
        Ok(Self { lanes: Lanes::new(options.pairs)?, options })
    }

    /// Its rings.
    pub fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        &self.lanes
    }

    /// What is offered to the guest.
    pub(crate) fn features(&self) -> u64 {
        features::offered(self.options.pairs, self.options.passes_offloads)
    }
}

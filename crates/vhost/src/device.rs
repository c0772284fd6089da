//! A device: its rings, what it offers, and the thread for its messages.
//!
//! ```text
//!   Port --- owns ---> Attendant: Session --- puts rings into ---> Device { Lanes }
//!    |                                                               ^
//!    '--- lends to packet threads, which take rings -----------------'
//! ```

use std::io;
use std::path::Path;
use std::sync::Arc;

use burstline_peer::{AttendError, Attendant, Kind, Lanes, Place};

use crate::features;
use crate::from_guest::FromGuest;
use crate::server::Talk;
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

/// A device with its socket and the thread that serves it. Ends when dropped.
#[derive(Debug)]
pub struct Port {
    device: Arc<Device>,
    _attendant: Attendant,
}

impl Port {
    /// Listens at `path`, or connects to it and goes on trying.
    ///
    /// # Errors
    /// [`AttendError`], each variant as it says.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<Self, AttendError> {
        let place =
            Place { path: path.to_owned(), kind: Kind::Stream, is_client: options.is_client };
        let device = Device::new(options.clone());
        let device =
            device.map_err(|error| AttendError::System { path: path.to_owned(), error })?;
        let device = Arc::new(device);
        let diary = Arc::clone(device.lanes.diary());
        let dialogue = {
            let device = Arc::clone(&device);
            move || Talk::new(Arc::clone(&device))
        };
        Ok(Self { device, _attendant: Attendant::start(place, diary, dialogue)? })
    }

    /// Its rings.
    pub fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        &self.device.lanes
    }
}

//! A device with its socket, and the thread that handles its messages.
//!
//! ```text
//!   Port --- owns ---> Attendant: Session --- puts rings into ---> Device { Lanes }
//!    |                                                               ^
//!    '--- lends to packet threads, which take rings -----------------'
//! ```

use std::path::Path;
use std::sync::Arc;

use burstline_peer::{AttendError, Attended, Kind, Lanes, Place};

use crate::device::{Device, DeviceOptions};
use crate::from_guest::FromGuest;
use crate::server::Talk;
use crate::to_guest::ToGuest;

/// A device with its socket and the thread that serves it. Dropping it ends both.
#[derive(Debug)]
pub struct Port(Attended<Device>);

impl Port {
    /// Listens at `path`, or connects to it and keeps retrying.
    ///
    /// # Errors
    /// [`AttendError`], as each variant says.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<Self, AttendError> {
        let place =
            Place { path: path.to_owned(), kind: Kind::Stream, is_client: options.is_client };
        let device = Device::new(options.clone());
        let diary = |device: &Device| Arc::clone(device.lanes().diary());
        Ok(Self(Attended::start(place, device, diary, Talk::new)?))
    }

    /// Returns the device's rings.
    pub fn lanes(&self) -> &Lanes<FromGuest, ToGuest> {
        self.0.device().lanes()
    }
}

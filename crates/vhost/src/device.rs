//! A device: berths for its rings, a thread for its messages, and who uses it.
//!
//! ```text
//!   Port --- owns ---> thread: Session   puts rings into   Device { pairs: [Berth, Berth] }
//!    |                                                       ^
//!    '--- hands out -- Queue (a direction) --- takes rings --'
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use burstline_peer::{Bell, Bells, Berth, Kind, ListenError, Listener};

use crate::features;
use crate::from_guest::FromGuest;
use crate::server::Server;
use crate::to_guest::ToGuest;

/// The most events that are kept for people.
const EVENTS_MAX: usize = 100;

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

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nobody can be listened for.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The kernel refused descriptors or a thread.
    #[error("{}: {error}", path.display())]
    System {
        /// Which device.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    ToGuest,
    FromGuest,
}

/// Two rings.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    pub(crate) to_guest: Berth<ToGuest>,
    pub(crate) from_guest: Berth<FromGuest>,
}

/// What the control thread and the packet threads share.
#[derive(Debug)]
pub struct Device {
    options: DeviceOptions,
    pairs: Vec<Pair>,
    bells: Bells,
    is_connected: AtomicBool,
    events: Mutex<Vec<String>>,
    /// Connections so far.
    connections: AtomicU64,
}

impl Device {
    /// One without a socket: for [`Session`](crate::Session) alone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(options: DeviceOptions) -> io::Result<Self> {
        Ok(Self {
            pairs: (0..options.pairs).map(|_| Pair::default()).collect(),
            options,
            bells: Bells::new()?,
            is_connected: AtomicBool::new(false),
            events: Mutex::default(),
            connections: AtomicU64::new(0),
        })
    }

    /// Pairs of queues.
    pub fn pairs(&self) -> u16 {
        self.pairs.len() as u16
    }

    pub(crate) fn pair(&self, index: usize) -> &Pair {
        &self.pairs[index]
    }

    /// What is offered to the guest.
    pub(crate) fn features(&self) -> u64 {
        features::offered(self.pairs(), self.options.passes_offloads)
    }

    /// Rung when the guest has sent something to a ring that was armed, or when rings change.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// The berth of a transmit ring.
    pub fn from_guest(&self, queue: Queue) -> &Berth<FromGuest> {
        &self.pairs[usize::from(queue.0)].from_guest
    }

    /// The berth of a receive ring.
    pub fn to_guest(&self, queue: Queue) -> &Berth<ToGuest> {
        &self.pairs[usize::from(queue.0)].to_guest
    }

    /// All queues.
    pub fn queues(&self) -> impl Iterator<Item = Queue> + use<> {
        (0..self.pairs()).map(Queue)
    }

    /// Whether a front-end is there.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Acquire) // pairs with the Release in `set_connected`
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        // Pairs with the Acquire in `is_connected`: what follows from it is seen with it.
        self.is_connected.store(is_connected, Release);
        if is_connected {
            self.connections.fetch_add(1, Release); // a figure for people
        }
    }

    /// Front-ends that have connected so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Acquire) // as above
    }

    pub(crate) fn tell(&self, event: String) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }

    /// What has happened so far, the oldest first.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The number of a pair of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue(pub(crate) u16);

/// A device with its socket and the thread that serves it. Ends when dropped.
#[derive(Debug)]
pub struct Port {
    device: Arc<Device>,
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Listens at `path`, or connects to it and goes on trying.
    ///
    /// # Errors
    /// [`OpenError`], each variant as it says.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<Self, OpenError> {
        let fail = |error: io::Error| OpenError::System { path: path.to_owned(), error };
        let device = Arc::new(Device::new(options.clone()).map_err(fail)?);
        let listener = match options.is_client {
            true => None,
            false => Some(Listener::bind(path, Kind::Stream)?),
        };
        let stop = Arc::new(Bell::new().map_err(fail)?);
        let server = Server {
            device: Arc::clone(&device),
            path: path.to_owned(),
            listener,
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::Builder::new()
            .name("vhost".to_owned())
            .stack_size(256 << 10)
            .spawn(move || server.run())
            .map_err(fail)?;
        Ok(Self { device, stop, thread: Some(thread) })
    }

    /// What is shared with its thread.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            // It has panicked if this fails, and has said so.
            let _ = thread.join();
        }
    }
}

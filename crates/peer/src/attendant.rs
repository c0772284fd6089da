//! The control thread of a device: serves one peer at a time, one after the other.
//!
//! ```text
//!   listen --> accept ----.                                .--> the next one
//!   connect, every 100 ms -+--> Dialogue hears messages --> closed-'
//! ```
//!
//! The thread handles no packets, so it may block, but only in poll(2). It has no capabilities,
//! only its user's rights. A peer that connects while another is connected is rejected.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use burstline_sys::event::Event;
use burstline_sys::{privileges, readiness};

use crate::{Diary, Kind, ListenError, Listener, Socket};

/// Time between two attempts to connect, or to accept after a refusal of the kernel, in ns.
const RETRY_NS: u64 = 100_000_000;
/// No timeout: 584 years.
const FOREVER_NS: u64 = u64::MAX;
const STACK_BYTES: usize = 256 << 10;

/// The conversation on one connection. Dropping it undoes its effects.
pub trait Dialogue {
    /// The reason why it ends.
    type Fault: Display;

    /// Begins the conversation on a new connection.
    ///
    /// # Errors
    /// If the connection has to end.
    fn begin(&mut self, socket: &Socket) -> Result<(), Self::Fault>;

    /// Handles all messages received, and returns when there are no more.
    ///
    /// # Errors
    /// If the connection has to end.
    fn hear(&mut self, socket: &Socket) -> Result<(), Self::Fault>;

    /// Returns the agreed parameters, once there are any; reported once per connection.
    fn agreed(&self) -> Option<String>;
}

/// The place where a device meets its peers.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path of the socket.
    pub path: PathBuf,
    /// The kind of the socket.
    pub kind: Kind,
    /// Whether the peer listens there, and the device connects.
    pub is_client: bool,
}

/// The control thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct Attendant {
    stop: Arc<Event>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why a control thread could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttendError {
    /// It cannot listen on the socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The kernel refused descriptors, memory or a thread.
    #[error("{}: {error}", path.display())]
    System {
        /// The device's path.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}

impl Attendant {
    /// Listens at the place, or connects to it and keeps retrying; each connection is a dialogue.
    ///
    /// # Errors
    /// [`AttendError`], as each variant says.
    pub fn start<D: Dialogue>(
        place: Place,
        diary: Arc<Diary>,
        dialogue: impl FnMut() -> D + Send + 'static,
    ) -> Result<Self, AttendError> {
        let listener = match place.is_client {
            true => None,
            false => Some(Listener::bind(&place.path, place.kind)?),
        };
        let path = place.path.clone();
        let fail = |error| AttendError::System { path: path.clone(), error };
        let stop = Arc::new(Event::new().map_err(fail)?);
        let server = Server { place, listener, stop: Arc::clone(&stop), diary, dialogue };
        let thread = std::thread::Builder::new()
            .name("peer".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || server.run())
            .map_err(fail)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// A device, and the thread that serves it at its socket. Dropping it ends the thread.
#[derive(Debug)]
pub struct Attended<D> {
    device: Arc<D>,
    _attendant: Attendant,
}

impl<D: Send + Sync + 'static> Attended<D> {
    /// Serves a device like [`Attendant::start`], or returns the error of creating it. Events of
    /// the peers are recorded in its `diary`; `dialogue` begins the conversation with a peer.
    ///
    /// # Errors
    /// [`AttendError`], as each variant says.
    pub fn start<T: Dialogue>(
        place: Place,
        device: io::Result<D>,
        diary: impl FnOnce(&D) -> Arc<Diary>,
        mut dialogue: impl FnMut(Arc<D>) -> T + Send + 'static,
    ) -> Result<Self, AttendError> {
        let fail = |error| AttendError::System { path: place.path.clone(), error };
        let device = Arc::new(device.map_err(fail)?);
        let (diary, shared) = (diary(&device), Arc::clone(&device));
        let attendant = Attendant::start(place, diary, move || dialogue(Arc::clone(&shared)))?;
        Ok(Self { device, _attendant: attendant })
    }

    /// Returns the device.
    pub fn device(&self) -> &D {
        &self.device
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // An error means that it panicked, and the panic has printed its message.
            let _ = thread.join();
        }
    }
}

struct Server<N> {
    place: Place,
    listener: Option<Listener>,
    stop: Arc<Event>,
    diary: Arc<Diary>,
    dialogue: N,
}

impl<D: Dialogue, N: FnMut() -> D> Server<N> {
    fn run(mut self) {
        // It works the same with or without privileges.
        let _ = privileges::give_up();
        let mut last = String::new();
        while !self.wait(&[], 0) {
            let Some(socket) = self.meet() else { continue };
            self.diary.come();
            let dialogue = (self.dialogue)();
            let outcome = self.talk(&socket, dialogue);
            self.diary.leave();
            if let Err(fault) = outcome {
                let fault = fault.to_string();
                // A peer that refuses does so ten times a second.
                if fault != last {
                    self.tell(&format!("left: {fault}"));
                }
                last = fault;
            }
            if self.place.is_client {
                self.wait(&[], RETRY_NS);
            }
        }
    }

    /// Waits for the stop event or for others. Returns whether to stop.
    fn wait(&self, others: &[BorrowedFd<'_>], timeout_ns: u64) -> bool {
        let all = [&[self.stop.as_fd()], others].concat();
        // If interrupted, it is called again.
        readiness::wait_each(&all, timeout_ns).is_ok_and(|ready| ready[0])
    }

    fn tell(&self, what: &str) {
        let (path, peer) = (self.place.path.display(), self.diary.peers());
        self.diary.tell(format!("{path}: peer {peer}: {what}"));
    }

    /// Returns a new peer, if there is one.
    fn meet(&self) -> Option<Socket> {
        match &self.listener {
            Some(listener) => {
                self.wait(&[listener.as_fd()], FOREVER_NS);
                let accepted = listener.accept();
                if is_refused(&accepted) {
                    self.wait(&[], RETRY_NS);
                }
                accepted.ok()
            }
            None => match Socket::connect(&self.place.path, self.place.kind) {
                Ok(socket) => Some(socket),
                Err(_) => {
                    self.wait(&[], RETRY_NS);
                    None
                }
            },
        }
    }

    fn talk(&self, socket: &Socket, mut dialogue: D) -> Result<(), D::Fault> {
        dialogue.begin(socket)?;
        let (mut has_told, mut pauses) = (false, false);
        loop {
            let listener = self.listener.iter().filter(|_| !pauses).map(AsFd::as_fd);
            let others: Vec<_> = listener.chain([socket.as_fd()]).collect();
            if self.wait(&others, if pauses { RETRY_NS } else { FOREVER_NS }) {
                return Ok(());
            }
            if let Some(accepted) = self.listener.as_ref().map(Listener::accept) {
                pauses = is_refused(&accepted);
                if accepted.is_ok() {
                    self.tell("another peer was refused: a socket serves one peer");
                }
            }
            dialogue.hear(socket)?;
            if !has_told && let Some(agreed) = dialogue.agreed() {
                self.tell(&agreed);
                has_told = true;
            }
        }
    }
}

/// Returns whether the kernel fails to accept a waiting connection, for instance because no
/// descriptor is free. The listener then stays ready.
fn is_refused(accepted: &io::Result<Socket>) -> bool {
    accepted.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock)
}

//! A device: its rings and options, and the interface of both roles' sessions.

use std::io;
use std::os::fd::OwnedFd;

use burstline_peer::{Bell, Lanes};

use crate::lane::{FromPeer, ToPeer};
use crate::message::{Fault, Message};

/// The options of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// The number of queue pairs, in `[1, QUEUES_MAX]`.
    pub queues: u16,
    /// Whether this is the client, which owns the memory.
    pub is_client: bool,
    /// The interface's number, which must be the same at both ends.
    pub id: u32,
    /// The number of slots of a client's ring, as a power of two in `[3, LOG2_SLOTS_MAX]`.
    pub log2_slots: u8,
}

/// State shared by the control thread and the packet threads.
#[derive(Debug)]
pub struct Device {
    pub(crate) options: DeviceOptions,
    lanes: Lanes<FromPeer, ToPeer>,
}

impl Device {
    /// Creates a device without a socket, for [`ServerSession`](crate::ServerSession) alone.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(options: DeviceOptions) -> io::Result<Self> {
        Ok(Self { lanes: Lanes::new(options.queues)?, options })
    }

    /// Returns the device's rings.
    pub fn lanes(&self) -> &Lanes<FromPeer, ToPeer> {
        &self.lanes
    }

    /// Removes all rings, and the bells that packet threads waited for.
    pub(crate) fn clear(&self, waited_for: &[Bell]) {
        for bell in waited_for {
            self.lanes.bells().remove(bell);
        }
        for queue in 0..self.lanes.queues() {
            self.lanes.lane(queue).from.change(|ring| *ring = None);
            self.lanes.lane(queue).to.change(|ring| *ring = None);
        }
        self.lanes.bells().raise();
    }
}

/// The session of one role.
pub(crate) trait Session {
    /// Returns the message to send first, if any.
    fn greeting(&self) -> Option<Message>;

    /// Handles a message. Returns the answer, and the descriptor to send with it.
    fn handle(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Answer, Fault>;

    /// Returns the agreed parameters, once the connection is complete.
    fn agreed(&self) -> Option<String>;
}

/// The next message to send, if any.
#[derive(Default)]
pub struct Answer {
    /// The message.
    pub message: Option<Message>,
    /// The descriptor to send with it.
    pub(crate) file: Option<OwnedFd>,
}

impl From<Message> for Answer {
    fn from(message: Message) -> Self {
        Self { message: Some(message), file: None }
    }
}

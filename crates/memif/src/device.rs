//! A device: its rings and its options, and what either role says and hears.

use std::io;
use std::os::fd::OwnedFd;

use burstline_peer::{Bell, Lanes};

use crate::lane::{FromPeer, ToPeer};
use crate::message::{Fault, Message};

/// How a device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Pairs of queues, in `[1, QUEUES_MAX]`.
    pub queues: u16,
    /// Whether this is the client, which has the memory.
    pub is_client: bool,
    /// The interface's number, which both ends have to name.
    pub id: u32,
    /// Slots of a client's ring, as a power of two in `[3, LOG2_SLOTS_MAX]`.
    pub log2_slots: u8,
}

/// What the control thread and the packet threads share.
#[derive(Debug)]
pub struct Device {
    pub(crate) options: DeviceOptions,
    lanes: Lanes<FromPeer, ToPeer>,
}

impl Device {
    /// One without a socket: for [`ServerSession`](crate::ServerSession) alone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(options: DeviceOptions) -> io::Result<Self> {
        Ok(Self { lanes: Lanes::new(options.queues)?, options })
    }

    /// Its rings.
    pub fn lanes(&self) -> &Lanes<FromPeer, ToPeer> {
        &self.lanes
    }

    /// Takes all rings out; packet threads waited for these bells.
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

/// One role's side of a connection.
pub(crate) trait Session {
    /// What is said before anything is heard.
    fn greeting(&self) -> Option<Message>;

    /// Carries a message out. Returns the answer, and descriptors that go with it.
    fn handle(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Answer, Fault>;

    /// What was agreed on, once all is said.
    fn agreed(&self) -> Option<String>;
}

/// What is said next, if anything.
#[derive(Default)]
pub struct Answer {
    /// The message.
    pub message: Option<Message>,
    /// What goes with it.
    pub(crate) file: Option<OwnedFd>,
}

impl From<Message> for Answer {
    fn from(message: Message) -> Self {
        Self { message: Some(message), file: None }
    }
}

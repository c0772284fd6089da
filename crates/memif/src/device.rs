//! A device: its rings, its options, and the thread for its messages.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use burstline_peer::{AttendError, Attendant, Bell, Dialogue, Kind, Lanes, Place, Socket};

use crate::client::ClientSession;
use crate::lane::{FromPeer, ToPeer};
use crate::message::{Fault, MESSAGE_BYTES, Message};
use crate::server::ServerSession;

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
    /// One without a socket: for [`ServerSession`] alone.
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

    /// Takes all rings out, of which packet threads waited for these bells.
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

struct Talk<S>(S);

impl<S: Session> Talk<S> {
    fn hear_all(&mut self, socket: &Socket) -> Result<(), Fault> {
        loop {
            // A byte more, so that a longer one is seen.
            let (mut room, mut files) = ([0; MESSAGE_BYTES + 1], Vec::new());
            let arrived = match socket.receive(&mut room, &mut files) {
                Ok(arrived) => arrived,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Fault::Io { what: "receive a message", error }),
            };
            if arrived.bytes == 0 {
                return Err(Fault::Closed);
            }
            let message = Message::parse(&room[..arrived.bytes])?;
            let answer = self.0.handle(message, files)?;
            if let Some(message) = &answer.message {
                let file = answer.file.as_ref().map(AsFd::as_fd);
                send(socket, message, file.as_slice())?;
            }
        }
    }
}

fn send(socket: &Socket, message: &Message, files: &[BorrowedFd<'_>]) -> Result<(), Fault> {
    let sent = socket.send(&message.bytes(), files);
    sent.map_err(|error| Fault::Io { what: "send a message", error })
}

impl<S: Session> Dialogue for Talk<S> {
    type Fault = Fault;

    fn begin(&mut self, socket: &Socket) -> Result<(), Fault> {
        match self.0.greeting() {
            Some(message) => send(socket, &message, &[]),
            None => Ok(()),
        }
    }

    fn hear(&mut self, socket: &Socket) -> Result<(), Fault> {
        let heard = self.hear_all(socket);
        if let Err(fault) = &heard
            && !matches!(fault, Fault::Closed | Fault::Left(_))
        {
            // One that has gone does not hear it.
            let _ = send(socket, &Message::Disconnect { reason: fault.to_string() }, &[]);
        }
        heard
    }

    fn agreed(&self) -> Option<String> {
        self.0.agreed()
    }
}

/// A device with its socket and the thread that serves it. Ends when dropped.
#[derive(Debug)]
pub struct Port {
    device: Arc<Device>,
    _attendant: Attendant,
}

impl Port {
    /// Listens at `path` as a server, or connects to it as a client and goes on trying.
    ///
    /// # Errors
    /// [`AttendError`], each variant as it says.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<Self, AttendError> {
        let is_client = options.is_client;
        let place = Place { path: path.to_owned(), kind: Kind::Messages, is_client };
        let device = Device::new(options.clone());
        let device =
            device.map_err(|error| AttendError::System { path: path.to_owned(), error })?;
        let device = Arc::new(device);
        let diary = Arc::clone(device.lanes.diary());
        let shared = Arc::clone(&device);
        let attendant = match is_client {
            true => Attendant::start(place, diary, move || {
                Talk(ClientSession::new(Arc::clone(&shared)))
            }),
            false => Attendant::start(place, diary, move || {
                Talk(ServerSession::new(Arc::clone(&shared)))
            }),
        };
        Ok(Self { device, _attendant: attendant? })
    }

    /// Its rings.
    pub fn lanes(&self) -> &Lanes<FromPeer, ToPeer> {
        &self.device.lanes
    }
}

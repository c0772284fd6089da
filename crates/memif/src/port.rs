//! A device with its socket and control thread: parses messages and passes them to the session of
//! the device's role.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use burstline_peer::{AttendError, Attended, Dialogue, Kind, Lanes, Place, Socket};

use crate::client::ClientSession;
use crate::device::{Device, DeviceOptions, Session};
use crate::lane::{FromPeer, ToPeer};
use crate::message::{Fault, MESSAGE_BYTES, Message};
use crate::server::ServerSession;

struct Talk<S>(S);

impl<S: Session> Talk<S> {
    fn hear_all(&mut self, socket: &Socket) -> Result<(), Fault> {
        loop {
            // One more byte, so that a longer message is detected.
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
            // A peer that has left does not receive it.
            let _ = send(socket, &Message::Disconnect { reason: fault.to_string() }, &[]);
        }
        heard
    }

    fn agreed(&self) -> Option<String> {
        self.0.agreed()
    }
}

/// A device with its socket and the thread that serves it. Dropping it ends both.
#[derive(Debug)]
pub struct Port(Attended<Device>);

impl Port {
    /// Listens at `path` as a server, or connects to it as a client and keeps retrying.
    ///
    /// # Errors
    /// [`AttendError`], as each variant says.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<Self, AttendError> {
        let is_client = options.is_client;
        let place = Place { path: path.to_owned(), kind: Kind::Messages, is_client };
        let device = Device::new(options.clone());
        let diary = |device: &Device| Arc::clone(device.lanes().diary());
        let attended = match is_client {
            true => {
                Attended::start(place, device, diary, |device| Talk(ClientSession::new(device)))
            }
            false => {
                Attended::start(place, device, diary, |device| Talk(ServerSession::new(device)))
            }
        };
        Ok(Self(attended?))
    }

    /// Returns the device's rings.
    pub fn lanes(&self) -> &Lanes<FromPeer, ToPeer> {
        self.0.device().lanes()
    }
}

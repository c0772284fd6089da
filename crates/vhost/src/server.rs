//! One connection of a front-end: bytes become messages, messages go to the session.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_peer::{Dialogue, Socket};

use crate::device::Device;
use crate::message::{BODY_BYTES_MAX, Fault, HEADER_BYTES, Header, Message};
use crate::session::Session;

/// A session, and what has come in of the next message.
pub(crate) struct Talk {
    session: Session,
    incoming: Incoming,
}

#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Talk {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self { session: Session::new(device), incoming: Incoming::default() }
    }
}

impl Dialogue for Talk {
    type Fault = Fault;

    /// The front-end speaks first.
    fn begin(&mut self, _socket: &Socket) -> Result<(), Fault> {
        Ok(())
    }

    fn hear(&mut self, socket: &Socket) -> Result<(), Fault> {
        while let Some(message) = self.incoming.next(socket)? {
            if let Some(answer) = self.session.handle(message)? {
                let sent = socket.send(&answer, &[]);
                sent.map_err(|error| Fault::Io { what: "answer the guest", error })?;
            }
        }
        Ok(())
    }

    fn agreed(&self) -> Option<String> {
        self.session.is_running().then(|| self.session.agreed())
    }
}

impl Incoming {
    /// The next whole message. `None`: it is still to come.
    fn next(&mut self, socket: &Socket) -> Result<Option<Message>, Fault> {
        loop {
            let wanted = match self.header()? {
                None => HEADER_BYTES,
                Some(header) => HEADER_BYTES + header.bytes as usize,
            };
            if self.bytes.len() == wanted
                && let Some(header) = self.header()?
            {
                let body = self.bytes.split_off(HEADER_BYTES);
                self.bytes.clear();
                let files = std::mem::take(&mut self.files);
                return Ok(Some(Message { header, body, files }));
            }
            let mut room = [0; HEADER_BYTES + BODY_BYTES_MAX];
            let room = &mut room[..wanted - self.bytes.len()];
            let arrived = match socket.receive(room, &mut self.files) {
                Ok(arrived) => arrived,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(Fault::Io { what: "receive a message", error }),
            };
            if arrived.is_cut {
                return Err(Fault::Cut);
            }
            if arrived.bytes == 0 {
                return Err(Fault::Closed);
            }
            self.bytes.extend(&room[..arrived.bytes]);
        }
    }

    fn header(&self) -> Result<Option<Header>, Fault> {
        match self.bytes.first_chunk() {
            None => Ok(None),
            Some(bytes) => Header::parse(bytes).map(Some),
        }
    }
}

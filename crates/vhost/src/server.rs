//! One connection of a front-end: parses messages and passes them to the session.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_peer::{Dialogue, Socket};

use crate::device::Device;
use crate::message::{BODY_BYTES_MAX, FILES_MAX, Fault, HEADER_BYTES, Header, Message};
use crate::session::Session;

/// The most messages handled in a row. A front-end that never pauses must not keep the thread from
/// noticing that it has to end.
const MESSAGES_MAX: usize = 64;

/// A session, and the received part of the next message.
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

    /// The front-end sends first.
    fn begin(&mut self, _socket: &Socket) -> Result<(), Fault> {
        Ok(())
    }

    fn hear(&mut self, socket: &Socket) -> Result<(), Fault> {
        for _ in 0..MESSAGES_MAX {
            let Some(message) = self.incoming.next(socket)? else { break };
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
    /// Returns the next complete message; `None` if it has not arrived completely.
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
            // A message may arrive one byte at a time, with descriptors at each byte.
            if self.files.len() > FILES_MAX {
                return Err(Fault::Files(self.files.len()));
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use burstline_peer::Kind;

    use super::*;
    use crate::DeviceOptions;

    /// SET_OWNER, which needs no reply.
    const MESSAGE: [u8; HEADER_BYTES] = [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

    fn talk() -> Talk {
        let options = DeviceOptions { pairs: 1, is_client: false, passes_offloads: false };
        Talk::new(Arc::new(Device::new(options).unwrap()))
    }

    #[test]
    fn a_flood_of_messages_is_heard_in_parts() {
        let ([near, far], mut talk) = (Socket::pair(Kind::Stream).unwrap(), talk());
        for _ in 0..MESSAGES_MAX + 1 {
            far.send(&MESSAGE, &[]).unwrap();
        }
        talk.hear(&near).unwrap();
        let mut room = [0; 2 * HEADER_BYTES];
        let left = near.receive(&mut room, &mut Vec::new()).unwrap();
        assert_eq!(left.bytes, HEADER_BYTES, "one is left for the next time");
    }

    #[test]
    fn a_message_that_comes_in_parts_brings_no_more_descriptors_than_a_whole_one() {
        let ([near, far], mut talk) = (Socket::pair(Kind::Stream).unwrap(), talk());
        for byte in &MESSAGE[..FILES_MAX] {
            far.send(&[*byte], &[far.as_fd()]).unwrap();
        }
        talk.hear(&near).unwrap();
        far.send(&MESSAGE[FILES_MAX..FILES_MAX + 1], &[far.as_fd()]).unwrap();
        let fault = talk.hear(&near).unwrap_err().to_string();
        assert_eq!(fault, "9 descriptors came with a message: at most 8");
    }
}

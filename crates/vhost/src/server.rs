//! The control thread of a device: one front-end at a time, as often as one comes.
//!
//! ```text
//!   listen --> accept ----.                         .--> the next one
//!   connect, every 100 ms -+--> messages --> closed-'
//! ```
//!
//! It reads no packets, so it blocks as it likes, in poll(2) only. It has no capability: what it
//! opens is its user's.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use burstline_peer::{Bell, Kind, Listener, Socket};
use burstline_sys::privileges;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::device::Device;
use crate::message::{BODY_BYTES_MAX, Fault, HEADER_BYTES, Header, Message};
use crate::session::Session;

/// Between two tries to connect.
const RETRY_MS: i64 = 100;

pub(crate) struct Server {
    pub(crate) device: Arc<Device>,
    pub(crate) path: PathBuf,
    pub(crate) listener: Option<Listener>,
    pub(crate) stop: Arc<Bell>,
}

/// A message that is coming in.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Server {
    pub(crate) fn run(self) {
        // With rights or without, it does the same.
        let _ = privileges::drop_all_capabilities();
        while !self.is_stopped() {
            if let Some(socket) = self.meet() {
                self.device.set_connected(true);
                let fault = self.talk(&socket);
                self.device.set_connected(false);
                if let Err(fault) = fault {
                    self.device.tell(format!("{}: {fault}", self.path.display()));
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.wait(&[], Some(0))
    }

    /// Waits for the end and for others. Returns whether the end has come.
    fn wait(&self, others: &[BorrowedFd<'_>], timeout_ms: Option<i64>) -> bool {
        let mut wanted = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        wanted.extend(others.iter().map(|one| PollFd::from_borrowed_fd(*one, PollFlags::IN)));
        let timeout =
            timeout_ms.map(|ms| Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 });
        // Interrupted, it is called again.
        let _ = poll(&mut wanted, timeout.as_ref());
        !wanted[0].revents().is_empty()
    }

    /// Whoever connects while a front-end is there is turned away.
    fn turn_away(&self) {
        if let Some(Ok(_)) = self.listener.as_ref().map(Listener::accept) {
            let path = self.path.display();
            self.device.tell(format!("{path}: a second guest was turned away"));
        }
    }

    /// A front-end, or nothing for now.
    fn meet(&self) -> Option<Socket> {
        match &self.listener {
            Some(listener) => {
                self.wait(&[listener.as_fd()], None);
                listener.accept().ok()
            }
            None => match Socket::connect(&self.path, Kind::Stream) {
                Ok(socket) => Some(socket),
                Err(_) => {
                    self.wait(&[], Some(RETRY_MS));
                    None
                }
            },
        }
    }

    /// Carries out messages until the front-end goes, or we do. Its rings end with the session.
    fn talk(&self, socket: &Socket) -> Result<(), Fault> {
        let mut session = Session::new(Arc::clone(&self.device));
        let mut incoming = Incoming::default();
        let mut has_told = false;
        loop {
            let listener = self.listener.iter().map(AsFd::as_fd);
            let others: Vec<_> = listener.chain([socket.as_fd()]).collect();
            if self.wait(&others, None) {
                return Ok(());
            }
            self.turn_away();
            while let Some(message) = incoming.next(socket)? {
                if let Some(answer) = session.handle(message)? {
                    let sent = socket.send(&answer, &[]);
                    sent.map_err(|error| Fault::Io { what: "answer the guest", error })?;
                }
            }
            if session.is_running() && !has_told {
                has_told = true;
                self.device.tell(format!("{}: a guest: {}", self.path.display(), session.agreed()));
            }
        }
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
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(Fault::Closed);
                }
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

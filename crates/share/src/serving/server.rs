//! The publisher's thread: accepts clients, gives seats, and notices clients that are gone.
//!
//! ```text
//! accept --> not too often, --> request within --> Attach: seated --> socket or process ends
//!            and allowed?       a second?          Query: answered    seats are free
//!              no: Refused        no: dropped
//! ```
//!
//! The thread blocks only in one poll(2) over everything, so no client can delay another. An answer
//! that the socket has no room for waits with its client.
//!
//! A client without a seat takes one of [`WAITING_MAX`] places. If all are taken, a newcomer gets
//! the place of the oldest client of the user with the most (`crowd`). The thread has no
//! capabilities, and reaches the writer only through the seats.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use burstline_log::RemoteSeat;
use burstline_sys::event::Event;
use burstline_sys::readiness::{self, Wish};
use burstline_sys::seqpacket::{Credentials, SeqPacket};
use burstline_sys::{clock, limits, privileges};

use crate::access::Access;
use crate::crowd;
use crate::message::{MESSAGE_BYTES_MAX, Reply, Request, Welcome};
use crate::refusal::Refusal;
use crate::roster::Roster;

/// The most clients connected that have not sent a request, or not received all of the answer.
const WAITING_MAX: usize = 64;
/// Time limit for both together.
const WAITING_NS: u64 = 1_000_000_000;
/// Clients accepted at a time, before existing clients are served again.
const ACCEPTS_A_TURN: usize = 32;
/// Duration of the pause in accepting if no descriptor is left even to refuse a client.
const PAUSE_NS: u64 = 100_000_000;

/// A writer drops a departed reader at its next publish. So for `TIDIES_NS` after a reader has
/// left, the thread frees memory every `TIDY_NS`.
const TIDIES_NS: u64 = 1_000_000_000;
const TIDY_NS: u64 = 20_000_000;
/// Duration of a sleep if poll(2) itself fails.
const BLIND_NS: u64 = 10_000_000;

pub(crate) struct Server {
    listener: SeqPacket,
    access: Access,
    roster: Arc<Roster>,
    stop: Arc<Event>,
    clients: Vec<Client>,
    next_connection: u64,
    /// Closed for a moment if a client has to be refused and no other descriptor is free.
    spare: Option<Event>,
    /// End of the pause in accepting, on the monotonic clock.
    pause_until_ns: u64,
    /// End of the period during which departed readers may have left memory to free.
    tidy_until_ns: u64,
}

struct Client {
    connection: u64,
    socket: SeqPacket,
    process: OwnedFd,
    peer: Credentials,
    since_ns: u64,
    is_seated: bool,
    /// Replies to a status query that were not sent yet.
    unsaid: VecDeque<Reply>,
}

/// Whether a client stays after it was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
}

/// Result of an attempt to refuse a client without a descriptor for it.
enum Spared {
    Refused,
    NobodyWaits,
    /// Another thread has taken the spare descriptor, so polling for clients now would spin.
    NoDescriptor,
}

/// Result of poll(2).
struct Found {
    is_stopped: bool,
    is_called: bool,
    /// For each client: whether it has sent something, or has room for what we have to send; and
    /// whether its process has ended.
    clients: Vec<(bool, bool)>,
}

impl Server {
    pub(crate) fn new(
        listener: SeqPacket,
        access: Access,
        roster: Arc<Roster>,
        stop: Arc<Event>,
    ) -> io::Result<Self> {
        let (clients, spare) = (Vec::new(), Some(Event::new()?));
        Ok(Self {
            listener,
            access,
            roster,
            stop,
            clients,
            next_connection: 0,
            spare,
            pause_until_ns: 0,
            tidy_until_ns: 0,
        })
    }

    /// Runs until `stop` is raised.
    #[inline(never)] // campaign R17 counts its instructions by this name
    pub(crate) fn run(mut self) {
        // Only a system call filter can make this fail; the thread needs no privileges anyway.
        let _ = privileges::give_up();
        loop {
            let found = self.wait();
            if found.is_stopped {
                return;
            }
            self.roster.tidy();
            self.serve(&found.clients);
            self.drop_silent();
            self.drop_unclaimed();
            if found.is_called {
                self.accept();
            }
        }
    }

    fn wait(&self) -> Found {
        let now_ns = clock::monotonic_ns();
        let is_paused = now_ns < self.pause_until_ns;
        let mut wanted: Vec<(BorrowedFd<'_>, Wish)> = vec![(self.stop.as_fd(), Wish::Read)];
        for client in &self.clients {
            let wish = if client.unsaid.is_empty() { Wish::Read } else { Wish::Write };
            wanted.extend([(client.socket.as_fd(), wish), (client.process.as_fd(), Wish::Read)]);
        }
        if !is_paused {
            wanted.push((self.listener.as_fd(), Wish::Read));
        }
        match readiness::wait_each_for(&wanted, self.sleep_ns(now_ns)) {
            Ok(ready) => Found {
                is_stopped: ready[0],
                is_called: !is_paused && ready[ready.len() - 1],
                clients: ready[1..]
                    .as_chunks()
                    .0
                    .iter()
                    .map(|[said, ended]| (*said, *ended))
                    .collect(),
            },
            // There may be more descriptors than the process may use: check each, none blocks.
            Err(_) => Found {
                is_stopped: self.is_stopped_within(BLIND_NS),
                is_called: true,
                clients: vec![(true, false); self.clients.len()],
            },
        }
    }

    fn is_stopped_within(&self, timeout_ns: u64) -> bool {
        let ready = readiness::wait_each(&[self.stop.as_fd()], timeout_ns);
        // If even this fails, the thread ends only with the process.
        ready.is_ok_and(|ready| ready[0])
    }

    /// Time until the next event that no descriptor announces.
    fn sleep_ns(&self, now_ns: u64) -> u64 {
        let waiting = self.clients.iter().filter(|client| !client.is_seated);
        let silent = waiting.map(|client| client.since_ns + WAITING_NS).min();
        let pause = (now_ns < self.pause_until_ns).then_some(self.pause_until_ns);
        let tidy = (now_ns < self.tidy_until_ns).then_some(now_ns + TIDY_NS);
        let next_ns = silent.into_iter().chain(pause).chain(tidy).min();
        next_ns.map_or(u64::MAX, |next_ns| next_ns.saturating_sub(now_ns))
    }

    fn serve(&mut self, found: &[(bool, bool)]) {
        let mut found = found.iter();
        let (roster, clients, tidy_until_ns) =
            (&self.roster, &mut self.clients, &mut self.tidy_until_ns);
        clients.retain_mut(|client| {
            let &(said, ended) = found.next().unwrap_or(&(false, false));
            let fate = match (ended, said) {
                (true, _) => Fate::Goes,
                (false, true) if client.unsaid.is_empty() => client.listen(roster),
                (false, true) => client.answer(),
                (false, false) => Fate::Stays,
            };
            if fate == Fate::Goes {
                roster.leave(client.connection);
                *tidy_until_ns = clock::monotonic_ns() + TIDIES_NS;
            }
            fate == Fate::Stays
        });
    }

    fn drop_silent(&mut self) {
        let now_ns = clock::monotonic_ns();
        let waiting = self.waiting();
        self.clients.retain(|client| {
            let waited_ns = now_ns.saturating_sub(client.since_ns);
            let is_silent = !client.is_seated && waited_ns >= WAITING_NS;
            if is_silent {
                client.refuse(busy(waited_ns, waiting));
            }
            !is_silent
        });
    }

    /// Drops clients that did not claim their seats. Such a seat matters only to another client
    /// that wants one, whose request wakes up the thread.
    fn drop_unclaimed(&mut self) {
        for connection in self.roster.revoke_unclaimed() {
            self.clients.retain(|client| client.connection != connection);
            self.roster.leave(connection);
            self.tidy_until_ns = clock::monotonic_ns() + TIDIES_NS;
        }
    }

    fn waiting(&self) -> usize {
        self.clients.iter().filter(|client| !client.is_seated).count()
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.listener.accept() {
                Ok(socket) => self.admit(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The kernel reports this before it checks whether a client waits.
                Err(error) if limits::is_out_of_descriptors(&error) => {
                    match self.refuse_with_spare() {
                        Spared::Refused => {}
                        Spared::NobodyWaits => return,
                        Spared::NoDescriptor => return self.pause(),
                    }
                }
                // The client left before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.pause(),
            }
        }
    }

    fn pause(&mut self) {
        self.pause_until_ns = clock::monotonic_ns() + PAUSE_NS;
    }

    /// Refuses the next client with the spare descriptor.
    fn refuse_with_spare(&mut self) -> Spared {
        self.spare = None;
        let spared = match self.listener.accept() {
            Ok(socket) => {
                refuse(&socket, out_of_descriptors());
                Spared::Refused
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Spared::NobodyWaits,
            Err(_) => Spared::NoDescriptor,
        };
        self.spare = Event::new().ok();
        spared
    }

    fn admit(&mut self, socket: SeqPacket) {
        let Ok(peer) = socket.peer() else { return };
        // What it sends stays unread, so that a storm costs little, whatever it asks for.
        if let Err(refusal) = self.roster.connect(peer) {
            return refuse(&socket, refusal);
        }
        match self.access.admits(&socket, peer) {
            Ok(true) => {}
            _ => return refuse(&socket, Refusal::NotAllowed { uid: peer.uid.into() }),
        }
        let process = match socket.peer_process() {
            Ok(process) => process,
            Err(error) if limits::is_out_of_descriptors(&error) => {
                return refuse(&socket, out_of_descriptors());
            }
            // The client has already ended.
            Err(_) => return,
        };
        self.make_room(peer);
        let (connection, since_ns) = (self.next_connection, clock::monotonic_ns());
        self.next_connection += 1;
        let (is_seated, unsaid) = (false, VecDeque::new());
        let mut client = Client { connection, socket, process, peer, since_ns, is_seated, unsaid };
        // Usually its request has already arrived.
        if client.listen(&self.roster) == Fate::Stays {
            self.clients.push(client);
        }
    }

    /// Drops one client without a seat, if there are too many.
    fn make_room(&mut self, newcomer: Credentials) {
        let waiting: Vec<(usize, Credentials)> = self
            .clients
            .iter()
            .enumerate()
            .filter(|(_, client)| !client.is_seated)
            .map(|(at, client)| (at, client.peer))
            .collect();
        if waiting.len() < WAITING_MAX {
            return;
        }
        // They are in order of arrival.
        if let Some(at) = crowd::one_to_let_go(&waiting, newcomer) {
            let client = self.clients.remove(at);
            client.refuse(busy(clock::monotonic_ns() - client.since_ns, waiting.len()));
        }
    }
}

impl Client {
    /// Receives and handles a request.
    fn listen(&mut self, roster: &Roster) -> Fate {
        let mut room = [0; MESSAGE_BYTES_MAX];
        let received = match self.socket.receive(&mut room, None) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Fate::Stays,
            Err(_) => return Fate::Goes,
        };
        // The end of the connection, or an illegal message: after the welcome nothing is sent.
        if received.bytes == 0 || self.is_seated {
            return Fate::Goes;
        }
        let bytes = &room[..received.bytes];
        let request = match Request::decode(bytes) {
            Ok(request) if !received.is_cut => request,
            Ok(_) => {
                self.refuse(Refusal::Malformed { bytes: received.bytes as u64 });
                return Fate::Goes;
            }
            Err(refusal) => {
                self.refuse(refusal);
                return Fate::Goes;
            }
        };
        match request {
            Request::Query => {
                self.unsaid = roster.answer().into();
                self.answer()
            }
            Request::Attach(request) => {
                let socket = &self.socket;
                let outcome = roster.seat(self.connection, self.peer, request, |welcome, seat| {
                    match pass(socket, welcome, seat) {
                        Err(error) if limits::is_out_of_descriptors(&error) => {
                            Err(out_of_descriptors())
                        }
                        outcome => Ok(outcome.is_ok()),
                    }
                });
                self.is_seated = outcome == Ok(true);
                if let Err(refusal) = outcome {
                    self.refuse(refusal);
                }
                if self.is_seated { Fate::Stays } else { Fate::Goes }
            }
        }
    }

    /// Sends the rest of the answer, as far as there is room. A client that does not read it within
    /// the time limit for clients without a seat does not get the rest.
    fn answer(&mut self) -> Fate {
        while let Some(reply) = self.unsaid.front() {
            match self.socket.send(&reply.encode(), &[]) {
                Ok(()) => drop(self.unsaid.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Fate::Stays,
                Err(_) => return Fate::Goes,
            }
        }
        Fate::Goes
    }

    fn refuse(&self, refusal: Refusal) {
        refuse(&self.socket, refusal);
    }
}

fn pass(socket: &SeqPacket, welcome: Welcome, seat: &RemoteSeat) -> io::Result<()> {
    let files = seat.files();
    let mut passed = vec![files.packets, files.control, files.page];
    passed.extend(files.verdicts);
    socket.send(&Reply::Welcome(welcome).encode(), &passed)
}

/// Sends a refusal; a failure to send is ignored.
fn refuse(socket: &SeqPacket, refusal: Refusal) {
    let _ = socket.send(&Reply::Refused(refusal).encode(), &[]);
}

fn busy(waited_ns: u64, waiting: usize) -> Refusal {
    Refusal::Busy { waited_ms: waited_ns / 1_000_000, waiting: waiting as u64 }
}

fn out_of_descriptors() -> Refusal {
    Refusal::Descriptors { limit: limits::open_files().unwrap_or(0) }
}

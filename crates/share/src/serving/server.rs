//! The publisher's thread: takes calls, gives seats, and sees who has gone.
//!
//! ```text
//! accept --> allowed? --> asks within a second? --> Attach: seated --> socket or process ends
//!              no: Refused     no: dropped          Query: answered        seats are free
//! ```
//!
//! Nothing here blocks but one poll(2) over everything; so no client can delay another. An answer
//! for which the socket has no room yet waits with its client.
//!
//! A client that is not seated costs one of [`WAITING_MAX`] places. Where all are taken a newcomer
//! gets that of the oldest of the user who has most (`crowd`). The thread has no capabilities, and
//! no way to the writer but the seats.

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

/// Clients that may be connected without having asked for anything, or heard all of the answer.
const WAITING_MAX: usize = 64;
/// How long they may take, for both together.
const WAITING_NS: u64 = 1_000_000_000;
/// Accepted at a time, before those who are in are looked at again.
const ACCEPTS_A_TURN: usize = 32;
/// How long it accepts no connection when it has no descriptor left even to refuse one.
const PAUSE_NS: u64 = 100_000_000;

/// A writer lets go of a reader that has gone at its next publish. So for this long after a reader
/// has gone, the thread looks this often for something to give back.
const TIDIES_NS: u64 = 1_000_000_000;
const TIDY_NS: u64 = 20_000_000;
/// How long to sleep when poll(2) itself fails.
const BLIND_NS: u64 = 10_000_000;

pub(crate) struct Server {
    listener: SeqPacket,
    access: Access,
    roster: Arc<Roster>,
    stop: Arc<Event>,
    clients: Vec<Client>,
    next_connection: u64,
    /// Given up for a moment where there is no other descriptor to refuse a client with.
    spare: Option<Event>,
    /// Until when it accepts no connection, on the monotonic clock.
    pause_until_ns: u64,
    /// Until when readers that have gone may have left something.
    tidy_until_ns: u64,
}

struct Client {
    connection: u64,
    socket: SeqPacket,
    process: OwnedFd,
    peer: Credentials,
    since_ns: u64,
    is_seated: bool,
    /// Replies to a status query that are not sent yet.
    unsaid: VecDeque<Reply>,
}

/// What becomes of a client after it was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
}

/// What became of a try to refuse a client without a descriptor for it.
enum Spared {
    Refused,
    NobodyWaits,
    /// Another thread has taken the spare one: to poll for callers now would be to spin.
    NoDescriptor,
}

/// What poll(2) found.
struct Found {
    is_stopped: bool,
    is_called: bool,
    /// For each client: whether it has said something, or has room for what we have to say to it;
    /// and whether its process has ended.
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
    pub(crate) fn run(mut self) {
        // Only a filter of system calls can refuse this, and what it does needs no right.
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
            // More descriptors than the process may have by now: look at each, none blocks.
            Err(_) => Found {
                is_stopped: self.is_stopped_within(BLIND_NS),
                is_called: true,
                clients: vec![(true, false); self.clients.len()],
            },
        }
    }

    fn is_stopped_within(&self, timeout_ns: u64) -> bool {
        let ready = readiness::wait_each(&[self.stop.as_fd()], timeout_ns);
        // Where not even that can be asked, the job's end is the process's.
        ready.is_ok_and(|ready| ready[0])
    }

    /// Until the next thing that no descriptor announces.
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

    /// Lets those go who were given seats and have not claimed them. Such a seat matters only to a
    /// client that wants one, and its call has woken the thread.
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
                // The kernel says so before it looks whether a client waits.
                Err(error) if is_out_of_descriptors(&error) => match self.refuse_with_spare() {
                    Spared::Refused => {}
                    Spared::NobodyWaits => return,
                    Spared::NoDescriptor => return self.pause(),
                },
                // Gone before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.pause(),
            }
        }
    }

    fn pause(&mut self) {
        self.pause_until_ns = clock::monotonic_ns() + PAUSE_NS;
    }

    /// Refuses the next client with the descriptor that was kept for that.
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
        match self.access.admits(&socket, peer) {
            Ok(true) => {}
            _ => return refuse(&socket, Refusal::NotAllowed { uid: peer.uid.into() }),
        }
        let process = match socket.peer_process() {
            Ok(process) => process,
            Err(error) if is_out_of_descriptors(&error) => {
                return refuse(&socket, out_of_descriptors());
            }
            // It has ended already.
            Err(_) => return,
        };
        self.make_room(peer);
        let (connection, since_ns) = (self.next_connection, clock::monotonic_ns());
        self.next_connection += 1;
        let (is_seated, unsaid) = (false, VecDeque::new());
        let mut client = Client { connection, socket, process, peer, since_ns, is_seated, unsaid };
        // What it asks is mostly there by now.
        if client.listen(&self.roster) == Fate::Stays {
            self.clients.push(client);
        }
    }

    /// Lets one client go that is not seated, if there are too many of its kind.
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
        // They are in the order in which they came.
        if let Some(at) = crowd::one_to_let_go(&waiting, newcomer) {
            let client = self.clients.remove(at);
            client.refuse(busy(clock::monotonic_ns() - client.since_ns, waiting.len()));
        }
    }
}

impl Client {
    /// Takes what it says.
    fn listen(&mut self, roster: &Roster) -> Fate {
        let mut room = [0; MESSAGE_BYTES_MAX];
        let received = match self.socket.receive(&mut room, None) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Fate::Stays,
            Err(_) => return Fate::Goes,
        };
        // The end, or a word too many: after the welcome nothing is said.
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
            Request::Query => match roster.answer(self.peer) {
                Ok(replies) => {
                    self.unsaid = replies.into();
                    self.answer()
                }
                Err(refusal) => {
                    self.refuse(refusal);
                    Fate::Goes
                }
            },
            Request::Attach(request) => {
                let socket = &self.socket;
                let outcome = roster.seat(self.connection, self.peer, request, |welcome, seat| {
                    pass(socket, welcome, seat).is_ok()
                });
                self.is_seated = outcome == Ok(true);
                if let Err(refusal) = outcome {
                    self.refuse(refusal);
                }
                if self.is_seated { Fate::Stays } else { Fate::Goes }
            }
        }
    }

    /// Says what is still to be said, as far as there is room. Who does not read it within the
    /// time for all that is not seated does not hear the end of it.
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

/// Says no, if the other side hears it.
fn refuse(socket: &SeqPacket, refusal: Refusal) {
    let _ = socket.send(&Reply::Refused(refusal).encode(), &[]);
}

fn busy(waited_ns: u64, waiting: usize) -> Refusal {
    Refusal::Busy { waited_ms: waited_ns / 1_000_000, waiting: waiting as u64 }
}

fn out_of_descriptors() -> Refusal {
    Refusal::Descriptors { limit: limits::open_files().unwrap_or(0) }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    // EMFILE and ENFILE. Source: include/uapi/asm-generic/errno-base.h.
    matches!(error.raw_os_error(), Some(23 | 24))
}

//! The seats of a name: their holders, and their status.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burstline_log::{Log, LogFiles, MAX_WINDOW, MIN_SEGMENTS, Policy, ReaderConfig, RemoteSeat};
use burstline_sys::clock;
use burstline_sys::seqpacket::Credentials;
use burstline_sys::users;

use crate::message::{AttachRequest, READERS_A_MESSAGE, Reply, Welcome};
use crate::quotas::{Quotas, ROOT, Share};
use crate::refusal::Refusal;
use crate::status::{self, LogStatus, ReaderStatus, Visits};

/// The number of seats of past readers that are remembered.
const GONE_MAX: usize = 1024;
/// How long a reader may take to claim its seat. A running one takes microseconds.
const CLAIM_NS: u64 = 5_000_000_000;

/// Whether readers of other processes may be lossless and hold up the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LosslessReaders {
    /// No reader may.
    #[default]
    Refused,
    /// Each may, up to a deadline, in ns; then it is demoted to lossy. Unless the source of the
    /// packets can wait, the times of all readers of a user add up.
    For {
        /// Counted from the moment when the writer has no free segment.
        deadline_ns: u64,
    },
    /// Each may, without a deadline.
    Forever,
}

/// The logs of a name and their readers. Shared by the publisher's thread, which gives out and
/// frees seats, and by callers that read the status.
pub(crate) struct Roster {
    pub(crate) epoch: u64,
    logs: Vec<Log>,
    lossless: LosslessReaders,
    since_ns: u64,
    guests: Mutex<Vec<Guest>>,
    visits: Mutex<Visits>,
    /// The publisher's user.
    own_user: u32,
    quotas: Mutex<Quotas>,
}

/// One connection's seats.
struct Guest {
    connection: u64,
    peer: Credentials,
    command: String,
    request: AttachRequest,
    since_ns: u64,
    /// The seats, each with the number of its log.
    seats: Vec<(u32, RemoteSeat)>,
}

impl Roster {
    pub(crate) fn new(epoch: u64, logs: Vec<Log>, lossless: LosslessReaders) -> Self {
        Self {
            epoch,
            logs,
            lossless,
            since_ns: clock::monotonic_ns(),
            guests: Mutex::default(),
            visits: Mutex::default(),
            own_user: users::effective_user(),
            quotas: Mutex::default(),
        }
    }

    /// Takes a seat at each requested log, or at none. `welcome` then sends one log's files. If it
    /// returns false or a refusal, the seats are freed, and that is the result.
    pub(crate) fn seat(
        &self,
        connection: u64,
        peer: Credentials,
        request: AttachRequest,
        mut welcome: impl FnMut(Welcome, &RemoteSeat) -> Result<bool, Refusal>,
    ) -> Result<bool, Refusal> {
        self.allow(peer, &request)?;
        let count = self.logs.len() as u32;
        let numbers = match request.log {
            None => 0..count,
            Some(asked) if asked < count => asked..asked + 1,
            Some(asked) => {
                return Err(Refusal::NoSuchLog { asked: asked.into(), count: count.into() });
            }
        };
        let seats: Result<Vec<_>, _> =
            numbers.map(|number| Ok((number, self.take_seat(number, peer, &request)?))).collect();
        let seats: Vec<(u32, RemoteSeat)> = seats?;
        let count = seats.len() as u32;
        let (epoch, pid, window) = (self.epoch, std::process::id(), request.window);
        let (command, since_ns) = (command(peer.pid), clock::monotonic_ns());
        // Listed before the client learns its seats, so that any status it asks for is right.
        let mut guests = self.lock();
        for (index, (_, seat)) in (0..).zip(&seats) {
            let LogFiles { seat: number, part, .. } = seat.files();
            let number = number as u32;
            if !welcome(Welcome { epoch, pid, index, count, seat: number, window, part }, seat)? {
                return Ok(false);
            }
        }
        guests.push(Guest { connection, peer, command, request, since_ns, seats });
        let mut visits = self.visits();
        visits.total += 1;
        visits.peak = visits.peak.max(guests.len());
        Ok(true)
    }

    /// Returns whether this user may connect now; a connection has one request. Root and the
    /// publisher's user connect as often as they like; only their attaches are counted.
    pub(crate) fn connect(&self, peer: Credentials) -> Result<(), Refusal> {
        match self.is_unbounded(peer) {
            true => Ok(()),
            false => self.quotas().call(peer.uid, clock::monotonic_ns()),
        }
    }

    fn is_unbounded(&self, peer: Credentials) -> bool {
        peer.uid == ROOT || peer.uid == self.own_user
    }

    /// Returns whether this user may make this request now.
    fn allow(&self, peer: Credentials, request: &AttachRequest) -> Result<(), Refusal> {
        let now_ns = clock::monotonic_ns();
        for guest in self.lock().iter().filter(|guest| guest.peer.uid == peer.uid) {
            self.note_demotions(guest, now_ns);
        }
        let mut quotas = self.quotas();
        if self.is_unbounded(peer) {
            quotas.call(peer.uid, now_ns)?;
        }
        match request.policy {
            Policy::Lossless => quotas.lossless(peer.uid, now_ns),
            Policy::Lossy => Ok(()),
        }
    }

    /// Records that a reader was demoted for holding up the writer too long, at once or in all.
    fn note_demotions(&self, guest: &Guest, now_ns: u64) {
        let LosslessReaders::For { deadline_ns } = self.lossless else { return };
        if guest.seats.iter().any(|(_, seat)| seat.status().is_demoted) {
            self.quotas().held_up(guest.peer.uid, deadline_ns, now_ns);
        }
    }

    /// Returns whether a log has a seat, and a window of this size, for this user.
    fn admit(&self, number: u32, peer: Credentials, window: usize) -> Result<(), Refusal> {
        let (mut seats, mut windows) = (Share::default(), Share::default());
        for guest in self.lock().iter() {
            let count = guest.seats.iter().filter(|(log, _)| *log == number).count();
            seats.add(guest.peer.uid, self.own_user, peer.uid, count);
            let window = guest.request.window as usize;
            windows.add(guest.peer.uid, self.own_user, peer.uid, count * window);
        }
        // The log's own readers have what these have not.
        let (log, shape) = (&self.logs[number as usize], self.logs[number as usize].config());
        let segments = (shape.bytes / shape.segment_bytes).saturating_sub(MIN_SEGMENTS - 1);
        seats.all = (shape.max_readers + seats.taken()).saturating_sub(log.readers());
        windows.all = (segments + windows.taken()).saturating_sub(log.windows());
        seats.admit_seat(peer.uid, self.own_user)?;
        windows.admit_window(peer.uid, self.own_user, window)
    }

    fn take_seat(
        &self,
        number: u32,
        peer: Credentials,
        request: &AttachRequest,
    ) -> Result<RemoteSeat, Refusal> {
        let window = request.window as usize;
        if (1..=MAX_WINDOW).contains(&window) {
            self.admit(number, peer, window)?; // else the log refuses it
        }
        let deadline_ns = match (request.policy, self.lossless) {
            (Policy::Lossless, LosslessReaders::Refused) => return Err(Refusal::Lossless),
            (Policy::Lossless, LosslessReaders::For { deadline_ns }) => Some(deadline_ns),
            _ => None,
        };
        let (policy, start) = (request.policy, request.start);
        let config = ReaderConfig { policy, window, start };
        let limit = burstline_sys::limits::open_files().unwrap_or(0);
        let refusal = |error| Refusal::of_log(&error, limit);
        let log = &self.logs[number as usize];
        let mut seat = log.attach_remote_for(peer.uid, config).map_err(refusal)?;
        if request.gives_verdicts {
            seat.take_verdicts().map_err(refusal)?;
        }
        if let Some(deadline_ns) = deadline_ns {
            seat.set_lossless_deadline_ns(deadline_ns);
        }
        Ok(seat)
    }

    /// Frees the memory of readers that left.
    pub(crate) fn tidy(&self) {
        self.logs.iter().for_each(Log::tidy);
    }

    /// Frees the seats of a connection that has ended.
    pub(crate) fn leave(&self, connection: u64) {
        let mut guests = self.lock();
        let Some(at) = guests.iter().position(|guest| guest.connection == connection) else {
            return;
        };
        let (guest, now_ns) = (guests.remove(at), clock::monotonic_ns());
        self.note_demotions(&guest, now_ns);
        let mut visits = self.visits();
        for (log, seat) in &guest.seats {
            if visits.gone.len() < GONE_MAX {
                visits.gone.push(guest.status(*log, seat, now_ns));
            } else {
                visits.gone_omitted += 1;
            }
        }
    }

    /// Returns the connections whose seats were not claimed in time. These seats are revoked: a
    /// later claim fails.
    pub(crate) fn revoke_unclaimed(&self) -> Vec<u64> {
        let now_ns = clock::monotonic_ns();
        let is_late = |guest: &&Guest| {
            let waited_ns = now_ns.saturating_sub(guest.since_ns);
            waited_ns >= CLAIM_NS && guest.seats.iter().any(|(_, seat)| seat.revoke())
        };
        self.lock().iter().filter(is_late).map(|guest| guest.connection).collect()
    }

    /// Stops watching the connections. Their readers live on, perhaps beside a writer, so their
    /// seats are never given to others.
    pub(crate) fn abandon(&self) {
        for guest in self.lock().drain(..) {
            guest.seats.into_iter().for_each(|(_, seat)| seat.abandon());
        }
    }

    pub(crate) fn readers(&self) -> Vec<ReaderStatus> {
        Self::statuses(&self.lock())
    }

    fn statuses(guests: &[Guest]) -> Vec<ReaderStatus> {
        let now_ns = clock::monotonic_ns();
        let statuses = guests.iter().flat_map(|guest| {
            guest.seats.iter().map(move |(log, seat)| guest.status(*log, seat, now_ns))
        });
        statuses.collect()
    }

    /// Returns all readers so far.
    pub(crate) fn all_visits(&self) -> Visits {
        // A reader that leaves does so under this lock.
        let guests = self.lock();
        Visits { there: Self::statuses(&guests), ..self.visits().clone() }
    }

    pub(crate) fn answer(&self) -> Vec<Reply> {
        let (epoch, pid, logs) = (self.epoch, std::process::id(), self.logs.len() as u32);
        let up_s = clock::monotonic_ns().saturating_sub(self.since_ns) / 1_000_000_000;
        let mut replies = vec![Reply::Publisher { epoch, pid, logs, up_s }];
        replies.extend(self.logs.iter().map(|log| Reply::Log(log_status(log))));
        let readers = self.readers();
        let parts = readers.chunks(READERS_A_MESSAGE);
        replies.extend(parts.map(|part| Reply::Readers(part.to_vec())));
        replies.push(Reply::End);
        replies
    }

    fn quotas(&self) -> MutexGuard<'_, Quotas> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner) // each entry is independent
    }

    fn visits(&self) -> MutexGuard<'_, Visits> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner) // counts and a list
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Guest>> {
        // A panic elsewhere cannot leave it half-changed: each change is a push, a retain or a
        // drain.
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    fn status(&self, log: u32, seat: &RemoteSeat, now_ns: u64) -> ReaderStatus {
        let said = seat.status();
        ReaderStatus {
            log,
            seat: seat.files().seat as u32,
            pid: self.peer.pid,
            uid: self.peer.uid,
            window: self.request.window,
            held_segments: said.held_segments as u32,
            delivered: said.delivered,
            missed: said.missed,
            lag_packets: said.lag_packets,
            attached_s: now_ns.saturating_sub(self.since_ns) / 1_000_000_000,
            policy: self.request.policy,
            is_untrusted: self.request.is_untrusted,
            is_demoted: said.is_demoted,
            is_claimed: said.is_claimed,
            command: self.command.clone(),
        }
    }
}

fn log_status(log: &Log) -> LogStatus {
    let config = log.config();
    LogStatus {
        published: log.published(),
        segments: (config.bytes / config.segment_bytes) as u64,
        segment_bytes: config.segment_bytes as u64,
        readers: log.readers() as u64,
        max_readers: config.max_readers as u64,
        kept_ns: log.history().map_or(0, |history| history.kept_ns),
    }
}

/// Returns a process's name, for people; control characters are replaced.
fn command(pid: u32) -> String {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    status::plain(&comm)
}

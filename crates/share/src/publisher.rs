//! Publishes logs under a name.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use burstline_log::Log;
use burstline_sys::event::Event;
use burstline_sys::signals::without_signals;

use crate::error::ShareError;
use crate::places;
use crate::roster::{LosslessReaders, Roster};
use crate::server::Server;
use crate::socket_file::{Permissions, Published, SocketFile, TakenPlace};
use crate::status::{LOGS_MAX, ReaderStatus, Visits};

/// The configuration of a published name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishConfig {
    /// The name, or, if it contains a slash, the path of the socket.
    pub name: String,
    /// The socket's owner; `None` keeps the default. Only root may change it.
    pub owner: Option<u32>,
    /// The socket's group; `None` keeps the default. A process may choose one of its groups.
    pub group: Option<u32>,
    /// The socket's mode: users with write permission may read the logs.
    pub mode: u32,
    /// Whether readers may hold up the writer. The logs must allow it, too.
    pub lossless: LosslessReaders,
}

impl PublishConfig {
    /// Creates a configuration for the publisher's own user and root.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, lossless) = (name.into(), LosslessReaders::Refused);
        Self { name, owner: None, group: None, mode: 0o600, lossless }
    }
}

/// A name that is taken, and does not show yet.
struct TakenName {
    name: String,
    place: TakenPlace,
}

impl TakenName {
    fn take(config: &PublishConfig) -> Result<Self, ShareError> {
        let place = places::to_publish(&config.name)?;
        let &PublishConfig { owner, group, mode, .. } = config;
        let permissions = Permissions { owner, group, mode };
        let place = TakenPlace::at(&place, permissions)?;
        Ok(Self { name: config.name.clone(), place })
    }
}

/// Names that were taken before their logs are there.
static TAKEN: Mutex<Vec<TakenName>> = Mutex::new(Vec::new());

fn taken() -> MutexGuard<'static, Vec<TakenName>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a name for a process that is about to give up its rights. Readers trust the user who made
/// the socket of a name. The next [`Publisher::start`] for this name publishes there. Until then
/// nobody finds it, and nobody else can take it.
///
/// # Errors
/// As [`Publisher::start`].
pub fn take_name(config: &PublishConfig) -> Result<(), ShareError> {
    let name = TakenName::take(config)?;
    taken().push(name);
    Ok(())
}

/// Gives names back that were taken and not published: their sockets are removed.
pub fn give_names_back() {
    taken().clear();
}

/// A published name. Dropping it ends the publication: readers drain the logs and see the end.
///
/// End the writers first ([`Writer::finish`](burstline_log::Writer::finish)), so that readers learn
/// how the logs ended. A writer that continues afterwards has no readers in other processes.
pub struct Publisher {
    file: SocketFile,
    roster: Arc<Roster>,
    stop: Arc<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Publishes `logs`, from 1 to 64, under a name. Uses a thread, four descriptors, and more for
    /// each reader.
    ///
    /// # Errors
    /// [`ShareError::Taken`] if another process has the name; other errors name the obstacle.
    pub fn start(config: &PublishConfig, logs: Vec<Log>) -> Result<Self, ShareError> {
        assert!((1..=LOGS_MAX).contains(&logs.len()), "{} logs", logs.len());
        let ahead = taken().extract_if(.., |taken| taken.name == config.name).next();
        let name = ahead.map_or_else(|| TakenName::take(config), Ok)?;
        let Published { file, socket, access } = name.place.publish()?;
        let roster = Arc::new(Roster::new(file.epoch, logs, config.lossless));
        let at = &file.path().to_owned();
        let failed = |call| move |error| ShareError::system(call, at, error);
        let stop = Arc::new(Event::new().map_err(failed("eventfd for"))?);
        let server = Server::new(socket, access, Arc::clone(&roster), Arc::clone(&stop));
        let server = server.map_err(failed("eventfd for"))?;
        let builder = thread::Builder::new().name("publisher".into());
        let thread = without_signals(|| builder.spawn(move || server.run()));
        let thread = thread.map_err(failed("a thread for"))?;
        Ok(Self { file, roster, stop, thread: Some(thread) })
    }

    /// Returns the number of this publisher of the name: the next one's is larger by one.
    pub fn epoch(&self) -> u64 {
        self.roster.epoch
    }

    /// Returns the path of the socket.
    pub fn socket_path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the readers of other processes, one entry for each seat.
    ///
    /// Cost: a lock that no packet waits for, and a few loads a reader.
    pub fn readers(&self) -> Vec<ReaderStatus> {
        self.roster.readers()
    }

    /// Returns all readers so far, including those that have left.
    pub fn visits(&self) -> Visits {
        self.roster.all_visits()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has already printed its message
        }
        self.roster.abandon();
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("file", &self.file).finish_non_exhaustive()
    }
}

//! Publishing logs under a name.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use burstline_log::Log;
use burstline_sys::event::Event;
use burstline_sys::signals::without_signals;

use crate::error::ShareError;
use crate::places;
use crate::roster::{LosslessReaders, Roster};
use crate::server::Server;
use crate::socket_file::{Permissions, Published, SocketFile};
use crate::status::{LOGS_MAX, ReaderStatus, Visits};

/// How to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishConfig {
    /// The name, or with a slash in it, the path of the socket.
    pub name: String,
    /// The socket's owner; as it comes if `None`. Only root may give it to another.
    pub owner: Option<u32>,
    /// Its group, likewise: one's own groups may be chosen.
    pub group: Option<u32>,
    /// Its mode: who has write permission may read the logs.
    pub mode: u32,
    /// Whether readers may hold the writer up. The logs must allow it too.
    pub lossless: LosslessReaders,
}

impl PublishConfig {
    /// For the publisher's own user, and root.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, lossless) = (name.into(), LosslessReaders::Refused);
        Self { name, owner: None, group: None, mode: 0o600, lossless }
    }
}

/// A published name. Dropping it ends that: readers drain what was published and see the end.
///
/// End the writers first ([`Writer::finish`](burstline_log::Writer::finish)), so that readers learn
/// how the logs ended. A writer that goes on after this has no readers in other processes.
pub struct Publisher {
    file: SocketFile,
    roster: Arc<Roster>,
    stop: Arc<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Publishes `logs`, from 1 to 64, under a name. Takes a thread, and four descriptors and
    /// then some for each reader.
    ///
    /// # Errors
    /// [`ShareError::Taken`] where another process has the name; the rest says what is in the way.
    pub fn start(config: &PublishConfig, logs: Vec<Log>) -> Result<Self, ShareError> {
        assert!((1..=LOGS_MAX).contains(&logs.len()), "{} logs", logs.len());
        let place = places::to_publish(&config.name)?;
        let &PublishConfig { owner, group, mode, lossless, .. } = config;
        let permissions = Permissions { owner, group, mode };
        let Published { file, socket, access } = SocketFile::publish(&place, permissions)?;
        let roster = Arc::new(Roster::new(file.epoch, logs, lossless));
        let at = &place.socket;
        let failed = |call| move |error| ShareError::system(call, at, error);
        let stop = Arc::new(Event::new().map_err(failed("eventfd for"))?);
        let server = Server::new(socket, access, Arc::clone(&roster), Arc::clone(&stop));
        let server = server.map_err(failed("eventfd for"))?;
        let builder = thread::Builder::new().name("publisher".into());
        let thread = without_signals(|| builder.spawn(move || server.run()));
        let thread = thread.map_err(failed("a thread for"))?;
        Ok(Self { file, roster, stop, thread: Some(thread) })
    }

    /// Which publisher of the name it is: the next one's number is one more.
    pub fn epoch(&self) -> u64 {
        self.roster.epoch
    }

    /// Where the socket is.
    pub fn socket_path(&self) -> &Path {
        self.file.path()
    }

    /// The readers of other processes, one entry for each seat.
    ///
    /// Cost: a lock that no packet waits for, a few loads a reader.
    pub fn readers(&self) -> Vec<ReaderStatus> {
        self.roster.readers()
    }

    /// Everybody who has read here, and those who have gone again.
    pub fn visits(&self) -> Visits {
        self.roster.all_visits()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has said why, if it panicked
        }
        self.roster.abandon();
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("file", &self.file).finish_non_exhaustive()
    }
}

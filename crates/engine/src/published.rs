//! A job's logs under a name, for other programs to read while it runs.
//!
//! ```text
//! before the sources are polled   names of interfaces told, socket made, with the job's rights
//! while the job runs              the publisher's own thread; each new interface is named before
//!                                 a packet of it can be in a log
//! after the writers have ended    a moment for the readers to come to the end; then it is over
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::Log;
use burstline_port::PortTable;
use burstline_share::{PublishConfig, Publisher, ReaderStatus, ShareError};

use crate::{CaptureOptions, Progress};

/// How long the readers have to say that they have come to the end. They can read on afterwards,
/// but no report mentions it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Between two looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Who has read a job's logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedReport {
    /// The name, as typed.
    pub name: String,
    /// Where the socket was.
    pub socket: String,
    /// Which publisher of the name it was: the next one's number is one more.
    pub epoch: u64,
    /// Whether the job was stopped, so that readers wait for the next one of that name.
    pub is_stopped: bool,
    /// Packets published, by log.
    pub packets: Vec<u64>,
    /// Readers over the job's life, each counted once however many logs it reads.
    pub readers_total: u64,
    /// The most at a time.
    pub readers_peak: usize,
    /// The seats of readers that have gone, as they were then. What a seat's reader has read is
    /// its own word.
    pub gone: Vec<ReaderStatus>,
    /// Seats of others that have gone.
    pub gone_omitted: u64,
    /// The seats of those that were there at the end.
    pub there: Vec<ReaderStatus>,
}

/// Logs that are published.
pub(crate) struct Publication {
    name: String,
    logs: Vec<Log>,
    /// Owned here: who looks at it meanwhile finds it gone once this has ended.
    publisher: Arc<Mutex<Option<Publisher>>>,
}

/// What others see of a publication while it lasts.
#[derive(Debug)]
pub(crate) struct Shown {
    name: String,
    logs: Vec<Log>,
    publisher: Arc<Mutex<Option<Publisher>>>,
}

impl Shown {
    /// Who reads it now; `None`: it has ended.
    pub(crate) fn now(&self) -> Option<PublishedReport> {
        let publisher = lock(&self.publisher);
        Some(report(&self.name, &self.logs, publisher.as_ref()?, false))
    }
}

fn lock(publisher: &Mutex<Option<Publisher>>) -> MutexGuard<'_, Option<Publisher>> {
    publisher.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(name: &str, logs: &[Log], publisher: &Publisher, is_stopped: bool) -> PublishedReport {
    let visits = publisher.visits();
    PublishedReport {
        name: name.to_owned(),
        socket: publisher.socket_path().display().to_string(),
        epoch: publisher.epoch(),
        is_stopped,
        packets: logs.iter().map(Log::published).collect(),
        readers_total: visits.total,
        readers_peak: visits.peak,
        there: visits.there,
        gone: visits.gone,
        gone_omitted: visits.gone_omitted,
    }
}

impl Publication {
    /// Publishes a job's logs, to which nothing was written yet, if it is to.
    pub(crate) fn of(options: &CaptureOptions, logs: &[Log]) -> Result<Option<Self>, ShareError> {
        let publish = options.publish.as_ref();
        publish.map(|config| Self::start(config, logs, &options.table)).transpose()
    }

    /// Publishes logs whose packets come from the interfaces of `table`.
    pub(crate) fn start(
        config: &PublishConfig,
        logs: &[Log],
        table: &PortTable,
    ) -> Result<Self, ShareError> {
        // Before a reader can come: it may decide by the first link type that it finds.
        let told = logs.to_vec();
        table.watch(move |number, entry| {
            told.iter().for_each(|log| log.name_port(number, entry.link.0.into(), &entry.name));
        });
        let publisher = Publisher::start(config, logs.to_vec())?;
        let publisher = Arc::new(Mutex::new(Some(publisher)));
        Ok(Self { name: config.name.clone(), logs: logs.to_vec(), publisher })
    }

    /// What others see of it.
    pub(crate) fn shown(&self) -> Shown {
        let (name, logs) = (self.name.clone(), self.logs.clone());
        Shown { name, logs, publisher: Arc::clone(&self.publisher) }
    }

    /// Shows its logs and their readers while the job runs.
    pub(crate) fn show(&self, progress: &Progress) {
        progress.show_logs(&self.logs, Some(self.shown()));
    }

    /// Ends it, once the writers have ended.
    pub(crate) fn end(self, is_stopped: bool) -> PublishedReport {
        let until = Instant::now() + LAST_WORDS;
        while !self.all_have_read() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        let publisher = lock(&self.publisher);
        let Some(publisher) = publisher.as_ref() else { unreachable!("only a drop takes it") };
        report(&self.name, &self.logs, publisher, is_stopped)
    }

    fn all_have_read(&self) -> bool {
        let publisher = lock(&self.publisher);
        publisher.iter().all(|one| one.readers().iter().all(|reader| reader.lag_packets == 0))
    }
}

impl Drop for Publication {
    /// The publisher ends on this thread, even if others still look at it.
    fn drop(&mut self) {
        let publisher = lock(&self.publisher).take();
        drop(publisher);
    }
}

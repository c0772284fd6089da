//! Publishes a job's logs under a name, for other programs to read while the job runs.
//!
//! ```text
//! before the sources are polled   interfaces are named, socket is created with the job's rights
//! while the job runs              the publisher's own thread; each new interface is named before
//!                                 a packet of it can be in a log
//! after the writers have ended    readers get up to 1 s to reach the end; then the socket closes
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::Log;
use burstline_port::PortTable;
use burstline_share::{PublishConfig, Publisher, ReaderStatus, ShareError};

use crate::{CaptureOptions, Progress};

/// How long the job waits for readers to reach the end. They can read on afterwards, but no report
/// mentions it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Interval between two checks of whether the readers have reached the end.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The readers of a job's published logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedReport {
    /// The name, as typed.
    pub name: String,
    /// Where the socket was.
    pub socket: String,
    /// Sequence number of the publisher among those of the name. The next one gets one more.
    pub epoch: u64,
    /// Whether the job was stopped, so that readers wait for the next one of that name.
    pub is_stopped: bool,
    /// Packets published, by log.
    pub packets: Vec<u64>,
    /// Readers over the job's life, each counted once however many logs it reads.
    pub readers_total: u64,
    /// The most readers at a time.
    pub readers_peak: usize,
    /// The seats of readers that have left, as of that time. How much a reader has read is its own
    /// claim.
    pub gone: Vec<ReaderStatus>,
    /// Seats of further readers that have left.
    pub gone_omitted: u64,
    /// The seats of readers that were attached at the end.
    pub there: Vec<ReaderStatus>,
}

/// The publication of a job's logs.
pub(crate) struct Publication {
    name: String,
    logs: Vec<Log>,
    /// Shared with [`Shown`], which finds `None` after the publication has ended.
    publisher: Arc<Mutex<Option<Publisher>>>,
}

/// A view of a publication for other threads.
#[derive(Debug)]
pub(crate) struct Shown {
    name: String,
    logs: Vec<Log>,
    publisher: Arc<Mutex<Option<Publisher>>>,
}

impl Shown {
    /// Returns the current readers, or `None` if the publication has ended.
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
    /// Publishes a job's logs if `options` ask for it. Nothing may have been written to them yet.
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
        // Before a reader can attach, because it may act on the first link type that it finds.
        let told = logs.to_vec();
        table.watch(move |number, entry| {
            told.iter().for_each(|log| log.name_port(number, entry.link.0.into(), &entry.name));
        });
        let publisher = Publisher::start(config, logs.to_vec())?;
        let publisher = Arc::new(Mutex::new(Some(publisher)));
        Ok(Self { name: config.name.clone(), logs: logs.to_vec(), publisher })
    }

    /// Returns a view of the publication for other threads.
    pub(crate) fn shown(&self) -> Shown {
        let (name, logs) = (self.name.clone(), self.logs.clone());
        Shown { name, logs, publisher: Arc::clone(&self.publisher) }
    }

    /// Shows its logs and their readers while the job runs.
    pub(crate) fn show(&self, progress: &Progress) {
        progress.show_logs(&self.logs, Some(self.shown()));
    }

    /// Ends the publication, after the writers have ended.
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
    /// Drops the publisher on this thread, even if other threads still have a view of it.
    fn drop(&mut self) {
        let publisher = lock(&self.publisher).take();
        drop(publisher);
    }
}

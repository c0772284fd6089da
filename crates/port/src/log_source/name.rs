//! The readers of one name: those of the current writer, and of the next one.
//!
//! A restarted writer creates new logs. The first port that notices attaches to all of them, so all
//! start at the same moment. The other ports find their readers here, of every writer in turn, so a
//! slow port skips none. Logs without a port are detached immediately, with a note: a lossless
//! reader that never reads would block their writer.
//!
//! A writer that is stopped just when it is found does not answer, and a caller would wait for
//! seconds. So a separate thread looks for the next writer.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_log::Start;
use burstline_share::{AttachConfig, Attachment, Feed, ShareError, WriterLink};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::scheduling::{self, SchedulingClass};

use super::settings::LogSettings;

/// Time between two checks for the next writer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One reader, and the connection to its writer.
pub(super) struct Taken {
    pub(super) feed: Feed,
    pub(super) link: Arc<WriterLink>,
    /// The number of logs of its writer that this job does not read.
    pub(super) unread_logs: usize,
}

/// The result of a port's check for the next writer.
pub(super) enum Next {
    /// No writer yet.
    Nobody,
    /// A writer that refuses us, is not trusted, or lacks the log.
    Refused(String),
    /// A reader of a log of the next writer.
    Taken(Box<Taken>),
}

/// A name, shared by the ports of its logs.
pub(super) struct Name {
    config: AttachConfig,
    now: Mutex<Now>,
}

/// The attachments of the ports.
struct Now {
    /// The newest writer.
    link: Arc<WriterLink>,
    /// The number of its logs.
    logs: usize,
    /// By port: readers not fetched yet, the oldest writer's first.
    readers: Vec<VecDeque<Taken>>,
    /// When the last check for the next writer began.
    looked: Instant,
    /// The check in progress.
    look: Option<JoinHandle<Result<Option<Attachment>, ShareError>>>,
    /// Cores for these checks: those allowed on opening, before any thread was pinned.
    cores: Vec<CoreId>,
}

impl Name {
    /// Attaches to every requested log. Waits for the publisher as long as its address says, unless
    /// `stop` is set.
    pub(super) fn open(
        settings: &LogSettings,
        stop: Option<&AtomicBool>,
    ) -> Result<(Arc<Self>, Vec<Taken>), ShareError> {
        let config = AttachConfig {
            policy: settings.policy,
            window: settings.window,
            start: settings.start,
            log: settings.log,
            trust: settings.trust,
            gives_verdicts: false,
        };
        let until = Instant::now() + settings.wait;
        let Attachment { readers: feeds, link, .. } = loop {
            match Attachment::open(&settings.name, &config) {
                Err(ShareError::Absent { .. }) if Instant::now() < until && !is_set(stop) => {
                    thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
                }
                outcome => break outcome?,
            }
        };
        // Packets that the next writer wrote before it was found are wanted, too.
        let config = AttachConfig { start: Start::Oldest, ..config };
        let (logs, looked) = (feeds.len(), Instant::now());
        let kept = feeds.iter().map(|_| VecDeque::new()).collect();
        let taken = |feed| Taken { feed, link: Arc::clone(&link), unread_logs: 0 };
        let readers = feeds.into_iter().map(taken).collect();
        let cores = affinity::allowed_cores().unwrap_or_default();
        let now = Mutex::new(Now { link, logs, readers: kept, looked, look: None, cores });
        Ok((Arc::new(Self { config, now }), readers))
    }

    /// Checks periodically for the writer after `epoch`, for port `index`. Cost: a lock; ten times
    /// a second a thread that makes some system calls.
    pub(super) fn next(&self, index: usize, epoch: u64) -> Next {
        let mut now = self.lock();
        // If the newest writer has no log for this port, a later one may have.
        let has_read_all = |now: &Now| now.link.epoch() == epoch || now.link.is_gone();
        if now.readers[index].is_empty() && has_read_all(&now) {
            match now.look(&self.config) {
                None | Some(Ok(None)) => return Next::Nobody,
                Some(Ok(Some(next))) => now.meet(next),
                Some(Err(error)) => return Next::Refused(error.to_string()),
            }
        }
        match now.readers[index].pop_front() {
            Some(taken) => Next::Taken(Box::new(taken)),
            None => {
                let logs = now.logs;
                Next::Refused(format!("its next writer has only {logs} logs: none for this port"))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// Starts a check for the next writer, if one is due. Returns the result of the last check
    /// once, or `None` if there is none yet.
    fn look(&mut self, config: &AttachConfig) -> Option<Result<Option<Attachment>, ShareError>> {
        if self.look.as_ref().is_some_and(JoinHandle::is_finished) {
            let found = self.look.take()?.join();
            return Some(found.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        if self.look.is_none() && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let (config, cores, link) = (*config, self.cores.clone(), Arc::clone(&self.link));
            let look = thread::Builder::new().name("next writer".to_owned());
            // If no thread is available, try next time.
            let look = look.spawn(move || {
                // A thread that spins on our core at our own priority would starve this one.
                let _ = scheduling::set_class(SchedulingClass::Normal);
                let _ = affinity::allow(&cores);
                Attachment::open_next(&link, &config)
            });
            self.look = look.ok();
        }
        None
    }

    /// Keeps the readers of another writer until they are fetched.
    fn meet(&mut self, next: Attachment) {
        let Attachment { readers: feeds, link, .. } = next;
        (self.link, self.logs) = (link, feeds.len());
        let unread_logs = feeds.len().saturating_sub(self.readers.len());
        for (kept, feed) in self.readers.iter_mut().zip(feeds) {
            kept.push_back(Taken { feed, link: Arc::clone(&self.link), unread_logs });
        }
    }
}

fn is_set(flag: Option<&AtomicBool>) -> bool {
    flag.is_some_and(|flag| flag.load(Relaxed)) // a request, publishes no memory
}

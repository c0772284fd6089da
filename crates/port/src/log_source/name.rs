//! The readers of one name: those of the writer that is there, and of the next one.
//!
//! A restarted writer makes new logs. The first port that looks attaches to all of them, so all
//! start at one moment. The others find their readers here, of every writer in turn, so a slow port
//! skips none. Logs without a port are let go at once, with a note: a lossless reader that never
//! reads would hold their writer up.
//!
//! A writer that is stopped just as it is found does not answer, and a caller would wait for
//! seconds. So a separate thread looks for the next one.

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

/// Between two looks for the next writer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One reader, and the connection to its writer.
pub(super) struct Taken {
    pub(super) feed: Feed,
    pub(super) link: Arc<WriterLink>,
    /// How many logs its writer has that this job does not read.
    pub(super) unread_logs: usize,
}

/// What a port finds that waits for the next writer.
pub(super) enum Next {
    /// No writer yet.
    Nobody,
    /// A writer that refuses us, is not trusted, or does not have the log.
    Refused(String),
    /// A reader of a log of his.
    Taken(Box<Taken>),
}

/// A name, shared by the ports of its logs.
pub(super) struct Name {
    config: AttachConfig,
    now: Mutex<Now>,
}

/// Who is attached.
struct Now {
    /// The newest writer.
    link: Arc<WriterLink>,
    /// How many logs that has.
    logs: usize,
    /// By port: what it has not fetched, the oldest writer's first.
    readers: Vec<VecDeque<Taken>>,
    /// When a look for the next writer last began.
    looked: Instant,
    /// The look that is under way.
    look: Option<JoinHandle<Result<Option<Attachment>, ShareError>>>,
    /// Where looks may run: where the name was opened, before any thread was pinned.
    cores: Vec<CoreId>,
}

impl Name {
    /// Attaches to every requested log. Waits for the publisher as long as its address says and
    /// `stop` is not set.
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
        // What the next writer had written before it was found is wanted, too.
        let config = AttachConfig { start: Start::Oldest, ..config };
        let (logs, looked) = (feeds.len(), Instant::now());
        let kept = feeds.iter().map(|_| VecDeque::new()).collect();
        let taken = |feed| Taken { feed, link: Arc::clone(&link), unread_logs: 0 };
        let readers = feeds.into_iter().map(taken).collect();
        let cores = affinity::allowed_cores().unwrap_or_default();
        let now = Mutex::new(Now { link, logs, readers: kept, looked, look: None, cores });
        Ok((Arc::new(Self { config, now }), readers))
    }

    /// Looks for the writer after `epoch`, for port `index`, now and then. Cost: a lock; ten times
    /// a second a thread that makes some system calls.
    pub(super) fn next(&self, index: usize, epoch: u64) -> Next {
        let mut now = self.lock();
        // Where the newest writer has no log for this port, the one after it may have.
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
                Next::Refused(format!("its next writer has {logs} logs: too few for this"))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// Begins a look for the next writer, if it is time for one. Returns what the last look has
    /// found, once. `None`: nothing yet.
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
                // A thread that spins on our core at its own priority would not let us look.
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
    flag.is_some_and(|flag| flag.load(Relaxed)) // a wish, carries no memory
}

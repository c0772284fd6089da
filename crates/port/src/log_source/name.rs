//! The readers of one name: those of the writer that is there, and of the next one.
//!
//! A restarted writer makes new logs. Whichever port looks first attaches to all of them, so that
//! all start at one moment, and the others find their readers here.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::Start;
use burstline_share::{AttachConfig, Feed, ShareError, WriterLink};

use super::settings::Settings;

/// Between two looks for the next writer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One reader, and the connection to its writer.
pub(super) struct Taken {
    pub(super) feed: Feed,
    pub(super) link: Arc<WriterLink>,
}

/// What a port finds that waits for the next writer.
pub(super) enum Next {
    /// Nobody yet.
    Nobody,
    /// Somebody, who does not want us or is not to be trusted; or who has no such log.
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
    link: Arc<WriterLink>,
    /// By port; `None` where it has been fetched.
    readers: Vec<Option<Taken>>,
    looked: Instant,
}

impl Name {
    /// Attaches to every log that is asked for; waits for the publisher as long as it is told to,
    /// and `stop` is not set.
    pub(super) fn open(
        settings: &Settings,
        stop: Option<&AtomicBool>,
    ) -> Result<(Arc<Self>, Vec<Taken>), ShareError> {
        let config = AttachConfig {
            policy: settings.policy,
            window: settings.window,
            start: settings.start,
            log: settings.log,
            is_untrusted: settings.is_untrusted,
            ..AttachConfig::default()
        };
        let until = Instant::now() + settings.wait;
        let (link, readers) = loop {
            match attach(&settings.name, &config) {
                Err(ShareError::Absent { .. }) if Instant::now() < until && !is_set(stop) => {
                    thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
                }
                outcome => break outcome?,
            }
        };
        // What the next writer had written before it was found is wanted, too.
        let config = AttachConfig { start: Start::Oldest, ..config };
        let kept = readers.iter().map(|_| None).collect();
        let now = Mutex::new(Now { link, readers: kept, looked: Instant::now() });
        Ok((Arc::new(Self { config, now }), readers))
    }

    /// Looks for the writer after `epoch`, for port `index`, now and then. Cost: a lock; ten times
    /// a second some system calls.
    pub(super) fn next(&self, index: usize, epoch: u64) -> Next {
        let mut now = self.lock();
        if now.link.epoch() == epoch {
            if now.looked.elapsed() < LOOK_EVERY {
                return Next::Nobody;
            }
            now.looked = Instant::now();
            let path = now.link.path().to_string_lossy().into_owned();
            match attach(&path, &self.config) {
                // He that has ended is still there for a moment.
                Ok((link, _)) if link.epoch() == epoch => return Next::Nobody,
                Ok((link, readers)) => {
                    (now.link, now.readers) = (link, readers.into_iter().map(Some).collect());
                }
                Err(ShareError::Absent { .. }) => return Next::Nobody,
                Err(error) => return Next::Refused(error.to_string()),
            }
        }
        let logs = now.readers.len();
        match now.readers.get_mut(index).and_then(Option::take) {
            Some(taken) => Next::Taken(Box::new(taken)),
            None => Next::Refused(format!("its next writer has {logs} logs: too few for this")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Attaches to the logs of a name. One with a slash in it is looked for nowhere else.
fn attach(name: &str, config: &AttachConfig) -> Result<(Arc<WriterLink>, Vec<Taken>), ShareError> {
    let (feeds, link) = Feed::attach(name, config)?;
    let taken = feeds.into_iter().map(|feed| Taken { feed, link: Arc::clone(&link) });
    let readers = taken.collect();
    Ok((link, readers))
}

fn is_set(flag: Option<&AtomicBool>) -> bool {
    flag.is_some_and(|flag| flag.load(Relaxed)) // a wish, carries no memory
}

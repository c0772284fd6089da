//! A handle of this library: created, activated, read, closed.
//!
//! ```text
//! pcap_create ---> Created --pcap_activate--> Ready --dispatch--> Lent (callbacks run)
//!                                               ^-------------------'
//! ```
//!
//! Ownership: while callbacks run, the reading call owns the session and holds no lock. So a
//! callback may ask for statistics, set a filter, or close the handle. Another thread that tries to
//! read at that time gets an error.
//!
//! Invariants:
//! - C1. One call at a time owns a session. The session returns when the call ends, unless the
//!   handle was closed: then it ends with the call.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use burstline_share::{Follower, ShareError};
use burstline_wire::filter::Program;

use crate::abi::{
    ERROR_NO_SUCH_DEVICE, ERROR_PERM_DENIED, PRECISION_MICRO, PRECISION_NANO, SNAPLEN_MAX,
};
use crate::counts::Counts;
use crate::dead::Dead;
use crate::device::Device;
use crate::drops::Drops;
use crate::ready::Ready;
use crate::session::{Session, Shape, datalink_of};
use crate::verdicts::Verdicts;

/// The longest time that packets gather, unless a program requests immediate mode. The kernel's
/// blocks wait for the program's timeout, which is usually longer (decision 0040).
const GATHERING: Duration = Duration::from_millis(100);

/// A program's settings, made before activation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) snaplen: c_int,
    pub(crate) timeout_ms: c_int,
    pub(crate) precision: c_int,
    pub(crate) is_nonblocking: bool,
    pub(crate) is_immediate: bool,
}

enum State {
    Created,
    Ready(Box<Session>),
    /// Owned by the call that reads.
    Lent,
    Closed,
}

/// The reason why a handle could not be activated: libpcap's code, and a text.
pub(crate) struct Refused {
    pub(crate) code: c_int,
    pub(crate) text: String,
}

/// The reason why a call cannot get the session.
pub(crate) enum Busy {
    NotActivated,
    Reading,
    Closed,
    /// A call that must not wait would have to, for less than a poll of the log.
    Watched,
    /// This process is a child, and cannot attach to the log.
    Refused(Refused),
}

/// One handle.
pub(crate) struct Capture {
    device: Device,
    settings: Mutex<Settings>,
    state: Mutex<State>,
    filter: Mutex<Option<Arc<Program>>>,
    is_filter_new: AtomicBool,
    is_closed: AtomicBool,
    shape: OnceLock<Shape>,
    /// The real library's handle, which compiles filters and opens files for this one.
    dead: OnceLock<Option<Dead>>,
    pub(crate) counts: Counts,
    pub(crate) ready: Ready,
    pub(crate) verdicts: Verdicts,
}

/// Locks, even after a panic: every change leaves the value consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a filter was compiled from an empty expression, so that it accepts all of every
/// packet. tcpdump always sets one.
fn takes_all(program: &Program) -> bool {
    match program.instructions() {
        // Source: Linux's linux/bpf_common.h: BPF_RET | BPF_K.
        [only] => only.code == 0x06 && only.k >= SNAPLEN_MAX,
        _ => false,
    }
}

impl Capture {
    pub(crate) fn new(device: Device) -> Self {
        let settings = Settings {
            snaplen: SNAPLEN_MAX as c_int,
            timeout_ms: 0,
            precision: PRECISION_MICRO,
            is_nonblocking: false,
            is_immediate: false,
        };
        Self {
            settings: Mutex::new(settings),
            verdicts: Verdicts::new(device.rule),
            device,
            state: Mutex::new(State::Created),
            filter: Mutex::default(),
            is_filter_new: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            shape: OnceLock::new(),
            dead: OnceLock::new(),
            counts: Counts::default(),
            ready: Ready::default(),
        }
    }

    /// Creates a child's handle in place of its parent's, of which it uses only the settings.
    pub(crate) fn in_child(parents: &Self) -> Arc<Self> {
        let capture = Arc::new(Self::new(parents.device.clone()));
        *lock(&capture.settings) = parents.settings();
        capture.filter_by(lock(&parents.filter).clone());
        if let Some(shape) = parents.shape() {
            capture.shape.get_or_init(|| shape);
            // If this fails, a call that reads reports the reason.
            let _ = capture.activate();
            capture.ready.go_on(&parents.ready, &capture);
        }
        capture
    }

    pub(crate) fn settings(&self) -> Settings {
        *lock(&self.settings)
    }

    /// Changes a setting that must be made before activation; returns false if it is too late.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Settings)) -> bool {
        let is_early = matches!(*lock(&self.state), State::Created);
        if is_early {
            change(&mut lock(&self.settings));
        }
        is_early
    }

    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        lock(&self.settings).is_nonblocking = is_nonblocking;
    }

    /// Returns how long a call may wait for a first packet; `None` for no limit.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let Settings { timeout_ms, is_nonblocking, .. } = self.settings();
        match (is_nonblocking, timeout_ms) {
            (true, _) => Some(Duration::ZERO),
            (false, ..=0) => None,
            (false, ms) => Some(Duration::from_millis(ms as u64)),
        }
    }

    /// Returns how long a call that may wait lets packets gather. Packets that wait for a verdict
    /// do not gather.
    pub(crate) fn gathering(&self) -> Duration {
        if self.verdicts.are_given() {
            return Duration::ZERO;
        }
        let timeout = self.timeout().unwrap_or(GATHERING);
        let is_immediate = self.settings().is_immediate;
        if is_immediate { Duration::ZERO } else { timeout.min(GATHERING) }
    }

    /// Attaches to the log; `None` if that was already done.
    pub(crate) fn activate(&self) -> Option<Result<(), Refused>> {
        let mut state = lock(&self.state);
        let State::Created = &*state else { return None };
        let device = &self.device;
        // Before the first packet.
        let drops = match device.drops.as_deref().map(Drops::open).transpose() {
            Ok(drops) => drops,
            Err(error) => return Some(Err(no_drops(device, &error))),
        };
        let follower = match Follower::open(&device.name, &device.attach, device.is_following) {
            Ok(follower) => follower,
            Err(error) => return Some(Err(refused(&error))),
        };
        if let Some(drops) = drops {
            self.verdicts.heed(drops);
        }
        let settings = self.settings();
        let first_log = follower.first_log();
        let named = (0..=u8::MAX).find_map(|port| follower.port_name(first_log, port));
        let snaplen = match u32::try_from(settings.snaplen) {
            Ok(bytes) if bytes > 0 => bytes.min(SNAPLEN_MAX),
            _ => SNAPLEN_MAX,
        };
        let shape = Shape {
            datalink: named.map_or(1, |(link, _)| datalink_of(link)),
            snaplen,
            is_nano: settings.precision == PRECISION_NANO,
        };
        let shape = *self.shape.get_or_init(|| shape);
        *state = State::Ready(Box::new(Session::new(follower, shape)));
        Some(Ok(()))
    }

    /// Returns what was fixed by the activation; `None` before it.
    pub(crate) fn shape(&self) -> Option<Shape> {
        self.shape.get().copied()
    }

    /// Returns the real library's handle for files and filters; `None` before activation, or if the
    /// real library is missing.
    pub(crate) fn dead(&self) -> Option<&Dead> {
        let shape = self.shape()?;
        self.dead.get_or_init(|| Dead::open(shape)).as_ref()
    }

    pub(crate) fn set_filter(&self, program: Program) {
        self.filter_by(Some(program).filter(|program| !takes_all(program)).map(Arc::new));
    }

    fn filter_by(&self, filter: Option<Arc<Program>>) {
        *lock(&self.filter) = filter;
        self.is_filter_new.store(true, Relaxed);
    }

    /// Returns whether a filter was set that the session does not use yet.
    pub(crate) fn has_new_filter(&self) -> bool {
        self.is_filter_new.load(Relaxed)
    }

    /// Makes the session use the newest filter from now on.
    pub(crate) fn renew_filter(&self, session: &mut Session) {
        // The flag is a hint; the lock orders the filter.
        if self.has_new_filter() && self.is_filter_new.swap(false, Relaxed) {
            session.filter.clone_from(&lock(&self.filter));
        }
    }

    /// Takes the session until the result is dropped. In a child of the process that opened the
    /// handle, attaches first, if that was not possible before.
    pub(crate) fn read(&self) -> Result<Reading<'_>, Busy> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            // The watching thread holds the lock: a moment ago there were no packets.
            Err(TryLockError::WouldBlock) if self.settings().is_nonblocking => {
                return Err(Busy::Watched);
            }
            Err(_) => lock(&self.state),
        };
        match std::mem::replace(&mut *state, State::Lent) {
            State::Ready(mut session) => {
                drop(state);
                self.renew_filter(&mut session);
                Ok(Reading { capture: self, session: Some(session) })
            }
            other => {
                let busy = match other {
                    State::Created => Busy::NotActivated,
                    State::Closed => Busy::Closed,
                    State::Lent | State::Ready(_) => Busy::Reading,
                };
                *state = other;
                drop(state);
                match busy {
                    Busy::NotActivated if self.shape().is_some() => self.attach_and_read(),
                    busy => Err(busy),
                }
            }
        }
    }

    /// For a child's handle whose parent had activated it: see [`in_child`](Self::in_child).
    #[cold]
    fn attach_and_read(&self) -> Result<Reading<'_>, Busy> {
        match self.activate() {
            Some(Err(refused)) => Err(Busy::Refused(refused)),
            _ => self.read(),
        }
    }

    /// Calls `look` on the session if no call owns it.
    pub(crate) fn watch<T>(&self, look: impl FnOnce(&Session) -> T) -> Result<T, Busy> {
        match &*lock(&self.state) {
            State::Ready(session) => Ok(look(session)),
            State::Created => Err(Busy::NotActivated),
            State::Lent => Err(Busy::Reading),
            State::Closed => Err(Busy::Closed),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.verdicts.go_on();
        let state = std::mem::replace(&mut *lock(&self.state), State::Closed);
        drop(state);
        self.ready.close();
    }
}

/// The session, lent to one call.
pub(crate) struct Reading<'a> {
    capture: &'a Capture,
    /// `Some` until it is returned.
    session: Option<Box<Session>>,
}

impl Reading<'_> {
    pub(crate) fn session(&mut self) -> &mut Session {
        self.session.as_deref_mut().expect("it goes back only when this goes")
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let capture = self.capture;
        // A program that polls must be called again for the verdict on the packet that it has.
        let is_owed = capture.settings().is_nonblocking && capture.verdicts.is_owed();
        let has_rest = session.has_rest() || is_owed;
        let mut state = lock(&capture.state);
        if matches!(*state, State::Lent) {
            *state = State::Ready(session);
        }
        drop(state);
        capture.ready.update(has_rest);
    }
}

fn no_drops(device: &Device, error: &std::io::Error) -> Refused {
    let path = device.drops.as_deref().unwrap_or(std::path::Path::new(""));
    let text = format!("drops={}: {error}; it must be a file to write to", path.display());
    Refused { code: crate::abi::ERROR, text }
}

fn refused(error: &ShareError) -> Refused {
    let code = match error {
        ShareError::Absent { .. } | ShareError::Name { .. } => ERROR_NO_SUCH_DEVICE,
        ShareError::NotAllowed { .. } | ShareError::NotTrusted { .. } => ERROR_PERM_DENIED,
        _ => crate::abi::ERROR,
    };
    Refused { code, text: error.to_string() }
}

//! Runs the generator on another machine: the contender is here, its frames come from there.
//!
//! ```text
//!   this machine                           the other one
//!   lab run ---- ssh: a request a line --> lab generator
//!           <--- ssh: a reply a line -----
//!   contender on `to`   <==== cable ====== `port`   frames of gen:
//!   contender on `from` ===== cable =====> `back`   counted or timed there
//! ```
//!
//! ssh handles connection and authentication; a separate cable carries the frames. The generator is
//! this program in the same version. It only generates frames and writes no file.
//!
//! Invariants:
//! - N1: the other side ends when its input closes, when it receives nothing for [`Spec::silence`],
//!   or on a signal. Everything it opened is closed with its process.
//! - N2: nothing here waits for ever: each reply has a time limit, which the other side's own lines
//!   extend while it sends.
//! - N3: two counters count the sent frames: the generator's, and the kernel's of its port. The
//!   second one remains if the generator is killed.
//! - N4: times of different machines are never subtracted. The offset between their clocks is
//!   measured and recorded with its uncertainty: see `clocks`.

mod agent;
mod clocks;
mod error;
mod link;
mod spec;
mod words;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use agent::{AgentError, serve};
pub use error::RemoteError;
pub use spec::{Spec, SpecError};
pub use words::{Counts, Sent, Timed};

use burstline_sys::namespace::interface_index;

use crate::record::{Clock, Generator, Interface};
use link::Link;
use words::{Hello, Load, Reply, Request};

/// Clock readings of the other side for one offset.
const EXCHANGES: usize = 64;

/// The generator of a run.
pub struct Remote {
    spec: Spec,
    hello: Hello,
    link: Mutex<Link>,
    /// Clock offsets at the start.
    before: Vec<Clock>,
    stop: Arc<AtomicBool>,
    /// Errors since the last query.
    faults: Mutex<Vec<String>>,
}

/// A sending job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Bytes of each frame, with FCS.
    pub size_bytes: u32,
    /// Frames a second; `None` for full speed.
    pub rate_pps: Option<f64>,
    /// Number of frames, without a time limit.
    pub packets: Option<u64>,
    /// Duration, if there is no number.
    pub time: Duration,
}

impl Remote {
    /// Starts it and compares the clocks.
    ///
    /// # Errors
    /// [`RemoteError`], as each variant says.
    pub fn connect(spec: Spec, stop: Arc<AtomicBool>) -> Result<Self, RemoteError> {
        for (key, name) in [("to", Some(&spec.to)), ("from", spec.from.as_ref())] {
            if let Some(name) = name.filter(|name| !is_there(name)) {
                return Err(RemoteError::NoInterface { name: name.clone(), key });
            }
        }
        let (mut link, hello) = Link::start(&spec, &stop)?;
        let before = clocks_of(&mut link, "before")?;
        let (link, faults) = (Mutex::new(link), Mutex::default());
        Ok(Self { spec, hello, link, before, stop, faults })
    }

    /// Returns the specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the other side's interfaces.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.hello.interfaces.clone()
    }

    /// Returns its description for a record; compares the clocks again.
    pub(crate) fn describe(&self) -> Generator {
        let after = clocks_of(&mut self.link(), "after").unwrap_or_default();
        let Hello { version, commit, machine, core, .. } = self.hello.clone();
        Generator {
            host: self.spec.host.clone(),
            version,
            commit,
            machine,
            core,
            port: self.spec.port.to_string(),
            back: self.spec.back.as_ref().map(ToString::to_string),
            clocks: [self.before.clone(), after].concat(),
        }
    }

    /// Returns the kernel's counts of its ports. If the connection was lost, starts another
    /// generator to read them (N3).
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn counts(&self) -> Result<Counts, RemoteError> {
        let mut link = self.link();
        if !link.is_over() {
            let counts = counts_of(&mut link);
            // It may have been killed since the last turn.
            if counts.is_ok() || !link.is_over() {
                return self.noted(counts);
            }
        }
        self.noted(Link::start(&self.spec, &self.stop).and_then(|(again, _)| {
            *link = again;
            counts_of(&mut link)
        }))
    }

    /// Sends frames by its port.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn send(&self, order: Order) -> Result<Sent, RemoteError> {
        let mut link = self.link();
        let sent = link.ask_long(&Request::Send(Load::of(order)), &self.stop);
        self.noted(sent.and_then(|reply| match reply {
            Reply::Sent(sent) => Ok(sent),
            other => Err(link.confused(&other)),
        }))
    }

    /// Sends frames by its port and times them on their return, by its own clock.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn time(&self, order: Order) -> Result<Timed, RemoteError> {
        let mut link = self.link();
        let timed = link.ask_long(&Request::Time(Load::of(order)), &self.stop);
        self.noted(timed.and_then(|reply| match reply {
            Reply::Timed(timed) => Ok(*timed),
            other => Err(link.confused(&other)),
        }))
    }

    /// Returns the errors since the last call, one per line.
    pub fn faults(&self) -> Vec<String> {
        std::mem::take(&mut *self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores an error.
    fn noted<T>(&self, outcome: Result<T, RemoteError>) -> Result<T, RemoteError> {
        outcome.inspect_err(|error| {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults.push(error.to_string());
        })
    }

    /// Locks the link, ignoring poison. A panic cannot leave it inconsistent, because a request
    /// without a reply ends the link.
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Returns whether this machine has that interface.
fn is_there(name: &str) -> bool {
    interface_index(name).is_ok_and(|index| index.is_some())
}

fn counts_of(link: &mut Link) -> Result<Counts, RemoteError> {
    match link.ask(&Request::Counts)? {
        Reply::Counts(counts) => Ok(counts),
        other => Err(link.confused(&other)),
    }
}

fn clocks_of(link: &mut Link, at: &str) -> Result<Vec<Clock>, RemoteError> {
    let mut readings = Vec::with_capacity(EXCHANGES);
    for _ in 0..EXCHANGES {
        let before = clocks::Now::read();
        let there = match link.ask(&Request::Clocks)? {
            Reply::Clocks(there) => there,
            other => return Err(link.confused(&other)),
        };
        readings.push(clocks::Reading { before, there, after: clocks::Now::read() });
    }
    Ok(clocks::compare(&readings, at))
}

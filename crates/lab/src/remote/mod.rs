//! A generator on another machine: the contender is here, what it is given is made there.
//!
//! ```text
//!   this machine                           the other one
//!   lab run ---- ssh: a request a line --> lab generator
//!           <--- ssh: a reply a line -----
//!   contender on `to`   <==== cable ====== `port`   what gen: makes
//!   contender on `from` ===== cable =====> `back`   counted or timed there
//! ```
//!
//! ssh finds the way and proves who is who; a cable of its own carries the frames. The generator
//! is this program, of the same version. It only makes frames: it writes no file.
//!
//! Invariants:
//! - N1: the other side ends when its input does, when it hears nothing for [`Spec::silence`], and
//!   when it is signalled. What it opened goes with its process.
//! - N2: nothing here waits for ever: each reply has its time, which the other side's own lines
//!   extend while it sends.
//! - N3: what was sent is known by two counts: the generator's, and the kernel's of its port. The
//!   second one is there after the generator was killed, too.
//! - N4: a time of one machine is never subtracted from one of the other. How far their clocks are
//!   apart is measured and recorded, with how far that may be wrong: see `clocks`.

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

/// Readings of the other side's clocks for one offset.
const EXCHANGES: usize = 64;

/// The generator of a run.
pub struct Remote {
    spec: Spec,
    hello: Hello,
    link: Mutex<Link>,
    /// How far the clocks were apart at the start.
    before: Vec<Clock>,
    stop: Arc<AtomicBool>,
    /// What went wrong since somebody asked.
    faults: Mutex<Vec<String>>,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    /// Bytes of each frame, FCS included.
    pub size_bytes: u32,
    /// `None`: as fast as it goes.
    pub rate_pps: Option<f64>,
    /// This number, whatever time it takes.
    pub packets: Option<u64>,
    /// For this long, where there is no number.
    pub time: Duration,
}

impl Remote {
    /// Starts it, and compares the clocks.
    ///
    /// # Errors
    /// [`RemoteError`], each variant as it says.
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

    /// What was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The other side's interfaces.
    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.hello.interfaces.clone()
    }

    /// What a record says of it; the clocks are compared again.
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

    /// The kernel's counts of its ports. Where the generator was lost, another one is started to
    /// look (N3).
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

    /// Has frames sent by its port.
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

    /// Has frames sent by its port, and timed where they come out, by its own clock.
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

    /// What went wrong since the last call, a line each.
    pub fn faults(&self) -> Vec<String> {
        std::mem::take(&mut *self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps what went wrong.
    fn noted<T>(&self, outcome: Result<T, RemoteError>) -> Result<T, RemoteError> {
        outcome.inspect_err(|error| {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults.push(error.to_string());
        })
    }

    /// A thread that holds it cannot leave it half changed: a request whose reply is missing ends
    /// the link.
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Whether this machine has that interface.
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

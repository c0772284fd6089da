//! Closes removed ends on a separate thread, so that the switch goes on.
//!
//! ```text
//!  the switch's thread                                the thread `closer`
//!  Fabric::take_out ── Leaving ──────────────────►  finish sources and sink: may take a second
//!        │                                               │ close them: their names are free
//!        └─ its rows so far: losses, totals              │
//!  Fabric::begin ◄──────────────── final rows ───────────┘
//!  Fabric::when_closed ─ a question ─────────────►  answered once all before it are closed
//! ```
//!
//! A sink's `finish` may flush a disk, wait for a slow reader, or join a thread. Before the switch
//! runs and after it has ended, no packets can be delayed, so ends are closed synchronously.
//!
//! Invariants:
//! - C1: a removed end is in the ledger exactly once: with the rows it had at its removal, until
//!   its final rows replace them.
//! - C2: ends are closed in the order of their removal. So final rows belong to the oldest rows.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};

use burstline_switch::Counters;

use super::entry::Entry;
use super::port::Outlet;
use super::rows::Rows;
use crate::EngineError;

/// An end that was removed from the switch.
pub(super) struct Leaving {
    pub(super) name: String,
    pub(super) entry: Entry,
    pub(super) outlet: Outlet,
    /// The switch's counters of the end.
    pub(super) counters: Counters,
    /// Whether it was removed because of a failure. Errors of its `finish` are then ignored.
    pub(super) has_failed: bool,
}

/// A request to the closing thread. Requests are handled in order.
enum Errand {
    Close(Box<Leaving>),
    Answer(Sender<()>),
}

/// The switch's view of the ends that are being closed.
#[derive(Default)]
pub(super) struct Closing {
    errands: Option<Sender<Errand>>,
    closed: Option<Receiver<Rows>>,
    /// The rows of each so far, the oldest first (C2).
    so_far: VecDeque<Rows>,
}

/// The closing thread's side of the channels.
pub(super) struct Closer {
    errands: Receiver<Errand>,
    closed: Sender<Rows>,
}

/// Waits until all ends removed so far are closed.
pub(super) struct WhenClosed(Receiver<()>);

impl WhenClosed {
    /// Waits for an answer, or until nobody can give it any more.
    pub(super) fn by(answer: Receiver<()>) -> Self {
        Self(answer)
    }

    /// Waits until their names and devices can be used again.
    pub(super) fn wait(self) {
        // An error if nobody is to answer: then everything is closed.
        let _ = self.0.recv();
    }
}

impl Leaving {
    fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        rows.add(&self.name, &self.entry, &self.outlet, &self.counters);
        rows
    }

    /// Finishes and closes the end. Returns its rows.
    fn close(mut self) -> Rows {
        let mut errors = Vec::new();
        for inlet in &mut self.entry.inlets {
            errors.extend(inlet.source.finish().err());
        }
        errors.extend(self.outlet.sink.finish().err());
        if self.has_failed {
            errors.clear();
        }
        let mut rows = self.rows();
        rows.errors.extend(errors.into_iter().map(EngineError::from));
        rows
    }
}

impl Closing {
    /// Starts closing ends on a thread, which must run the returned [`Closer`].
    pub(super) fn begin(&mut self) -> Closer {
        let (sender, errands) = mpsc::channel();
        let (closed, receiver) = mpsc::channel();
        (self.errands, self.closed) = (Some(sender), Some(receiver));
        Closer { errands, closed }
    }

    /// Closes an end, or passes it to the closing thread. Returns its rows if it is already closed.
    pub(super) fn close(&mut self, end: Leaving) -> Option<Rows> {
        let Some(errands) = &self.errands else { return Some(end.close()) };
        let so_far = end.rows();
        match errands.send(Errand::Close(Box::new(end))) {
            Ok(()) => self.so_far.push_back(so_far),
            Err(mpsc::SendError(Errand::Close(end))) => return Some(end.close()),
            Err(_) => unreachable!("it was an end"),
        }
        None
    }

    /// Answers once all ends removed so far are closed.
    pub(super) fn answer(&self, asker: Sender<()>) {
        if let Some(errands) = self.errands.as_ref().filter(|_| !self.so_far.is_empty()) {
            // If the send fails, or there is nothing to wait for, the sender is dropped. That ends
            // the wait as well.
            let _ = errands.send(Errand::Answer(asker));
        }
    }

    /// Returns the final rows of an end that was closed in the meantime.
    #[inline]
    pub(super) fn closed(&mut self) -> Option<Rows> {
        if self.so_far.is_empty() {
            return None;
        }
        let rows = self.closed.as_ref()?.try_recv().ok()?;
        self.so_far.pop_front();
        Some(rows)
    }

    /// Waits until all ends are closed, and stops using the thread. Returns their final rows; the
    /// rows so far of an end that the thread did not come to.
    pub(super) fn end(&mut self) -> Vec<Rows> {
        self.errands = None;
        let mut closed: Vec<Rows> = self.closed.take().into_iter().flatten().collect();
        closed.extend(self.so_far.drain(..).skip(closed.len()));
        closed
    }

    /// Returns the rows so far of the ends that are being closed.
    pub(super) fn so_far(&self) -> impl Iterator<Item = &Rows> {
        self.so_far.iter()
    }
}

impl Closer {
    /// Closes removed ends until the switch has ended.
    pub(super) fn run(self) {
        for errand in self.errands {
            match errand {
                Errand::Close(end) => {
                    // The switch may have failed in the meantime.
                    let _ = self.closed.send(end.close());
                }
                Errand::Answer(whom) => {
                    let _ = whom.send(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

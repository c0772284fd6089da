//! Where ends that were taken out are closed: on a thread of their own, so that the switch goes on.
//!
//! ```text
//!  the switch's thread                                the thread `closer`
//!  Fabric::take_out ── Leaving ──────────────────►  finish sources and sink: may take a second
//!        │                                               │ close them: their names are free
//!        └─ its rows as they are: losses, totals         │
//!  Fabric::begin ◄──────────── number, final rows ───────┘
//!  Fabric::when_closed ─ a question ─────────────►  answered once all before it are closed
//! ```
//!
//! A sink that ends flushes a disk, waits for a reader that is behind, or joins a thread. Before a
//! switch runs and after it has ended nobody waits for packets. Then ends are closed at once.
//!
//! Invariant C1: an end that was taken out is in the ledger once: by the rows it had at that time,
//! until its final ones replace them.

use std::sync::mpsc::{self, Receiver, Sender};

use burstline_switch::Counters;

use super::entry::Entry;
use super::port::Outlet;
use super::rows::Rows;
use crate::EngineError;

/// An end that is no longer part of the switch.
pub(super) struct Leaving {
    pub(super) name: String,
    pub(super) entry: Entry,
    pub(super) outlet: Outlet,
    /// What the switch has counted of it.
    pub(super) counters: Counters,
    /// Whether it leaves because something failed. It then fails again when it ends.
    pub(super) has_failed: bool,
}

/// What the thread is asked to do, in this order.
enum Errand {
    Close { number: usize, end: Box<Leaving> },
    Answer(Sender<()>),
}

/// The ends that are being closed, as the switch sees them.
#[derive(Default)]
pub(super) struct Closing {
    errands: Option<Sender<Errand>>,
    closed: Option<Receiver<(usize, Rows)>>,
    /// What is known of each so far, by number.
    so_far: Vec<(usize, Rows)>,
    number: usize,
}

/// The thread's part.
pub(super) struct Closer {
    errands: Receiver<Errand>,
    closed: Sender<(usize, Rows)>,
}

/// Ends when all that left a switch so far is closed.
pub(super) struct WhenClosed(Option<Receiver<()>>);

impl WhenClosed {
    /// Waits until their names and devices can be used again.
    pub(super) fn wait(self) {
        if let Some(answer) = self.0 {
            // A thread that has ended has closed everything.
            let _ = answer.recv();
        }
    }
}

impl Leaving {
    fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        rows.add(&self.name, &self.entry, &self.outlet, &self.counters);
        rows
    }

    /// Ends and closes it. Returns its rows.
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
    /// From now on a thread closes what leaves: the returned part is for it.
    pub(super) fn begin(&mut self) -> Closer {
        let (sender, errands) = mpsc::channel();
        let (closed, receiver) = mpsc::channel();
        (self.errands, self.closed) = (Some(sender), Some(receiver));
        Closer { errands, closed }
    }

    /// Has an end closed. Returns its rows where that is done already.
    pub(super) fn close(&mut self, end: Leaving) -> Option<Rows> {
        let Some(errands) = &self.errands else { return Some(end.close()) };
        self.number += 1;
        self.so_far.push((self.number, end.rows()));
        let errand = Errand::Close { number: self.number, end: Box::new(end) };
        match errands.send(errand) {
            Ok(()) => None,
            // The thread could not start.
            Err(mpsc::SendError(Errand::Close { end, .. })) => {
                self.so_far.pop();
                Some(end.close())
            }
            Err(_) => unreachable!("it was an end"),
        }
    }

    /// Ends when all that left so far is closed.
    pub(super) fn when_closed(&self) -> WhenClosed {
        let Some(errands) = self.errands.as_ref().filter(|_| !self.so_far.is_empty()) else {
            return WhenClosed(None);
        };
        let (sender, answer) = mpsc::channel();
        // One that is not taken is dropped, which is an answer too.
        let _ = errands.send(Errand::Answer(sender));
        WhenClosed(Some(answer))
    }

    /// The final rows of an end that was closed meanwhile.
    #[inline]
    pub(super) fn closed(&mut self) -> Option<Rows> {
        if self.so_far.is_empty() {
            return None;
        }
        let (number, rows) = self.closed.as_ref()?.try_recv().ok()?;
        self.so_far.retain(|(known, _)| *known != number);
        Some(rows)
    }

    /// Waits until all are closed, and has no thread from now on. Returns their final rows.
    pub(super) fn end(&mut self) -> Vec<Rows> {
        self.errands = None;
        let closed = self.closed.take().into_iter().flatten().map(|(_, rows)| rows).collect();
        self.so_far.clear();
        closed
    }

    /// What is known so far of those that are being closed.
    pub(super) fn so_far(&self) -> impl Iterator<Item = &Rows> {
        self.so_far.iter().map(|(_, rows)| rows)
    }
}

impl Closer {
    /// Closes what leaves, until the switch has ended.
    pub(super) fn run(self) {
        for errand in self.errands {
            match errand {
                Errand::Close { number, end } => {
                    let rows = end.close();
                    // The switch may have failed meanwhile.
                    let _ = self.closed.send((number, rows));
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

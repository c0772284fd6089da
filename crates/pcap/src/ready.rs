//! A descriptor that is readable if there are packets: `pcap_get_selectable_fd`.
//!
//! ```text
//! program:  poll(fd) ... dispatch: all was read ---arm---> thread: polls the log, for 10 ms each,
//!              ^------------- eventfd, 1 ----------------- until there are packets or an end
//! ```
//!
//! A log wakes up threads, not descriptors, so a thread waits on behalf of the program. It starts
//! when the program first asks for the descriptor, and ends when the handle is closed.
//!
//! Invariant: the descriptor is readable whenever there are packets that the program was not
//! offered since it was last readable.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use burstline_sys::signals::without_signals;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{self, DupFlags};

use crate::capture::{Busy, Capture};

/// How long the thread waits for the log before it lets a call of the program in.
const LOOK_NS: u64 = 10_000_000;
/// Pause between two waits, for the program's calls.
const PAUSE: Duration = Duration::from_micros(200);
/// Pause between two waits while there is no writer: the program's own call looks for the next one.
const WAIT: Duration = Duration::from_millis(50);

/// The descriptor, once the program has asked for it.
#[derive(Default)]
pub(crate) struct Ready(OnceLock<Arc<Signal>>);

struct Signal {
    event: OwnedFd,
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The descriptor is readable.
    Told,
    /// The program has read everything, and waits for more.
    Armed,
    Closed,
}

impl Ready {
    /// Returns the descriptor of `capture`, whose `Ready` this is; `None` if no descriptor is free.
    pub(crate) fn descriptor(&self, capture: &Arc<Capture>) -> Option<RawFd> {
        if self.0.get().is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let signal = Arc::new(Signal {
                event: eventfd(0, flags).ok()?,
                phase: Mutex::new(Phase::Armed),
                changed: Condvar::new(),
            });
            self.start(signal, capture)?;
        }
        self.0.get().map(|signal| signal.descriptor())
    }

    /// Starts the thread. `None` if the system has none left.
    fn start(&self, signal: Arc<Signal>, capture: &Arc<Capture>) -> Option<()> {
        let (theirs, weak) = (Arc::clone(&signal), Arc::downgrade(capture));
        if self.0.set(signal).is_ok() {
            let builder = thread::Builder::new().name("burstline-pcap".to_owned());
            without_signals(|| builder.spawn(move || watch(&theirs, &weak))).ok()?;
        }
        Some(())
    }

    /// In a child by fork(2), before anything else: makes the number of the parent's descriptor
    /// refer to a new, readable one. A program that waits for it then makes a call, which leads to
    /// [`go_on`](Self::go_on). Makes only system calls: other threads' locks may be held.
    pub(crate) fn in_child(&self) {
        let Some(signal) = self.0.get() else { return };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let Ok(event) = eventfd(1, flags) else { return };
        // SAFETY: the number is open, because `signal` owns it; it is not closed here.
        let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(signal.descriptor()) });
        let _ = io::dup3(&event, &mut place, DupFlags::CLOEXEC);
    }

    /// Takes over the parent's descriptor, in a child with the handle `capture`.
    pub(crate) fn go_on(&self, parents: &Self, capture: &Arc<Capture>) {
        let Some(signal) = parents.0.get() else { return };
        // SAFETY: the number is open, and its owner is never used or dropped in this process (F1).
        let event = unsafe { OwnedFd::from_raw_fd(signal.descriptor()) };
        let phase = Mutex::new(Phase::Told);
        self.start(Arc::new(Signal { event, phase, changed: Condvar::new() }), capture);
    }

    /// Updates the descriptor after a call has read; `has_rest`: packets are left.
    pub(crate) fn update(&self, has_rest: bool) {
        let Some(signal) = self.0.get() else { return };
        if has_rest {
            signal.tell();
        } else {
            signal.arm();
        }
    }

    pub(crate) fn close(&self) {
        if let Some(signal) = self.0.get() {
            signal.enter(Phase::Closed);
        }
    }
}

impl Signal {
    fn descriptor(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the phase. Returns whether it is a different one.
    fn enter(&self, next: Phase) -> bool {
        let mut phase = self.lock();
        let is_other = *phase != next && *phase != Phase::Closed;
        if is_other {
            *phase = next;
            self.changed.notify_one();
        }
        is_other
    }

    /// Makes the descriptor readable until [`arm`](Self::arm). So a program that takes one packet a
    /// call pays two system calls each time it has read everything.
    fn tell(&self) {
        if self.enter(Phase::Told) {
            let _ = io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Makes it unreadable, and lets the thread watch the log.
    fn arm(&self) {
        let mut count = [0; 8];
        let _ = io::read(&self.event, &mut count);
        self.enter(Phase::Armed);
    }

    /// Sleeps until the program has read everything; returns false if the handle was closed.
    fn wait_until_armed(&self) -> bool {
        let mut phase = self.lock();
        while *phase == Phase::Told {
            phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
        *phase == Phase::Armed
    }
}

/// The result of waiting for the log.
struct Look {
    /// Whether the program should make a call.
    has_news: bool,
    /// How long to pause for the program's calls.
    pause: Duration,
}

/// Runs the thread: watches the log while the program does not.
fn watch(signal: &Signal, capture: &Weak<Capture>) {
    while signal.wait_until_armed() {
        let Some(capture) = capture.upgrade() else { return };
        // The lock is not fair: a call that waits for it gets it in the pause.
        let Look { has_news, pause } = match capture.look(LOOK_NS) {
            Ok(look) => look,
            Err(Busy::Closed) => return,
            // The program is in a call, which arms again when it ends.
            Err(_) => Look { has_news: false, pause: PAUSE },
        };
        thread::sleep(pause);
        if has_news {
            signal.tell();
        }
    }
}

impl Capture {
    /// Waits for packets, at most `timeout_ns`.
    fn look(&self, timeout_ns: u64) -> Result<Look, Busy> {
        self.watch(|session| {
            let follower = &session.follower;
            if session.has_ended() {
                return Look { has_news: false, pause: WAIT }; // the program already knows
            }
            if follower.is_waiting() {
                return Look { has_news: true, pause: WAIT };
            }
            if !session.has_rest() && follower.lag() == 0 {
                follower.wait(timeout_ns);
            }
            let has_news = session.has_rest() || follower.lag() > 0 || follower.is_over();
            Look { has_news, pause: if has_news { Duration::ZERO } else { PAUSE } }
        })
    }
}

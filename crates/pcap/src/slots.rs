//! The handles of this library: each `pcap_t *` is a place in a table that is never freed.
//!
//! ```text
//! pcap_t *  in the table?  no  -> the real libpcap's
//!                          yes -> place k -> Capture, or none if it was closed
//! ```
//!
//! So the address alone distinguishes our pointers from those of the real library, and using a
//! closed one is an error, not a fault. `pcap_breakloop` only stores into a place: it may run in a
//! signal handler, which must not take a lock.
//!
//! Invariants:
//! - P1. A place has at most one capture. A call holds the capture it uses by an `Arc`, so closing
//!   from a callback, or from another thread, does not invalidate it.

use std::ffi::{c_char, c_int};
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::{ERRBUF_BYTES, Pcap, errbuf_bytes};
use crate::capture::Capture;
use crate::fork;

/// The most handles at a time: a program opens a handful.
const PLACES: usize = 256;

/// One place.
pub(crate) struct Slot {
    capture: RwLock<Option<Arc<Capture>>>,
    /// The process that opened it: see [`fork`].
    generation: AtomicU32,
    /// Set by `pcap_breakloop`, cleared by the call that it ends.
    is_breaking: AtomicBool,
    /// The text of the last error, ended by a 0, which `pcap_geterr` lends. A reader may see two
    /// texts mixed, as with libpcap itself; the last byte stays 0.
    text: [AtomicU8; ERRBUF_BYTES],
}

static SLOTS: [Slot; PLACES] = [const {
    Slot {
        capture: RwLock::new(None),
        generation: AtomicU32::new(0),
        is_breaking: AtomicBool::new(false),
        text: [const { AtomicU8::new(0) }; ERRBUF_BYTES],
    }
}; PLACES];

/// Returns the place of a pointer; `None` if the pointer belongs to the real library.
pub(crate) fn slot(pcap: *const Pcap) -> Option<&'static Slot> {
    let offset = pcap.addr().checked_sub(SLOTS.as_ptr().addr())?;
    SLOTS.get(offset / size_of::<Slot>())
}

/// Puts a capture into a free place; `None` if there is none.
pub(crate) fn add(capture: Capture) -> Option<*mut Pcap> {
    fork::watch();
    let capture = Arc::new(capture);
    for slot in &SLOTS {
        let mut place = slot.capture.write().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            slot.generation.store(fork::generation(), Relaxed);
            slot.is_breaking.store(false, Relaxed);
            slot.tell("");
            *place = Some(capture);
            return Some(std::ptr::from_ref(slot).cast_mut().cast());
        }
    }
    None
}

/// In a child by fork(2): gives the child its own descriptors in place of the parent's.
pub(crate) fn in_child() {
    for slot in &SLOTS {
        // If it is locked, another thread of the parent was about to open or close the handle.
        if let Ok(capture) = slot.capture.try_read()
            && let Some(capture) = &*capture
        {
            capture.ready.in_child();
        }
    }
}

impl Slot {
    /// In a child by fork(2), replaces the parent's handle by a new one.
    fn renew(&self) {
        let generation = fork::generation();
        if self.generation.load(Relaxed) == generation {
            return;
        }
        let mut place = self.capture.write().unwrap_or_else(PoisonError::into_inner);
        if self.generation.swap(generation, Relaxed) != generation
            && let Some(parents) = place.take()
        {
            *place = Some(Capture::in_child(&parents));
            std::mem::forget(parents); // F1
        }
    }

    /// Returns whether this process is a child of the opener, and has not used the handle yet.
    pub(crate) fn is_parents(&self) -> bool {
        self.generation.load(Relaxed) != fork::generation()
    }

    pub(crate) fn capture(&self) -> Option<Arc<Capture>> {
        self.renew();
        self.capture.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn close(&self) {
        let capture = self.capture.write().unwrap_or_else(PoisonError::into_inner).take();
        match capture {
            Some(parents) if self.is_parents() => std::mem::forget(parents), // F1
            Some(capture) => capture.close(),
            None => {}
        }
    }

    /// Asks the call that reads packets to end.
    pub(crate) fn break_loop(&self) {
        self.is_breaking.store(true, Relaxed);
    }

    pub(crate) fn is_breaking(&self) -> bool {
        self.is_breaking.load(Relaxed)
    }

    /// Like [`is_breaking`](Self::is_breaking), but clears the request.
    pub(crate) fn take_break(&self) -> bool {
        // A single load in all calls except the one that it ends.
        self.is_breaking() && self.is_breaking.swap(false, Relaxed)
    }

    /// Stores the text of an error.
    pub(crate) fn tell(&self, text: &str) {
        for (at, byte) in self.text.iter().zip(errbuf_bytes(text)) {
            at.store(byte, Relaxed);
        }
    }

    /// Stores the text of an error, and returns libpcap's code for a failure.
    pub(crate) fn fail(&self, text: &str) -> c_int {
        self.tell(text);
        crate::abi::ERROR
    }

    /// Returns the text for `pcap_geterr`.
    pub(crate) fn text(&self) -> *mut c_char {
        self.text.as_ptr().cast_mut().cast()
    }
}

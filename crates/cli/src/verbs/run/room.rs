//! A limit, in bytes, on data that waits between two threads.
//!
//! ```text
//!   producer ──takes──► Room ◄──gives back, by dropping the line── consumer
//! ```
//!
//! A queue bounded only by lines is not bounded in memory: a line may have megabytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Overhead of a line besides its text, at least its place in a queue.
const LINE_BYTES: usize = 128;

/// A limit in bytes.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    taken: Mutex<usize>,
}

/// A line, which occupies room until it is dropped.
#[derive(Debug)]
pub(super) struct Line {
    text: String,
    room: Arc<Room>,
}

impl Room {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::new(0) })
    }

    /// Returns whether there is room for a line. One larger than the limit must be the only one.
    pub(super) fn has_room_for(&self, text: &str) -> bool {
        self.fits(*self.lock(), text)
    }

    /// Returns the line if there is room for it now.
    pub(super) fn try_for(self: &Arc<Self>, text: String) -> Option<Line> {
        let mut taken = self.lock();
        self.fits(*taken, &text).then(|| {
            *taken += bytes(&text);
            Line { text, room: Arc::clone(self) }
        })
    }

    fn fits(&self, taken: usize, text: &str) -> bool {
        taken == 0 || taken + bytes(text) <= self.most
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        *self.room.lock() -= bytes(&self.text);
    }
}

fn bytes(text: &str) -> usize {
    text.len() + LINE_BYTES
}

//! Waits for a pipe whose writer is silent, until the user ends that.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_sys::readiness;

use super::CaptureReader;
use crate::PortError;

/// How long to wait before the flag is looked at: another thread may get the signal that sets it.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// What ends the wait for a silent pipe.
#[derive(Default)]
pub(super) struct Silence {
    stop: Option<Arc<AtomicBool>>,
    has_ended: bool,
}

impl CaptureReader {
    /// Once `stop` is set, a pipe without data is at its end.
    #[must_use]
    pub fn until(mut self, stop: &Arc<AtomicBool>) -> Self {
        self.silence.stop = Some(Arc::clone(stop));
        self
    }

    /// Returns whether that was its end: its writer may have more.
    pub fn was_stopped(&self) -> bool {
        self.silence.has_ended
    }

    /// Waits a moment for data of a pipe. Returns false if it is at its end now.
    pub(super) fn wait(&mut self) -> Result<bool, PortError> {
        let stop = self.silence.stop.as_ref();
        // The flag carries no memory.
        if stop.is_some_and(|stop| stop.load(Relaxed)) {
            self.silence.has_ended = true;
            return Ok(false);
        }
        let Some(ready) = self.input.readiness() else { return Ok(true) };
        let waited = readiness::wait(&[ready], LOOK_EVERY_NS);
        waited.map(|_| true).map_err(|error| self.failed("read", error))
    }
}

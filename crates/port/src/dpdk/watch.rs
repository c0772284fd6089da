//! What happens to a device while a port has it open.

use std::sync::Arc;

use burstline_dpdk::Device;
use burstline_sys::clock;

use crate::{PortAccount, PortError};

/// Between two looks, in ns. A look is a system call or a read over the bus.
const INTERVAL_NS: u64 = 50_000_000;

/// Bursts between two looks at the clock, where packets come: a device that brings some is there.
const BURSTS: u32 = 64;

/// Remembers how the device was.
pub(super) struct DeviceWatch {
    device: Arc<Device>,
    is_up: bool,
    is_gone: bool,
    due_ns: u64,
    /// Bursts since the last look at the clock.
    bursts: u32,
}

impl DeviceWatch {
    pub(super) fn new(device: &Arc<Device>) -> Self {
        // One that is down from the start is worth a note, too.
        Self { device: Arc::clone(device), is_up: true, is_gone: false, due_ns: 0, bursts: 0 }
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(super) fn gone(&self) -> PortError {
        PortError::InterfaceGone { interface: format!("dpdk:{}", self.device.devargs()) }
    }

    /// Looks, if it is time to at `now_ns` of the monotonic clock, and notes what has changed.
    /// Returns whether it has looked.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64, account: &mut PortAccount) -> bool {
        let is_due = now_ns >= self.due_ns && !self.is_gone;
        if is_due {
            self.due_ns = now_ns + INTERVAL_NS;
            self.compare(account);
        }
        is_due
    }

    /// As `look`, after a burst; not even at the clock each time. Returns whether it was at the
    /// clock now.
    #[inline]
    pub(super) fn look_at_times(&mut self, account: &mut PortAccount) -> bool {
        self.bursts += 1;
        let is_time = self.bursts >= BURSTS;
        if is_time {
            self.bursts = 0;
            self.look(clock::monotonic_ns(), account);
        }
        is_time
    }

    #[cold]
    fn compare(&mut self, account: &mut PortAccount) {
        self.is_gone = self.device.is_gone();
        let is_up = !self.is_gone && self.device.is_up();
        if self.is_gone {
            account.news(|| format!("dpdk:{} is gone", self.device.devargs()));
        }
        if is_up != self.is_up && !self.is_gone {
            let state = if is_up { "up" } else { "down" };
            account.event(|| format!("dpdk:{} is {state}", self.device.devargs()));
        }
        self.is_up = is_up;
    }
}

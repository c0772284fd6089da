//! Watches the state of a device while a port has it open.

use std::sync::Arc;

use burstline_dpdk::Device;
use burstline_sys::clock;

use crate::{PortAccount, PortError};

/// Time between two checks, in ns. A check is a system call or a read over the bus.
const INTERVAL_NS: u64 = 50_000_000;

/// Bursts between two readings of the clock while packets arrive: that shows the device is there.
const BURSTS: u32 = 64;

/// The last known state of a device.
pub(super) struct DeviceWatch {
    device: Arc<Device>,
    is_up: bool,
    is_gone: bool,
    due_ns: u64,
    /// Bursts since the last reading of the clock.
    bursts: u32,
}

impl DeviceWatch {
    pub(super) fn new(device: &Arc<Device>) -> Self {
        // A device that is down from the start is worth a note, too.
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

    /// Checks the device, if a check is due at `now_ns` of the monotonic clock, and notes changes.
    /// Returns whether it did.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64, account: &mut PortAccount) -> bool {
        let is_due = now_ns >= self.due_ns && !self.is_gone;
        if is_due {
            self.due_ns = now_ns + INTERVAL_NS;
            self.compare(account);
        }
        is_due
    }

    /// As `look`, after a burst, but does not read the clock each time. Returns whether it has read
    /// the clock.
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

//! Watches the state of an interface while a live port is open.
//!
//! The kernel reports an error on the socket when the interface goes down, but not when it is
//! renamed or gets another MTU. So we check it periodically.

use std::io;

use burstline_sys::interface::{Interface, LinkState};

use crate::{PortAccount, PortError};

/// Time between two checks, in ns. A check takes a few microseconds.
const INTERVAL_NS: u64 = 50_000_000;

/// Bytes that an MTU does not include: an Ethernet header and up to eight VLAN tags.
pub(crate) const LINK_HEADER_MAX: u32 = 14 + 8 * 4;

/// The last known state of an interface.
pub(crate) struct Watch {
    last: Interface,
    due_ns: u64,
    is_gone: bool,
}

impl Watch {
    pub(crate) fn new(interface: &Interface) -> Self {
        // An interface that is down or without a carrier from the start is worth a note, too.
        let last = Interface { is_up: true, has_carrier: true, ..interface.clone() };
        Self { last, due_ns: 0, is_gone: false }
    }

    /// Returns the interface's last known name.
    pub(crate) fn name(&self) -> &str {
        &self.last.name
    }

    /// Returns the interface's last known state.
    #[inline]
    pub(crate) fn interface(&self) -> &Interface {
        &self.last
    }

    /// Returns the interface's last known MTU, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.last.mtu
    }

    /// Whether it was deleted.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the error of a port whose interface was deleted.
    pub(crate) fn gone(&self) -> PortError {
        PortError::InterfaceGone { interface: self.name().to_owned() }
    }

    /// Returns the error of an action on the interface.
    pub(crate) fn failed(&self, action: &'static str, error: io::Error) -> PortError {
        PortError::Io { action, path: self.name().into(), error }
    }

    /// Makes the next check happen without delay.
    pub(crate) fn look_at_once(&mut self) {
        self.due_ns = 0;
    }

    /// Checks the interface, if a check is due at `now_ns` of the monotonic clock, and notes
    /// changes. Returns whether it did.
    #[inline]
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        state: impl FnOnce() -> io::Result<LinkState>,
        account: &mut PortAccount,
    ) -> Result<bool, PortError> {
        if now_ns < self.due_ns || self.is_gone {
            return Ok(false);
        }
        self.due_ns = now_ns + INTERVAL_NS;
        let now = state().map_err(|error| self.failed("watch", error))?;
        self.compare(now, account);
        Ok(true)
    }

    #[cold]
    fn compare(&mut self, state: LinkState, account: &mut PortAccount) {
        let LinkState::Present(now) = state else {
            self.is_gone = true;
            account.news(|| format!("{} is gone", self.last.name));
            return;
        };
        let last = &self.last;
        if now.name != last.name {
            account.event(|| format!("{} was renamed to {}", last.name, now.name));
        }
        if now.mtu != last.mtu {
            account.event(|| format!("{}: MTU {} became {}", now.name, last.mtu, now.mtu));
        }
        if now.is_up != last.is_up {
            let state = if now.is_up { "up again" } else { "down" };
            account.event(|| format!("{} is {state}", now.name));
        } else if now.is_up && now.has_carrier != last.has_carrier {
            let state = if now.has_carrier { "a carrier again" } else { "no carrier" };
            account.event(|| format!("{} has {state}", now.name));
        }
        // An interface that has just come up gets its carrier a moment later.
        let has_carrier = match now.is_up && last.is_up {
            true => now.has_carrier,
            false => last.has_carrier,
        };
        self.last = Interface { has_carrier, ..now };
    }
}

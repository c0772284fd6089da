//! What happens to an interface while a live port is open.
//!
//! The kernel leaves an error at the socket when the interface goes down, but nothing when it is
//! renamed or gets another MTU. So we look at it every now and then.

use std::io;

use burstline_sys::interface::{Interface, LinkState};

use crate::PortAccount;

/// Between two looks, in ns. A look is a few microseconds.
const INTERVAL_NS: u64 = 50_000_000;

/// What an MTU does not count: an Ethernet header and up to eight VLAN tags.
pub(crate) const LINK_HEADER_MAX: u32 = 14 + 8 * 4;

/// Remembers how the interface was.
pub(crate) struct Watch {
    last: Interface,
    due_ns: u64,
    is_gone: bool,
}

impl Watch {
    pub(crate) fn new(interface: &Interface) -> Self {
        // One that is down from the start, or without a carrier, is worth a note, too.
        let last = Interface { is_up: true, has_carrier: true, ..interface.clone() };
        Self { last, due_ns: 0, is_gone: false }
    }

    /// The interface's name when last seen.
    pub(crate) fn name(&self) -> &str {
        &self.last.name
    }

    /// The interface when last seen.
    #[inline]
    pub(crate) fn interface(&self) -> &Interface {
        &self.last
    }

    /// The interface's MTU when last seen, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.last.mtu
    }

    /// Whether it was deleted.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The next look is not put off.
    pub(crate) fn look_at_once(&mut self) {
        self.due_ns = 0;
    }

    /// Looks, if it is time to at `now_ns` of the monotonic clock, and notes what has changed.
    /// Returns whether it did look.
    #[inline]
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        state: impl FnOnce() -> io::Result<LinkState>,
        account: &mut PortAccount,
    ) -> io::Result<bool> {
        if now_ns < self.due_ns || self.is_gone {
            return Ok(false);
        }
        self.due_ns = now_ns + INTERVAL_NS;
        self.compare(state()?, account);
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
        // An interface that has just come up has its carrier a moment later.
        let has_carrier = match now.is_up && last.is_up {
            true => now.has_carrier,
            false => last.has_carrier,
        };
        self.last = Interface { has_carrier, ..now };
    }
}

//! The sink: a ring of slots that the kernel sends from.
//!
//! `afpacket:IFACE[?bypass=on|off&slots=N&wait_ms=N&fd=N]`
//!
//! Packets go to the driver at once, past the queueing discipline, and nobody who captures on this
//! interface sees them leave. What the driver has no room for is tried again until `wait_ms` are
//! over. What the kernel finds wrong is `tx_rejected`.
//!
//! `bypass=off` sends them through the queueing discipline. Then "sent" means that it took them:
//! what it drops later, for instance for want of a carrier, is in its counters alone, and a note
//! says so.

use std::io;

use burstline_sys::afpacket::{LinkState, TxRing, TxRingOptions};

use super::settings::inherited;
use crate::live::{LiveSink, Outlet, OutletCounts, WAIT_KEY};
use crate::watch::Watch;
use crate::{Address, AddressError, Loss, OpenOptions, Port, PortError};

const KEYS: &[&str] = &["bypass", "slots", "fd", WAIT_KEY];

/// Opens an interface to send by.
pub(crate) fn open_sink(
    address: &Address,
    _options: &OpenOptions,
) -> Result<Box<dyn Port>, PortError> {
    let wanted = parse(address)?;
    let ring = TxRing::open(address.target(), &wanted)?;
    let watch = Watch::new(ring.interface());
    let note = (!wanted.bypasses_queue).then(|| {
        let name = address.target();
        format!("sent is what the queue took; what it dropped: tc -s qdisc show dev {name}")
    });
    Ok(Box::new(LiveSink::new(address, ring, watch)?.with_note(note)))
}

fn parse(address: &Address) -> Result<TxRingOptions, AddressError> {
    address.check_keys(KEYS)?;
    let default = TxRingOptions::default();
    let slots: usize = address.parsed("slots", default.slots)?;
    if !slots.is_power_of_two() || !(64..=65_536).contains(&slots) {
        let reason = "a power of two from 64 to 65536";
        return Err(address.bad_value("slots", &slots.to_string(), reason));
    }
    let bypasses_queue = address.choice("bypass", &[("on", true), ("off", false)], true)?;
    Ok(TxRingOptions { slots, bypasses_queue, inherited: inherited(address)? })
}

impl Outlet for TxRing {
    const LOST_TO: Loss = Loss::TxRejected;

    fn longest(&self) -> usize {
        TxRing::longest(self)
    }

    #[inline]
    fn push(&mut self, packet: &[u8]) -> bool {
        TxRing::push(self, packet)
    }

    fn send(&mut self) -> Result<(), PortError> {
        TxRing::send(self).map(drop).map_err(|error| PortError::Io {
            action: "send by",
            path: self.interface().name.clone().into(),
            error,
        })
    }

    fn counts(&self) -> OutletCounts {
        let counts = TxRing::counts(self);
        let (pushed, sent, lost) = (counts.pushed, counts.sent, counts.rejected);
        OutletCounts { pushed, sent, lost, waiting: self.waiting() }
    }

    fn link_state(&self) -> io::Result<LinkState> {
        TxRing::link_state(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_effect_and_bad_values_are_named() {
        let parsed = |query: &str| parse(&format!("afpacket:v0?{query}").parse().unwrap());
        let options = parsed("bypass=off&slots=256&fd=5&wait_ms=7").unwrap();
        let expected = TxRingOptions { slots: 256, bypasses_queue: false, inherited: Some(5) };
        assert_eq!(options, expected);
        assert_eq!(parsed("").unwrap(), TxRingOptions::default());
        for (query, reason) in [
            ("slots=100", "a power of two"),
            ("slots=32", "a power of two"),
            ("bypass=yes", "one of on, off"),
            ("fanout=hash", "knows no 'fanout'; it knows bypass, slots, fd, wait_ms"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

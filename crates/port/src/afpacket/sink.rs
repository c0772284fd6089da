//! The sink: a ring of slots from which the kernel sends.
//!
//! Packets go directly to the driver, bypassing the queueing discipline, so captures on this
//! interface do not see them leave. If the driver has no room, sending is retried for up to
//! `wait_ms`. Packets that the kernel finds invalid are `tx_rejected`.
//!
//! With `bypass=off` packets pass through the queueing discipline. Then "sent" means that the
//! discipline took them. Packets that it drops later, for instance without a carrier, are only in
//! its own counters, and a note says so.

use std::io;

use burstline_afpacket::{TxRing, TxRingOptions};
use burstline_sys::interface::LinkState;

use super::settings::FD;
use crate::live::{LiveSink, Outlet, OutletCounts, WAIT};
use crate::watch::Watch;
use crate::{Address, AddressError, Key, Loss, OpenOptions, OpenedSink, PortError, Values};

/// The keys of a sink's address.
pub(crate) const KEYS: &[Key] = &[
    Key::switch("bypass", "Whether to bypass the queueing discipline").or("yes"),
    Key::number("slots", 64..=65_536, "How many packets the ring holds").powers_of_two().or("1024"),
    FD,
    WAIT,
];

/// Opens an interface for sending.
pub(crate) fn open_sink(address: &Address, _options: &OpenOptions) -> OpenedSink {
    let values = address.values(KEYS)?;
    let wanted = parse(&values)?;
    let ring = TxRing::open(address.target(), &wanted)?;
    let watch = Watch::new(ring.interface());
    let note = (!wanted.bypasses_queue).then(|| {
        let name = address.target();
        format!(
            "sent counts packets that the queue accepted; for its drops: tc -s qdisc show dev \
                 {name}"
        )
    });
    Ok(Box::new(LiveSink::new(&values, ring, watch)?.with_note(note)))
}

pub(super) fn parse(values: &Values<'_>) -> Result<TxRingOptions, AddressError> {
    Ok(TxRingOptions {
        slots: values.integer("slots")?,
        bypasses_queue: values.switch("bypass")?,
        inherited: values.typed_integer(FD.name)?,
    })
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
        let parsed = |query: &str| {
            let address: Address = format!("afpacket:v0?{query}").parse().unwrap();
            parse(&address.values(KEYS)?)
        };
        let options = parsed("bypass=off&slots=256&fd=5&wait_ms=7").unwrap();
        let expected = TxRingOptions { slots: 256, bypasses_queue: false, inherited: Some(5) };
        assert_eq!(options, expected);
        assert_eq!(parsed("").unwrap(), TxRingOptions::default());
        for (query, reason) in [
            ("slots=100", "a power of two"),
            ("slots=32", "a power of two"),
            ("bypass=1", "one of yes, no, on, off"),
            ("fanout=hash", "has no key 'fanout'; its keys are bypass, slots, fd, wait_ms"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

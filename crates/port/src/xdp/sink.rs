//! The sink: a tx ring with its own frames, and no XDP program.
//!
//! It sends on queue 0 by default, and takes nothing from the host: without a program no packet is
//! redirected here. In zero-copy mode the device gives the queue to the socket, in both directions.
//! So on an interface that the host uses, `copy=auto` copies, and `copy=zero` needs `--steal`.
//!
//! Packets that the driver drops during a send are `tx_refused`, as the kernel reports: there is no
//! carrier, or the veth peer has no room. In zero-copy mode such packets are only in the device's
//! counters.

use std::io;

use burstline_sys::interface::LinkState;
use burstline_xdp::{Copying, Sender, XdpInterface};

use super::guard;
use super::settings::{SINK_KEYS, SinkSettings, parse_sink};
use crate::live::{LiveSink, Outlet, OutletCounts};
use crate::watch::Watch;
use crate::{Address, Loss, OpenOptions, OpenedSink, PortError};

/// Opens a queue of an interface for sending.
pub(crate) fn open_sink(address: &Address, options: &OpenOptions) -> OpenedSink {
    let values = address.values(SINK_KEYS)?;
    let SinkSettings { interface, queue, sender: mut wanted } = parse_sink(&values)?;
    if wanted.copying != Copying::Copy && !options.may_steal {
        let link = XdpInterface::by_name(interface)?.link;
        match guard::refuse_the_hosts_own(&link, address) {
            Err(_) if wanted.copying == Copying::Auto => wanted.copying = Copying::Copy,
            outcome => outcome?,
        }
    }
    let sender = Sender::open(interface, queue, &wanted)?;
    let watch = Watch::new(&sender.interface().link);
    let zero =
        "zero-copy: the device reads Burstline's frames; only its own counters show what it drops";
    let note = sender.is_zero_copy().then(|| zero.to_owned());
    Ok(Box::new(LiveSink::new(&values, sender, watch)?.with_note(note)))
}

impl Outlet for Sender {
    const LOST_TO: Loss = Loss::TxRefused;

    fn longest(&self) -> usize {
        Sender::longest(self)
    }

    #[inline]
    fn push(&mut self, packet: &[u8]) -> bool {
        Sender::push(self, packet)
    }

    fn send(&mut self) -> Result<(), PortError> {
        let sent = Sender::send(self).map(drop).map_err(|error| PortError::Io {
            action: "send by",
            path: self.interface().link.name.clone().into(),
            error,
        });
        self.reclaim()?;
        sent
    }

    fn counts(&self) -> OutletCounts {
        let counts = Sender::counts(self);
        let (pushed, lost) = (counts.pushed, counts.refused);
        // A refusal is known before its frame returns.
        let sent = counts.completed.saturating_sub(lost);
        OutletCounts { pushed, sent, lost, waiting: self.waiting() }
    }

    fn link_state(&self) -> io::Result<LinkState> {
        Sender::link_state(self)
    }
}

#[cfg(test)]
mod tests {
    use burstline_xdp::SenderOptions;

    use super::*;
    use crate::AddressError;

    #[test]
    fn every_key_has_its_effect_and_bad_values_are_named() {
        let text = "xdp:v0@3?copy=zero&frames=128&frame=4096&wakeup=off&wait_ms=0";
        let expected = SenderOptions {
            frame_bytes: 4096,
            frames: 128,
            copying: Copying::Zero,
            needs_wakeup: false,
            ..SenderOptions::default()
        };
        let parsed = |text: &str| -> Result<_, AddressError> {
            let address: Address = text.parse().unwrap();
            let values = address.values(SINK_KEYS)?;
            let settings = parse_sink(&values)?;
            Ok((settings.interface.to_owned(), settings.queue, settings.sender))
        };
        assert_eq!(parsed(text).unwrap(), ("v0".to_owned(), 3, expected));
        let plain = ("v0".to_owned(), 0, SenderOptions::default());
        assert_eq!(parsed("xdp:v0").unwrap(), plain);
        for (text, reason) in [
            ("xdp:v0?mode=native", "has no key 'mode'; its keys are copy, frames, frame, wakeup"),
            ("xdp:v0?frames=100", "a power of two"),
            ("xdp:v0?frame=1024", "a power of two, 2k-4k"),
            ("xdp:v0@x", "expected a number from 0"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

//! `nicsim:` ports: a simulated card for receiving, fed by any source.
//!
//! ```text
//!  count nicsim:a?source=gen:      gen: --wire--> device ==DMA==> driver --lend--> burst
//! ```
//!
//! How cards send, and how packets go from one to another, is shown by the lab: `lab run dma`.
//!
//! The device has its own thread. `offered` is what its MAC has counted, on that thread; its losses
//! have names. A port is a receive queue, and all queues of a card share its device.
//!
//! Invariants:
//! - Y1: `offered` = delivered + losses + in flight, with in flight from the device's own counts.
//! - Y2: without a rate, and with a source that can wait, nothing is lost.

mod settings;
mod source;
mod wire;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use burstline_nicsim::{Assembly, BusAccount, CardError, Room, Sending, Trace, Wire, pcie};
use burstline_wire::headers::LinkType;

use crate::{Address, OpenOptions, OpenedSources, PortError, Source};
pub(crate) use settings::KEYS;
use settings::Plug;
use source::{CardEnd, NicsimSource};
use wire::Cable;

/// Opens a port for each receive queue.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    let plug = Plug::parse(address)?;
    let name = address.to_string();
    let port = options.table.add_for(&name, &name, LinkType::ETHERNET)?;
    let failed = |error| plug.failed(address, error);
    let room = Room::create(&plug.settings, true, false).map_err(failed)?;
    let (cable, far) = Cable::open(&plug, options)?;
    let can_wait = cable.can_wait();
    let mut far = Some(far);
    let trace = plug.trace(options)?;
    let wire = Box::new(cable) as Box<_>;
    let assembly = Assembly::new(room, wire, Sending::Nothing, port, trace.as_ref());
    let (card, receivers, _) = assembly.start().map_err(failed)?;
    let card = Arc::new(card);
    let count = receivers.len();
    let ports = receivers.into_iter().enumerate().map(|(queue, receiver)| {
        let name = if count == 1 { name.clone() } else { format!("{name}@{queue}") };
        let end = CardEnd { receiver, card: Arc::clone(&card), far: far.take(), can_wait };
        let source = NicsimSource::new(name, &plug, end, options)?;
        Ok(Box::new(source) as Box<dyn Source>)
    });
    ports.collect()
}

impl Plug {
    fn failed(&self, address: &Address, error: CardError) -> PortError {
        match error {
            CardError::Setting { what, value, allowed } => {
                address.bad_value(what, &value.to_string(), allowed).into()
            }
            error => PortError::Card { port: address.to_string(), error },
        }
    }

    /// Creates the file for the steps. An existing one is emptied, unless the job has it open.
    fn trace(&self, options: &OpenOptions) -> Result<Option<Trace>, PortError> {
        let Some(path) = &self.trace else { return Ok(None) };
        if path == "-" {
            return Ok(Some(Trace::new(Box::new(std::io::stderr()))));
        }
        let file = options.files.create(Path::new(path))?;
        // Each step is written immediately: a trace has few steps.
        let to: Box<dyn Write + Send> = Box::new(BufWriter::with_capacity(0, file));
        Ok(Some(Trace::new(to)))
    }
}

/// Summarises the bus in two lines.
fn bus_notes(account: &BusAccount, bus: &pcie::Bus, mode: burstline_nicsim::Mode) -> Vec<String> {
    let packets = account.received.max(account.sent);
    if packets == 0 {
        return Vec::new();
    }
    let a_packet = |bytes: u64| bytes as f64 / packets as f64;
    let up = a_packet(account.bytes(pcie::Direction::Up));
    let down = a_packet(account.bytes(pcie::Direction::Down));
    let ceiling = bus.bytes_per_s() / up.max(down) / 1e6;
    let link = bus.link;
    let mut notes = vec![format!(
        "bus {link}, {mode}: {up:.1} bytes per packet up, {down:.1} down; full at {ceiling:.2} Mpps"
    )];
    if account.received > 0 {
        let paper = account.paper_bytes as f64 / account.received as f64;
        notes.push(format!(
            "bus, as the paper counts: {paper:.1} bytes per packet received, up only"
        ));
    }
    notes
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = Plug::parse(address);
}

#[cfg(test)]
mod tests;

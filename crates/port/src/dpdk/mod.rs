//! `dpdk:DEVARGS`: a device that DPDK drives, by the name and arguments that DPDK gives it.
//!
//! ```text
//!   device ─► rx ring ─► mbufs held ─► lent where they lie, or copied into a log
//!     │ ipackets, imissed, ierrors, rx_nombuf        │
//!     └ offered                                      └ given back at the next call
//!
//!   a log's packets ─► fresh mbufs ─► tx ring ─► device: opackets, less what lies in the ring,
//!                                                        = delivered
//!   dpdk:A to dpdk:B:  rx ring of A ─► look, rewrite ─► tx ring of B, the mbuf as it is
//! ```
//!
//! A queue is a port. Offered is the device's own count, never ours: what it received, and what it
//! names as lost, `imissed`, `ierrors` and, of drivers that lose by it, `rx_nombuf`, which are of
//! the whole device and stand in the row of its first queue. Virtual devices count a packet when it
//! is taken from them, so for those the count is the driver's, and what waits at their other end is
//! nobody's yet; what the kernel had no room for there, which drivers do not tell, is
//! `rx_ring_full`.
//!
//! A packet's time is that of the poll that found it, or with `timestamps=device` the device's, of
//! those whose unit is known. With `rss=on` a device hashes by Microsoft's key, with
//! `rss=symmetric` by that of `--hash rss:symmetric`; where it tells the hash of a packet of TCP or
//! UDP and the job wants that very hash, it is the packet's. What a device does for us is noted.
//!
//! Invariants:
//! - D1: an mbuf is held from the burst that brought it to the call after it was delivered; all
//!   are back in their pools when the last port has gone.
//! - D2: after `finish` a source delivers what was received, of a card; of a virtual device, which
//!   does not know, up to a ring of packets, until there are none for once.
//! - D3: after `finish` nothing of a sink is in flight: what the other end has not taken out of a
//!   ring that we can look into is `tx_ring_full`, what it never confirmed `unconfirmed`.

mod crossing;
mod intake;
mod outlet;
mod settings;
mod sink;
mod source;
mod watch;

use std::sync::Arc;

use burstline_dpdk::Device;

use crate::{Address, OpenOptions, Port, PortError};
pub(crate) use crossing::open_crossings;
use settings::Settings;
use sink::DpdkSink;
use source::DpdkSource;

/// Opens a port for each queue that the address asks for.
pub(crate) fn open_sources(
    address: &Address,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Port>>, PortError> {
    let (settings, device) = open(address)?;
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for queue in 0..settings.device.queues {
        ports.push(Box::new(DpdkSource::new(address, &settings, &device, queue, options)?));
    }
    Ok(ports)
}

/// Opens a device to send by.
pub(crate) fn open_sink(address: &Address, _: &OpenOptions) -> Result<Box<dyn Port>, PortError> {
    let (settings, device) = open(address)?;
    Ok(Box::new(DpdkSink::new(address, &settings, &device)?))
}

fn open(address: &Address) -> Result<(Settings, Arc<Device>), PortError> {
    let settings = settings::parse(address)?;
    let device = Device::open(&settings.device, &settings.eal)?;
    Ok((settings, device))
}

/// Both ends of a bounce, which receive into one pool if they are alike.
fn open_both(ends: [&Address; 2]) -> Result<[(Settings, Arc<Device>); 2], PortError> {
    let [first, second] = [settings::parse(ends[0])?, settings::parse(ends[1])?];
    let options = [&first, &second].map(|end| (&end.device, &end.eal));
    let [device, beside] = Device::open_both(options[0], options[1])?;
    Ok([(first, device), (second, beside)])
}

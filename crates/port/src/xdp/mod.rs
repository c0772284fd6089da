//! `xdp:` ports: packets taken from a driver's receive queues before the host sees them.
//!
//! ```text
//!            XDP program, on the core of the queue                    AF_XDP socket of the queue
//!  device -> seen += 1 -> wanted? -> slot of the queue has a socket? -> rx ring --+-- lend
//!                          '- no -----'- no --> passed += 1 -> the host           '-- receive
//! ```
//!
//! Packets taken here do not reach the host: its programs, its firewall and its `tcpdump` do not
//! see them. So the loopback, and the interface of the default route or of a user's login, are
//! refused without `--steal`. `--only EXPR` takes matching packets and leaves the others to the
//! host.
//!
//! Without `@QUEUE` an address opens a port for each receive queue, all behind one program. A queue
//! is its own port, `xdp:eth0@3`, with its own socket, frames and counts.
//!
//! For sending, see `sink`.
//!
//! When the port opens, it warns of effects on the host (`warnings`): addresses that no longer
//! receive packets, and missing checksums in forwarded packets.
//!
//! VLAN tags that the device strips (`rx-vlan-offload`) are lost before XDP: `doctor ports` says
//! how to switch that off. A checksum that is not computed yet looks like a wrong one here.
//!
//! Invariants:
//! - Q1: offered = packets that the program has seen on this queue while attached; passed = packets
//!   that it left to the host. The program counts both, each core in its own cache line. If all
//!   queues are taken, the first one's port also has the packets of queues that the interface gets
//!   later: no socket takes them, so they are lost as `queue_added`.
//! - Q2: taken by the program = delivered + in the rx ring + the kernel's `rx_dropped` and
//!   `rx_ring_full`. No value is computed from the sum that it should balance.
//! - Q3: the program is attached by a bpf_link that this process holds, and an empty slot passes
//!   packets to the host. So nothing remains after SIGKILL.
//! - Q4: a lent burst's frames return to the kernel when the port is called again. So a port that
//!   returns `Idle` holds nothing.

mod crossing;
mod guard;
mod intake;
mod probe;
mod settings;
mod sink;
mod source;
mod warnings;

use std::sync::Arc;

use burstline_xdp::{QueueSlot, Redirect, Socket, XdpError, XdpInterface};

use crate::afpacket::link_type;
use crate::filter::{self, FilterByLink};
use crate::judge::Judge;
use crate::{Address, OpenOptions, OpenedSources, Source, TimestampSource};
pub(crate) use crossing::open_crossings;
use intake::{Added, QueueLedger};
pub(crate) use probe::probe;
use settings::Settings;
pub(crate) use settings::{BOUNCE_KEYS, KEYS, SINK_KEYS};
pub(crate) use sink::open_sink;
use source::XdpSource;

/// Opens the receive queues of an interface: the named one, or all.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    // A timestamp per packet can cost as much as its reception. Decision 0018.
    let clock = match options.may_share_times {
        true => TimestampSource::Poll,
        false => TimestampSource::Program,
    };
    open_with(&settings::parse(address, clock)?, address, options)
}

fn open_with(settings: &Settings, address: &Address, options: &OpenOptions) -> OpenedSources {
    let interface = XdpInterface::by_name(&settings.interface)?;
    if !options.may_steal {
        guard::refuse_the_hosts_own(&interface.link, address)?;
    }
    let queues = match settings.queue {
        Some(queue) => queue..=queue,
        // There is at least one queue.
        None => 0..=interface.queues - 1,
    };
    // Errors in the address are found before a queue is taken.
    let name = address.to_string();
    let link = link_type(&interface.link)?;
    let only = options.only.compile(&name, link)?;
    let mut wanted = FilterByLink::new(&options.filter);
    wanted.add(&name, link)?;
    let open = |queue| Socket::open(&interface.link.name, queue, &settings.socket);
    let sockets = queues.map(open).collect::<Result<Vec<_>, _>>();
    if let Err(XdpError::NoMemory { .. }) = sockets {
        // Check rights first: without them a higher limit does not help.
        Redirect::rehearse(&interface, settings.redirect(None))?;
    }
    let sockets = sockets?;
    let slots: Vec<_> = sockets.iter().map(QueueSlot::from).collect();
    let taken = only.as_ref().map(|program| filter::for_kernel(program.instructions()));
    let redirect = settings.redirect(taken.as_deref());
    let attached = Arc::new(Redirect::new(&interface, &slots, redirect)?);
    drop(slots);
    let is_alone = sockets.len() == 1 && settings.queue.is_none();
    let warnings = warnings::of(&interface, settings.queue, only.is_none(), options.forwards);
    let mut added = Added::of(settings.queue.is_none());
    let mut ports: Vec<Box<dyn Source>> = Vec::new();
    for socket in sockets {
        let intake = QueueLedger::new(Arc::clone(&attached), socket.queue(), added.next());
        let judge = Judge::with_programs(options, wanted.clone());
        let source = XdpSource::new(socket, intake, is_alone, settings, judge, options)?;
        ports.push(Box::new(source.with_warnings(warnings.clone())));
    }
    Ok(ports)
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = settings::parse(address, TimestampSource::Program);
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink(address: &Address) {
    let _ = address
        .values(SINK_KEYS)
        .map(|values| (settings::parse_sink(&values), crate::live::wait_ns(&values)));
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_end(address: &Address) {
    let _ = settings::parse_end(address);
}

#[cfg(test)]
mod tests;

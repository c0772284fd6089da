//! `tap:` ports: an interface of the host whose peer is this program.
//!
//! ```text
//!   host, container or guest                          this program
//!   its stack --> interface NAME --> queue --> source: one system call per packet; lend
//!             <-- interface NAME <------------ sink: one system call per packet
//! ```
//!
//! The first port that names a device creates it, brings it up and sets its MTU. The device is
//! removed with the last port, even after SIGKILL, unless `persist` keeps it. A source and a sink
//! of the same name in a process share the device (`device`). So `bounce tap:a tap:b --both` and
//! the switch use both directions of it.
//!
//! With `offloads=on` the host passes packets as its stack has them: up to 64 KiB, without
//! checksums. That saves a system call and a copy for each packet on the wire. The outgoing port
//! must pass the offloads on: another `tap:` with offloads, or a file.
//!
//! A device that is moved to another network namespace keeps working, but its counters cannot be
//! read. Packets that it drops for lack of room are then unknown, and a note says so.
//!
//! Invariants:
//! - T1: offered = packets that the kernel counts as taken from the device or dropped before, since
//!   this port was opened. While the counters cannot be read, it is the number of packets taken.
//! - T2: a deleted device ends the port with an error; a device that goes down is noted.
//! - T3: in a process a device has at most one source and one sink.

mod device;
mod probe;
mod settings;
mod sink;
mod source;

#[cfg(test)]
use crate::Address;
pub(crate) use probe::probe;
pub(crate) use settings::{KEYS, SINK_KEYS};
pub(crate) use sink::{open_sink, unfinished};
pub(crate) use source::open_sources;

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = address.values(KEYS).map(|values| settings::parse(&values));
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink(address: &Address) {
    let _ = address
        .values(SINK_KEYS)
        .map(|values| (settings::parse(&values), crate::live::wait_ns(&values)));
}

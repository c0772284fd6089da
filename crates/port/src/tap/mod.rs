//! `tap:` ports: an interface of the host whose other end is this program.
//!
//! ```text
//!   host, container or guest                          this program
//!   its stack --> interface NAME --> queue --> source: a system call a packet, into a buffer; lend
//!             <-- interface NAME <------------ sink: a system call a packet
//! ```
//!
//! The first port that names a device makes it, sets it up and sets its MTU. It ends with the last
//! port, also by SIGKILL, unless `persist` keeps it. A source and a sink of one name in one process
//! share the device (`device`). So `bounce tap:a tap:b --both` and the switch have both directions
//! of it.
//!
//! With `offloads=on` the host leaves packets as its stack has them: up to 64 KiB, without
//! checksums. That saves a system call and a copy for each packet of the wire. The port at the
//! other end must pass them on: another `tap:` with offloads, or a file.
//!
//! A device that is moved to another network namespace goes on. Its counters are out of sight then:
//! what it drops for lack of room is not known any more, and a note says so.
//!
//! Invariants:
//! - T1: offered = what the kernel counts as taken from the device or dropped before, since this
//!   port was opened. While the counters cannot be read, it is what was taken.
//! - T2: a device that is deleted ends the port with an error; one that is down is noted.
//! - T3: in a process a device has at most one source and one sink.

mod device;
mod probe;
mod settings;
mod sink;
mod source;

use crate::{Address, OpenOptions, PortError, Source};
pub(crate) use probe::probe;
pub(crate) use settings::{KEYS, SINK_KEYS};
pub(crate) use sink::{open_sink, unfinished};

/// Opens a device to receive from.
pub(crate) fn open_source(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Source>, PortError> {
    Ok(Box::new(source::TapSource::open(address, options)?))
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = address.values(KEYS).map(|values| settings::parse(&values));
}

/// Reads an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read_sink(address: &Address) {
    let _ = address
        .values(SINK_KEYS)
        .map(|values| (settings::parse(&values), crate::live::wait_ns(&values)));
}

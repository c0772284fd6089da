//! The Python package `burstline`: packets as numpy views of the memory that holds them.
//!
//! ```text
//! Python                         here                                below
//!   open("tap") ────────────►  Reader ─► Inlet ─ a published name ─► share: Follower, held bursts
//!                                          └── anything else ────► port: Source ─► a private log
//!   for burst in reader ────►  Burst ──► Lent ─── pins a segment, or owns a checked copy
//!   burst.verdicts ─────────►  Verdicts ► the log's column, when the burst is released
//!   burst.worklist ─────────►  View ───► Arc<Lent>    numpy holds the View, the View the burst
//!   publish("name") ────────►  Publisher ─► port: the sink log:NAME
//! ```
//!
//! Python creates one object per burst, and none per packet unless it uses `burst.packets`.
//!
//! Ownership:
//! - a [`lent::Lent`] is a run of packets that stay in place. The burst and each view of it own a
//!   share; dropping the last one returns the segment to the publisher.
//! - a [`burst::Burst`] drops its share when it is released: by the next step of the loop, by
//!   `with`, or by `release()`. Any later use raises `ReleasedError`.
//! - a [`view::View`] keeps its share for as long as numpy or a memoryview refers to it. So a view
//!   cannot dangle. A view kept too long shows up as `held`, and finally as `BufferError`.
//!
//! Invariants:
//! - P1: pointers reach Python only by the buffer protocol, from a `View` that Python then owns.
//! - P2: nothing that waits holds the GIL, and each wait ends within 50 ms to check for Python
//!   signals.
//! - P3: what one process opened can be used only in that process: see [`fork`].
//! - P4: offered = delivered + every named loss + in flight, as in every report of the program.

mod burst;
mod columns;
mod fault;
mod fork;
mod inlets;
mod lent;
mod links;
mod packet;
mod publisher;
mod reader;
mod report;
mod verdicts;
mod view;

use inlets::{address, inlet, lane, named};

use pyo3::prelude::*;

/// The module `burstline._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<burst::Burst>()?;
    module.add_class::<packet::Packet>()?;
    module.add_class::<packet::Packets>()?;
    module.add_class::<packet::PacketIterator>()?;
    module.add_class::<publisher::Publisher>()?;
    module.add_class::<view::View>()?;
    Ok(())
}

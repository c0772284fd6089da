//! The Python package `burstline`: packets as numpy views of the memory that they lie in.
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
//! Python makes one object for a burst, and none for a packet unless it asks for `burst.packets`.
//!
//! Who owns what when:
//! - a [`lent::Lent`] is a run of packets that stay where they are. The burst and each view of it
//!   own a share; the last one to go lets the publisher have the segment back.
//! - a [`burst::Burst`] gives its share back when it is released: by the next step of the loop, by
//!   `with`, or by `release()`. Any use after that is a `ReleasedError`.
//! - a [`view::View`] keeps its share for as long as numpy, or a memoryview, knows it. So a view
//!   cannot dangle, and one that is kept too long shows as `held`, in the end as `BufferError`.
//!
//! Invariants:
//! - P1: no pointer goes to Python but by the buffer protocol, from a `View` that it then owns.
//! - P2: nothing that waits holds the interpreter's lock, and each wait ends within 50 ms to see
//!   whether Python has a signal to handle.
//! - P3: what was opened in one process is used in that one: see [`fork`].
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

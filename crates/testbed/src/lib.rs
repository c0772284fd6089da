//! A network to test on: two hosts with a cable between them, real programs and counted frames.
//!
//! ```text
//!   Host near                                 Host far
//!   thread in its own namespace          thread in another one
//!   v0 10.77.0.1/24  <------- veth -------->  v1 10.77.0.2/24
//!   ping, curl, a sender of frames            the port under test, a server
//! ```
//!
//! A [`Host`] is a thread in a network namespace without a name. Jobs and programs run on it; their
//! sockets stay in its namespace wherever they are used later. IPv6 is off, so hosts send only on
//! request.
//!
//! Invariants:
//! - T1: nothing is sent on an interface that was not made here.
//! - T2: nothing is left, even after SIGKILL. A namespace ends with its last thread, program and
//!   socket; interfaces end with their namespace; programs are killed when their host's thread
//!   ends.
//! - T3: if the bed cannot be made, the caller gets the reason, with the remedy.
#![forbid(unsafe_code)]

mod bed;
mod descriptor;
mod error;
mod frames;
mod host;
mod injector;
mod program;
mod server;
mod signal;
mod terminal;

pub use bed::{Bed, FAR, FAR_ADDRESS, FAR_MAC, NEAR, NEAR_ADDRESS, NEAR_MAC};
pub use descriptor::descriptor_of;
pub use error::BedError;
pub use frames::{ETHERTYPE, Frames, SEQUENCE_BYTES, Tag, sequence_of};
pub use host::{Host, InterfaceCounts};
pub use injector::{
    Amount, Flows, INJECTED_BYTES_MAX, INJECTED_BYTES_MIN, Injected, Injector, InjectorError,
    InjectorOptions, Target,
};
pub use program::{Killed, Program};
pub use server::serve_bytes;
pub use signal::signal;
pub use terminal::Terminal;

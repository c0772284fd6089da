//! Frames that come in by an interface as if off the wire, millions a second.
//!
//! ```text
//!  this thread             the kernel, on this thread's core
//!  push: bytes --> table
//!  run  -------------->   frame ---> generator ------------> the program that is attached
//!  (one call for          (a page    fills it from the        to the interface, or the
//!   thousands)             each)     table, or numbers it,    network stack
//!                                    counts
//!                                      |
//!                     word 0: frames handed on    word 1: frames that nobody got
//!                     read by this thread without a call
//! ```
//!
//! Everything up to the receiver's ring or socket happens on the calling thread's core, so run a
//! receiver that you measure on another one.
//!
//! The generator is parked: attached to the loopback of a separate namespace, where no packet ever
//! comes. That keeps it in the kernel's dispatcher; otherwise each call would wait 25 ms for that.
//!
//! Who owns what: a generator holds the program that it found attached, even if that is taken off
//! meanwhile. For a later program make a new generator. [`attached`] says which it is.
//!
//! # Invariants
//! - J1. The number of frames handed on comes from the generator's program: it counts each frame
//!   given to the receiving program or the stack.
//! - J2. Numbers are consecutive over all calls, beginning with the first; frames of a table leave
//!   in the order they were pushed in, each once.
//!
//! The device's own counters do not move: the frames begin behind them. It takes rights of the
//! machine to make a generator, and none to run one.
//!
//! Source: net/bpf/test_run.c of Linux 6.18.

mod burst;
mod error;
mod generator;
mod table;
#[cfg(all(test, not(miri)))]
mod tests;

pub use burst::BurstInjector;
pub use error::InjectError;
pub use generator::{Flows, Generator, Numbers};
pub use table::FRAMES_AT_ONCE;

use crate::bpf::attached_program;
use burstline_sys::namespace;

/// Bytes of the longest frame without FCS: a page of 4096, less what the kernel needs (688 in Linux
/// 6.18) and some room for other kernels.
pub const INJECTED_BYTES_MAX: usize = 3000;

/// Frames that the kernel handles at a time, as a driver would in one poll.
const BATCH: u32 = 64;

/// Who is given the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The XDP program that is attached to the interface.
    Program,
    /// The network stack, as if the interface had no XDP program: packet sockets see them.
    Stack,
}

/// The number of an interface of the calling thread's network namespace.
///
/// # Errors
/// [`InjectError::NoSuchInterface`], [`InjectError::Parking`].
pub fn interface_index(name: &str) -> Result<u32, InjectError> {
    let index = namespace::interface_index(name).map_err(InjectError::Parking)?;
    index.ok_or_else(|| InjectError::NoSuchInterface(name.to_owned()))
}

/// The number of the XDP program that is attached to an interface, if one is.
///
/// # Errors
/// [`InjectError::Bpf`] with what the kernel says.
pub fn attached(interface_index: u32) -> Result<Option<u32>, InjectError> {
    Ok(attached_program(interface_index)?.map(|attached| attached.program_id))
}

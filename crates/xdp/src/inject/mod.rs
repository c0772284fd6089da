//! Injects frames as if an interface had received them, millions a second.
//!
//! ```text
//!  this thread             the kernel, on this thread's core
//!  push: bytes --> table
//!   run  -------------->   frame ---> generator ------------> the program that is attached
//!   (one call for          (a page    fills it from the        to the interface, or the
//!    thousands)             each)     table, or numbers it,    network stack
//!                                     counts
//!                                       |
//!                      word 0: frames handed on    word 1: frames not handed on
//!                     read by this thread without a call
//! ```
//!
//! Everything up to the receiver's ring or socket happens on the calling thread's core, so run a
//! receiver under measurement on another core.
//!
//! The generator is parked: attached to the loopback of a separate namespace that receives nothing.
//! That keeps it in the kernel's dispatcher; otherwise each call would wait 25 ms for that.
//!
//! Ownership: a generator keeps the program that it found attached, even if that is detached later.
//! For a later program make a new generator. [`attached`] returns the current one.
//!
//! # Invariants
//! - J1. The number of frames handed on comes from the generator's program: it counts each frame
//!   given to the receiving program or the stack.
//! - J2. Numbers are consecutive over all calls, beginning with the first. Frames of a table leave
//!   once each, in push order.
//!
//! The device's own counters do not change: the frames enter after them. Making a generator needs
//! rights of the machine, running one needs none.
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
/// 6.18) and a margin for other kernels.
pub const INJECTED_BYTES_MAX: usize = 3000;

/// Frames that the kernel handles at a time, like a driver in one poll.
const BATCH: u32 = 64;

/// The receiver of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The XDP program that is attached to the interface.
    Program,
    /// The network stack, as if the interface had no XDP program: packet sockets see them.
    Stack,
}

/// Returns the index of an interface of the calling thread's network namespace.
///
/// # Errors
/// [`InjectError::NoSuchInterface`], [`InjectError::Parking`].
pub fn interface_index(name: &str) -> Result<u32, InjectError> {
    let index = namespace::interface_index(name).map_err(InjectError::Parking)?;
    index.ok_or_else(|| InjectError::NoSuchInterface(name.to_owned()))
}

/// Returns the id of the XDP program attached to an interface, if any.
///
/// # Errors
/// [`InjectError::Bpf`] with the kernel's error.
pub fn attached(interface_index: u32) -> Result<Option<u32>, InjectError> {
    Ok(attached_program(interface_index)?.map(|attached| attached.program_id))
}

//! Errors of injection, in one line each.

use std::io;

use super::INJECTED_BYTES_MAX;
use crate::bpf::BpfError;

/// Why frames could not be injected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InjectError {
    /// There is no such interface in this namespace.
    #[error("no interface '{0}' on this host; see: ip link")]
    NoSuchInterface(String),
    /// The interface has no XDP program.
    #[error("interface '{0}' has no XDP program: start its receiver first, or inject to the stack")]
    NoProgram(String),
    /// The attached program cannot be called from ours.
    #[error("XDP program {program_id} accepts no tail call from our programs")]
    Incompatible {
        /// Its number.
        program_id: u32,
    },
    /// The frame is too short or too long, or the number does not fit.
    #[error(
        "a frame of {bytes} bytes, its number at {number_at:?}: frames have {least} to \
         {INJECTED_BYTES_MAX} bytes, and a number takes 8 of them"
    )]
    Frame {
        /// Bytes of the frame.
        bytes: usize,
        /// The minimum.
        least: usize,
        /// The offset of its number.
        number_at: Option<usize>,
    },
    /// The program is gone.
    #[error("{frames} frames found no program to go to: make a new injector")]
    NotTaken {
        /// The number of frames.
        frames: u64,
    },
    /// The process may not do this.
    #[error(
        "inject: needs root of the machine: run it as root, or: \
         sudo setcap cap_bpf,cap_net_admin,cap_sys_admin+ep {program}"
    )]
    NotPermitted {
        /// The path of this program.
        program: String,
    },
    /// The generator could not be parked.
    #[error("parking the generator: {0}")]
    Parking(io::Error),
    /// The kernel's refusal.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

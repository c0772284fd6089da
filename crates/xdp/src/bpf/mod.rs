//! bpf(2) without libbpf and without a compiler: programs are assembled in this module.
//!
//! ```text
//!   Assembler --finish--> [Instruction] --load--> Program --attach--> Link --- interface
//!       |                                            |
//!       '-- load_map, load_map_value --> Map         '-- test_run, run_live
//!                                         |
//!               MappedArray: its values are also mapped in this process, and read without a call
//! ```
//!
//! A [`Program`] runs in the kernel for each packet and returns what happens to it. It keeps its
//! data in a [`Map`]. For counters, the map is a [`MappedArray`]: one value of 64 bytes for each
//! core and queue. Each core adds to its own cache line. This process reads them by loads, even
//! after it dropped its capabilities.
//!
//! Ownership: each of them is a descriptor. A program keeps the maps it refers to, a [`Link`] keeps
//! its program, an interface keeps nothing. When the link is dropped, or its process is killed, the
//! program is detached.
//!
//! # Invariants
//! - B1. Each address in a request points to a buffer that lives across the call. The buffer has
//!   the size in the request, or the size that the map was created with.
//! - B2. Nothing outlives the process: no pins in a file system, no attachment without a link.
//! - B3. Mapped values are accessed only as atomics: programs write them at any time.
//!
//! Source: bpf(2); include/uapi/linux/bpf.h and kernel/bpf/syscall.c of Linux 6.18.

mod assembler;
mod call;
mod error;
mod instruction;
mod late;
mod link;
mod map;
mod mapped;
mod mode;
mod netlink;
mod program;
mod run;
mod translate;

pub use assembler::{Assembler, Label};
pub use error::BpfError;
pub use instruction::{Alu, Compare, Helper, Instruction, Operand, Register, Size};
pub use late::load_for_job;
pub use link::{Link, attached_program};
pub use map::{Map, MapKind, MapOptions, possible_cpus};
pub(crate) use mapped::MAPPABLE;
pub use mapped::MappedArray;
pub use mode::{Attached, XdpMode};
pub use program::{Program, ProgramInfo, ProgramKind, ProgramOptions};
pub use run::{LiveRun, TestRun};
pub use translate::{Embedding, TRANSLATED_STACK_BYTES, translate};

/// Results of an XDP program. Source: enum xdp_action, include/uapi/linux/bpf.h.
pub mod xdp_action {
    /// A program error: drops the packet and triggers a tracepoint.
    pub const ABORTED: i32 = 0;
    /// Drops the packet.
    pub const DROP: i32 = 1;
    /// Passes the packet to the network stack.
    pub const PASS: i32 = 2;
    /// Transmits the packet on the interface that received it.
    pub const TRANSMIT: i32 = 3;
    /// Sends the packet to the target of `bpf_redirect_map`.
    pub const REDIRECT: i32 = 4;
}

/// Offsets in an XDP program's context. Source: struct xdp_md, include/uapi/linux/bpf.h.
pub mod xdp_context {
    /// Address of the first byte of the packet.
    pub const DATA: i16 = 0;
    /// Address behind the last byte of the packet's first buffer.
    pub const DATA_END: i16 = 4;
    /// Address of the metadata in front of the packet, made by `bpf_xdp_adjust_meta`.
    pub const DATA_META: i16 = 8;
    /// Number of the interface.
    pub const INTERFACE_INDEX: i16 = 12;
    /// Number of the receive queue.
    pub const QUEUE_INDEX: i16 = 16;
}

#[cfg(all(test, not(miri)))]
mod tests;

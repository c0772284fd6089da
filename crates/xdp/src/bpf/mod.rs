//! bpf(2) without libbpf and without a compiler: programs are assembled here, word by word.
//!
//! ```text
//!   Assembler --finish--> [Instruction] --load--> Program --attach--> Link --- interface
//!       |                                            |
//!       '-- load_map, load_map_value --> Map         '-- test_run, run_live
//!                                         |
//!               MappedArray: its values lie in this process, too, to be read without a call
//! ```
//!
//! A [`Program`] runs in the kernel for each packet and answers what becomes of it. It keeps its
//! numbers in a [`Map`]. If those are counters, the map is a [`MappedArray`]: one value of 64 bytes
//! for each core and queue. Each core adds to its own cache line. This process reads them by loads,
//! also after it dropped its capabilities.
//!
//! Who owns what: each of them is a descriptor. A program keeps the maps it names, a [`Link`] keeps
//! its program, an interface keeps nothing. When the link is dropped, or its process is killed, the
//! program is off the interface.
//!
//! # Invariants
//! - B1. What the kernel reads or writes through an address in a request lies in a buffer that
//!   lives across the call. The buffer has the size in the request, or the size that the map was
//!   made with.
//! - B2. Nothing outlives the process: no pins in a file system, no attachment without a link.
//! - B3. Mapped values are never referred to but as atomics: programs write them at any time.
//!
//! Source: bpf(2); include/uapi/linux/bpf.h and kernel/bpf/syscall.c of Linux 6.18.

mod assembler;
mod call;
mod error;
mod instruction;
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
pub use link::{Link, attached_program};
pub use map::{Map, MapKind, MapOptions, possible_cpus};
pub use mapped::MappedArray;
pub use mode::{Attached, XdpMode};
pub use program::{Program, ProgramInfo, ProgramKind, ProgramOptions};
pub use run::{LiveRun, TestRun};
pub use translate::{Embedding, TRANSLATED_STACK_BYTES, translate};

/// What an XDP program answers. Source: enum xdp_action, include/uapi/linux/bpf.h.
pub mod xdp_action {
    /// An error of the program: the packet is dropped, and a tracepoint told.
    pub const ABORTED: i32 = 0;
    /// Drop it.
    pub const DROP: i32 = 1;
    /// On to the network stack.
    pub const PASS: i32 = 2;
    /// Out of the interface that it came in by.
    pub const TRANSMIT: i32 = 3;
    /// To where `bpf_redirect_map` said.
    pub const REDIRECT: i32 = 4;
}

/// Where an XDP program's context has what. Source: struct xdp_md, include/uapi/linux/bpf.h.
pub mod xdp_context {
    /// Address of the first byte of the packet.
    pub const DATA: i16 = 0;
    /// Address behind the last byte of the packet's first buffer.
    pub const DATA_END: i16 = 4;
    /// Address of the bytes put in front by `bpf_xdp_adjust_meta`.
    pub const DATA_META: i16 = 8;
    /// Number of the interface.
    pub const INTERFACE_INDEX: i16 = 12;
    /// Number of the receive queue.
    pub const QUEUE_INDEX: i16 = 16;
}

#[cfg(all(test, not(miri)))]
mod tests;

//! A libpcap whose devices `burst:NAME` are published logs.
//!
//! ```text
//! tcpdump -i burst:tap          libburstline-pcap.so                     the log `tap`
//!   pcap_create ----------->  exports: is it ours? -- no --> the real libpcap
//!   pcap_loop   ----------->  yes: Capture, Session <--------- a burst, held
//!     callback(header, bytes) <-- filter, snaplen -------------'
//! ```
//!
//! It is preloaded, or installed in its own folder as `libpcap.so.0.8` and `libpcap.so.1`, since it
//! has every function of libpcap. The real library handles other devices, files, the filter
//! compiler and the tables of names. Two functions are not in libpcap: with them a program in line
//! decides about a packet (module `verdicts`).
//!
//! A call handles a burst, not a packet, wherever libpcap's interface allows it. The program's loop
//! runs over packets that are stored back to back, in this process's memory, and already checked.
//!
//! Ownership: see `slots`, `capture`, `session` and `verdicts`.
//!
//! Invariants:
//! - B1. Nothing unwinds into C: exported functions run inside `border`.
//! - B2. A pointer that is not in our table belongs to the real library, and is not dereferenced.

mod abi;
mod capture;
mod counts;
mod dead;
mod device;
mod drops;
mod dump;
mod exports;
mod fork;
mod ready;
mod real;
mod session;
mod slots;
mod verdicts;

pub use abi::{BpfProgram, Handler, Instruction, Interface, PacketHeader, Pcap, Stat, Timeval};
pub use exports::*;

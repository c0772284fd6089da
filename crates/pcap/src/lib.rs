//! A libpcap whose devices `burst:NAME` are published logs.
//!
//! ```text
//! tcpdump -i burst:tap          libburstline-pcap.so                     the log `tap`
//!   pcap_create ----------->  exports: is it ours? -- no --> the real libpcap
//!   pcap_loop   ----------->  yes: Capture, Session <--------- a burst, held
//!     callback(header, bytes) <-- filter, snaplen -------------'
//! ```
//!
//! It is preloaded, or stands in its own folder as `libpcap.so.0.8` and `libpcap.so.1`: it has
//! every function that libpcap has. A device of another name, a file, a filter's compiler and the
//! tables of names are the real library's. Two functions are not libpcap's: by them a program in
//! line decides about a packet (module `verdicts`).
//!
//! A call is for a burst, not a packet, wherever libpcap's interface allows it. The program's loop
//! runs over packets that lie back to back, in this process's memory, and that were checked.
//!
//! Who owns what when: see `slots`, `capture`, `session` and `verdicts`.
//!
//! Invariants:
//! - B1. Nothing unwinds into C: what a call of ours does is inside of `border`.
//! - B2. A pointer that is not in our table is the real library's, and not looked behind.

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

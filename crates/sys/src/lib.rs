//! The Linux boundary: all requests of Burstline to the kernel, behind safe and small interfaces.
//!
//! ```text
//!   log, afpacket, xdp, port, ...     packets and worklists
//!   ------------------------------------------------------------------
//!   memory     regions of huge pages on a node, sealed; mappings of other processes' regions
//!   affinity   the core that runs a thread         scheduling  its class and niceness
//!   futex      sleep until a word changes          clock       the current time
//!   usage      cost of a run: CPU, memory          limits      limits on locked memory
//!   direct     aligned buffers and writes past the page cache
//!   topology   nodes, cores and huge pages of the machine
//!   stack      the node of a thread's stack
//!   interface  interfaces and their addresses      namespace   a new network for a thread
//!   option     socket options                      filter      classic BPF for sockets
//!   raw_socket what packet and XDP sockets share
//!   pcap       filter expressions, compiled by libpcap if it is installed
//!   netlink    requests, and attributes            links       bridges, bonds, VLANs, veth peers
//!   device     features of an interface's driver   machine     what this process may do here
//!   readiness  sleep until a descriptor is ready   privileges  give up unneeded rights
//!   seqpacket  local sockets that keep messages apart, and the peer's credentials
//!   rights     descriptors that are sent with the bytes of a local socket
//!   tcp        connections that nobody waits for
//!   event      a flag to sleep on                  claim       a file with one owner at a time
//!   inode      a file found once, whatever its name refers to later
//!   temporary  folders for temporary files that no other user can touch
//!   late       files that a thread without rights opens   helper   the process that does it
//!   counters   the kernel's counters of an interface
//!   foreign    packets lost at sockets that a library has opened
//!   tap        interfaces whose other end is this process
//!   signals    threads that get no signals
//!   users      users and groups                    calendar    local time for file names
//!   distance   how long a cache line takes from one core to another
//!   barrier    a full fence in all threads, paid for by one
//!   ------------------------------------------------------------------
//!   Linux 5.14 or later, on rustix and, for calls that rustix lacks, on libc
//! ```
//!
//! # Invariants
//! - I1. An operating error is a value with its numbers and, if there is one, the command that
//!   fixes it. Nothing here panics on what the kernel or another process says.
//! - I2. `Drop` releases everything, and so does the kernel if the process is killed: we use memfds
//!   instead of files in hugetlbfs, and mappings instead of System V segments.
//! - I3. Memory that another process can see is handed out as raw pointers, never as references.
//!
//! # Assumption
//! - K1. The kernel shares aligned words of 4 or 8 bytes with a running process: a ring's positions
//!   and marks, a map's values, a futex. The kernel writes such a word in one store, and reads it
//!   in one load. So an atomic over it is sound here, and is never seen half written. The kernel
//!   guarantees that by `READ_ONCE`, `WRITE_ONCE`, `smp_load_acquire` and `smp_store_release`;
//!   neither Rust nor the documentation of the system calls does. Everything else that the kernel
//!   writes is read only after one of these words says that it is complete. Source:
//!   Documentation/memory-barriers.txt of Linux 6.18.

// Under Miri nothing calls the kernel half of this crate.
#![cfg_attr(miri, allow(dead_code))]

mod cores;
mod files;
pub mod memory;
mod network;
mod program;
mod sockets;
mod waiting;

pub use cores::{affinity, barrier, caches, distance, prefetch, scheduling, topology};
pub use files::{claim, direct, folder, inode, kept, late, lent, locked, mounts, temporary};
pub use network::{
    counters, device, filter, interface, links, namespace, netlink, pcap, rising, tap,
};
#[cfg(not(miri))]
pub use program::stack;
pub use program::{helper, limits, machine, privileges, process, signals, usage, users};
pub use sockets::{foreign, option, raw_socket, rights, seqpacket, tcp};
pub use waiting::{calendar, clock, event, futex, readiness};

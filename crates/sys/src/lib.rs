//! The Linux boundary: everything Burstline asks of the kernel, behind safe and small interfaces.
//!
//! ```text
//!   log, afpacket, xdp, port, ...     packets and worklists
//!   ------------------------------------------------------------------
//!   memory     regions of huge pages on a node, sealed; mappings of other processes' regions
//!   affinity   which core runs a thread            scheduling  its class and its niceness
//!   futex      sleep until a word changes          clock       what time it is
//!   usage      what it cost: CPU, memory           limits      what may be locked
//!   direct     aligned buffers and writes past the page cache
//!   topology   which nodes, cores and huge pages there are
//!   stack      which node a thread's stack is on
//!   interface  the interfaces and their addresses  namespace  a network of one's own
//!   option     options of sockets                  filter     classic BPF for them
//!   raw_socket what packet and XDP sockets do alike
//!   pcap       filter expressions, compiled by libpcap if it is there
//!   netlink    questions, and attributes           links      which interface lies on which
//!   device     what an interface's driver can do   machine    what this process may do here
//!   readiness  sleep until a descriptor has something    privileges  give up what is not needed
//!   seqpacket  local sockets that keep messages apart, and who is at the other end
//!   rights     descriptors that go with the bytes of a local socket
//!   event      a flag to sleep on      claim      a file that one process has at a time
//!   inode      a file that was found, whatever its name leads to later
//!   temporary  folders for temporary files that nobody else has a hand in
//!   foreign    what the kernel lost at sockets that a library has opened
//!   tap        interfaces whose other end is this process
//!   signals    threads that get none
//!   users      who we are, and what others are called    calendar   local time for names
//!   distance   how long a cache line takes from one core to another
//!   barrier    a full fence in all threads, paid for by one
//!   ------------------------------------------------------------------
//!   Linux 5.14 or later, on rustix and, where rustix has no call, on libc
//! ```
//!
//! # Invariants
//! - I1. An operating error is a value with its numbers and, where there is one, the command that
//!   mends it. Nothing here panics on what the kernel or another process says.
//! - I2. `Drop` gives everything back, and so does the kernel if the process is killed: we use
//!   memfds instead of files in hugetlbfs, and mappings instead of System V segments.
//! - I3. Memory that another process can see is handed out as raw pointers, never as references.
//!
//! # Assumption
//! - K1. The kernel shares aligned words of 4 or 8 bytes with a process while both run: a ring's
//!   positions and marks, a map's values, a futex. The kernel writes such a word in one store, and
//!   reads it in one load. So an atomic over it is sound here, and is never seen half written. The
//!   kernel promises that by `READ_ONCE`, `WRITE_ONCE`, `smp_load_acquire` and `smp_store_release`;
//!   nothing in Rust or in the system calls' documents does. Everything else that the kernel writes
//!   is read only after one of these words has said that it is done. Source:
//!   Documentation/memory-barriers.txt of Linux 6.18.

// Under Miri nothing calls the half of this crate that asks the kernel.
#![cfg_attr(miri, allow(dead_code))]

mod cores;
mod files;
pub mod memory;
mod network;
mod program;
mod sockets;
mod waiting;

pub use cores::{affinity, barrier, caches, distance, prefetch, scheduling, topology};
pub use files::{claim, direct, inode, locked, mounts, temporary};
pub use network::{device, filter, interface, links, namespace, netlink, pcap, rising, tap};
#[cfg(not(miri))]
pub use program::stack;
pub use program::{limits, machine, privileges, process, signals, usage, users};
pub use sockets::{foreign, option, raw_socket, rights, seqpacket};
pub use waiting::{calendar, clock, event, futex, readiness};

//! Memory for packets: regions, and mappings of regions that other processes made.
//!
//! A [`Region`] is one contiguous mapping of a memfd: one page size, one NUMA node if requested,
//! and every page is present before [`Region::create`] returns. It can be passed to other processes
//! as a file descriptor. They attach to it as a [`Mapping`].
//!
//! ```text
//!            writer's process                                reader's process
//!   Region::create                                   Mapping::attach_read_only
//!     memfd -> size -> map RW -> bind -> touch         check seals -> check size -> map R
//!           -> seal (shrink, grow, future write, seal)        ^
//!     file() ------------------------ a UNIX socket ----------+
//!
//!   Mapping::attach_writable   <---------------------  Region::create_shared
//!     hostile input: one atomic load, clamp            a small page both sides may write
//! ```
//!
//! Ownership: only the process that made a region can ever write it. After sealing, the kernel
//! refuses every new writable mapping, also through `/proc/PID/fd`. (A child by fork(2) without
//! exec has the mapping too: do not fork this way.) The owner writes through raw pointers. Both
//! sides may write a page made by [`Region::create_shared`] at any time. So a reader must load each
//! value once and check it.
//!
//! # Invariants
//! - I1. Addresses `[as_ptr(), as_ptr() + bytes())` stay mapped, and stay the same memory, until
//!   the value is dropped.
//! - I2. Every page of a region is populated: lack of memory is an error of `create`, never a
//!   `SIGBUS` later. The seals keep it so: no one can shrink the file or punch a hole. (Every
//!   holder of the file of a [`Region::create_shared`] page can punch one. The page then reads as
//!   zeros, and each access costs a page fault, a few microseconds, but never a signal.)
//! - I3. [`Placement`] reports what the kernel answered after the fact (`move_pages`, `smaps`), not
//!   what was requested.
//! - I4. No reference to a region's bytes is made in this crate.
//!
//! Huge pages come in two kinds. Reserved ones (`1g`, `2m`) are set aside by the administrator and
//! counted; a [`Reservation`] does so temporarily. Transparent ones (`thp`) are ordinary memory
//! that the kernel collapses into 2 MiB pages. `madvise(MADV_COLLAPSE)` requests that
//! synchronously, and works for memfds even if `shmem_enabled` is `never`. Pages are not locked:
//! without swap they stay. With swap, [`crate::limits`] and `mlock` are the caller's choice.
//!
//! Under Miri a region is heap memory, so the code built on it can be checked. It has no file, and
//! attaching to a file is an error.
//!
//! Source: memfd_create(2), fcntl(2) "File Sealing", mbind(2), move_pages(2), madvise(2).

#[cfg(miri)]
#[path = "memory/heap.rs"]
mod backing;
#[cfg(not(miri))]
#[path = "memory/linux.rs"]
mod backing;
mod error;
#[cfg(not(miri))]
mod large;
mod mapping;
mod page;
#[cfg(not(miri))]
pub(crate) mod placement;
pub(crate) mod populate;
mod region;
#[cfg(not(miri))]
mod reserved;
#[cfg(all(test, not(miri)))]
mod tests;
#[cfg(not(miri))]
mod view;

pub use error::MemoryError;
#[cfg(not(miri))]
pub use large::ask_for_large_pages;
pub use mapping::Mapping;
pub use page::{NodeId, PageChoice, PageChoiceError, PageKind};
pub use region::{Placement, Region, RegionRequest};
#[cfg(not(miri))]
pub use reserved::Reservation;

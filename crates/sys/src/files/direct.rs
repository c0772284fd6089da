//! Writing to disk past the page cache.
//!
//! A recorder writes more than a page cache can hold, once and in order. The cache would only copy
//! the data again and evict what others need. So data is gathered in an [`AlignedBuffer`] and
//! handed to the disk from there (`O_DIRECT`).
//!
//! ```text
//!   AlignedBuffer (4 KiB aligned, huge pages) --> OutputFile::write_all_at --> disk
//!                                                   Direct    regular file, bypasses the cache
//!                                                   Buffered  regular file, O_DIRECT not possible
//!                                                   Stream    FIFO, terminal, /dev/null: in order
//!   WriteQueue: several buffers, filled while others are written by io_uring
//! ```
//!
//! Ownership: the buffer is private to the process and lent for the length of a call. Only an
//! existing file that is regular is overwritten; nothing is ever unlinked or renamed here.
//!
//! # Invariants
//! - I1. [`OutputFile::write_all_at`] either wrote all, or reports how many bytes it wrote and why
//!   it stopped. A full disk is never silent.
//! - I2. [`WritePath`] says how the file is written; the caller does not guess.
//! - I3. A regular file has one writer ([`claim`](claim())): two would destroy each other's blocks.
//!
//! Source: open(2) "O_DIRECT", statx(2) for the alignment.

mod buffer;
mod claim;
mod file;
mod queue;
mod space;

pub use buffer::AlignedBuffer;
pub use claim::{Claimed, Creation, claim, is_own_descriptor, link_flags, of_link};
pub use file::{OutputFile, WriteError, WritePath};
pub use queue::{QueueMode, WriteQueue, keep_rings};
pub use space::free_bytes;

/// The alignment, in bytes, of memory, offset and length that every disk accepts: no device sold
/// has logical blocks above 4 KiB.
pub const ALIGNMENT: usize = 4096;

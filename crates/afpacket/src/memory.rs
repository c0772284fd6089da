//! The mapping shared by the kernel and this process.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use libc::{tpacket_block_desc, tpacket_hdr_v1};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Offset of the block's own header in a block.
const HEADER_AT: usize = offset_of!(tpacket_block_desc, hdr);

const STATUS_AT: usize = HEADER_AT + offset_of!(tpacket_hdr_v1, block_status);
const COUNT_AT: usize = HEADER_AT + offset_of!(tpacket_hdr_v1, num_pkts);

/// Offset of the field with the offset of the first packet's header.
pub(super) const FIRST_AT: usize = HEADER_AT + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);

const _: () = assert!(size_of::<tpacket_block_desc>() == 48 && HEADER_AT == 8);
const _: () = assert!(STATUS_AT.is_multiple_of(4) && COUNT_AT.is_multiple_of(4));

/// All blocks, mapped contiguously.
///
/// # Invariants
/// `start` is the first of `blocks * block_bytes` bytes, mapped readable and writable from creation
/// to drop, initially zeroed by the kernel. `block_bytes` is at least a page.
pub(super) struct RingMemory {
    start: NonNull<u8>,
    block_bytes: usize,
    blocks: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nothing else here has its
// address.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// Maps the ring of a socket whose ring has exactly this shape.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        block_bytes: usize,
        blocks: usize,
    ) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other mapping.
        let start =
            unsafe { mmap(ptr::null_mut(), blocks * block_bytes, access, flags, socket, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, block_bytes, blocks })
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the status word of block `index`: its owner.
    #[inline]
    pub(super) fn status(&self, index: usize) -> &AtomicU32 {
        self.word(index, STATUS_AT)
    }

    /// Returns the packet count of block `index`. The kernel increments it while the block is open.
    #[inline]
    pub(super) fn count(&self, index: usize) -> &AtomicU32 {
        self.word(index, COUNT_AT)
    }

    #[inline]
    fn word(&self, index: usize, at: usize) -> &AtomicU32 {
        // SAFETY: `at` is one of two aligned offsets inside the first page of a block, whose words
        // both sides access as atomics (K1 of `burstline_sys`). Nothing has a mutable reference to
        // them: `bytes_mut` borrows all of `self`.
        unsafe { AtomicU32::from_ptr(self.block(index).as_ptr().add(at).cast()) }
    }

    /// Returns the bytes of block `index`.
    ///
    /// # Safety
    /// The block's status was seen to be `USER`, with `Acquire`, and was not set back.
    #[inline]
    pub(super) unsafe fn bytes(&self, index: usize) -> &[u8] {
        // SAFETY: in bounds and initialised by the type's invariant; the kernel does not touch a
        // block of status `USER`, and in this process only `bytes_mut` writes, which excludes this
        // borrow.
        unsafe { std::slice::from_raw_parts(self.block(index).as_ptr(), self.block_bytes) }
    }

    /// Returns the mutable bytes of block `index`.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes).
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: in bounds and initialised by the type's invariant; the kernel does not touch a
        // block of status `USER`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.block(index).as_ptr(), self.block_bytes) }
    }

    #[inline]
    fn block(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.blocks, "block {index} of {}", self.blocks);
        // SAFETY: the block is inside the mapping.
        unsafe { self.start.add(index * self.block_bytes) }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every reference into it borrowed `self`. An error would
        // leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.blocks * self.block_bytes) };
    }
}

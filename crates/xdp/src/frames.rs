//! The memory for frames of one socket or several.
//!
//! ```text
//!   FrameMemory  | frame 0 | frame 1 | ... | frame n - 1 |  tail: not the kernel's  |
//!                   ^          ^
//!                   Umem       Sender    Passage   each knows its own frames
//! ```
//!
//! Only the users of a frame know who may access it. [`Umem`](super::Umem) has a bit for each
//! received frame that is held, [`Sender`](super::Sender) a list of the free ones.
//! [`Passage`](super::Passage) trusts its rings, and debug builds check. Sockets share the memory
//! by sharing its `Arc`: one registers it, and the others bind with `XDP_SHARED_UMEM` and the
//! descriptor of the first. A frame then moves from one user to the other by its number.

use std::ptr::NonNull;

use burstline_sys::memory::{MemoryError, NodeId, PageChoice, Placement, Region, RegionRequest};

use super::XdpError;
use super::interface;
use super::system::RawSocket;

pub(super) struct FrameShape {
    pub(super) frames: u32,
    /// A power of two.
    pub(super) frame_bytes: u32,
    /// Bytes behind the frames that are not registered with the kernel.
    pub(super) tail_bytes: usize,
    pub(super) pages: PageChoice,
    pub(super) node: Option<NodeId>,
}

/// Frames in one region.
///
/// # Invariants
/// - M1. Frames `[0, frames)` are at multiples of the frame size, and the tail is behind them. All
///   of it is zeroed at the start, and mapped until the last user is dropped.
/// - M2. The region is below 4 GiB, so that an offset is a `u32`.
pub(super) struct FrameMemory {
    region: Region,
    frame_shift: u32,
    frames: u32,
}

impl FrameMemory {
    pub(super) fn create(name: &str, shape: &FrameShape) -> Result<Self, MemoryError> {
        let request = RegionRequest {
            name: format!("burstline-umem-{name}"),
            bytes: shape.frames as usize * shape.frame_bytes as usize + shape.tail_bytes,
            pages: shape.pages,
            node: shape.node,
        };
        let region = Region::create(&request)?;
        let frame_shift = shape.frame_bytes.trailing_zeros();
        Ok(Self { region, frame_shift, frames: shape.frames })
    }

    /// Registers the frames with the kernel, for `socket`.
    ///
    /// # Safety
    /// `self` outlives the socket. Its users access no frame that they have handed to the kernel
    /// until it comes back.
    pub(super) unsafe fn register(
        &self,
        socket: &RawSocket,
        interface: &str,
    ) -> Result<(), XdpError> {
        let (bytes, start) = (self.frame_area(), self.region.as_ptr().as_ptr());
        // SAFETY: M1, and the caller's guarantees.
        let registered = unsafe { socket.register_umem(start, bytes, self.frame_bytes()) };
        registered.map_err(|source| match source.raw_os_error() {
            Some(libc::ENOBUFS | libc::ENOMEM) => {
                let (interface, limit) = (interface.to_owned(), interface::locked_limit());
                XdpError::NoMemory { interface, bytes, limit }
            }
            _ => XdpError::system(interface, "registering frames")(source),
        })
    }

    pub(super) fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    pub(super) fn placement(&self) -> &Placement {
        self.region.placement()
    }

    pub(super) fn frame_bytes(&self) -> u32 {
        1 << self.frame_shift
    }

    pub(super) fn frame_shift(&self) -> u32 {
        self.frame_shift
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of all frames, without the tail.
    #[inline]
    pub(super) fn frame_area(&self) -> usize {
        (self.frames as usize) << self.frame_shift
    }

    /// Returns the address of a frame, as the kernel's rings use it.
    #[inline]
    pub(super) fn address(&self, frame: u32) -> u64 {
        u64::from(frame) << self.frame_shift
    }

    /// Returns the frame that contains a packet at a kernel's address, if it contains all of it.
    #[inline]
    pub(super) fn frame_of(&self, address: u64, length: u32) -> Option<u32> {
        let frame = address >> self.frame_shift;
        let end = address.checked_add(length.into())?;
        let fits = frame < u64::from(self.frames) && end <= (frame + 1) << self.frame_shift;
        fits.then_some(frame as u32)
    }

    /// Writes a packet to the start of a frame.
    ///
    /// # Safety
    /// The frame belongs to the caller: neither the kernel nor another user accesses it, and no
    /// reference into it is alive.
    ///
    /// # Panics
    /// If there is no such frame, or the packet is longer than a frame.
    #[inline]
    pub(super) unsafe fn write(&self, frame: u32, bytes: &[u8]) {
        assert!(frame < self.frames && bytes.len() <= 1 << self.frame_shift, "frame {frame}");
        let to = self.at(frame << self.frame_shift);
        // SAFETY: inside the region, as just checked; `bytes` cannot overlap the frame, since there
        // is no reference into it.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Returns the byte at `offset`, which must be inside the region, or its end.
    #[inline]
    pub(super) fn at(&self, offset: u32) -> NonNull<u8> {
        assert!((offset as usize) <= self.region.bytes(), "offset {offset}");
        // SAFETY: checked above: `offset` is inside the region, or its end.
        unsafe { self.region.as_ptr().add(offset as usize) }
    }
}

//! Messages on the socket, and their possible faults.
//!
//! ```text
//!   | request 4 | flags 4 | size 4 | size bytes ... |   and descriptors beside
//! ```
//!
//! Source: vhost-user protocol, QEMU's docs/interop/vhost-user.rst.

use std::io;
use std::os::fd::OwnedFd;

use burstline_peer::PeerMemoryError;

use crate::memory::TABLE_MAX;

/// The size of a header.
pub const HEADER_BYTES: usize = 12;
/// The longest body: 8 regions take 264 bytes.
pub const BODY_BYTES_MAX: usize = 512;
/// The most descriptors of a message: one for each region of a table.
pub(crate) const FILES_MAX: usize = TABLE_MAX;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The request.
    pub request: u32,
    /// The version, and whether a reply is requested.
    pub flags: u32,
    /// The size of the body.
    pub bytes: u32,
}

/// A complete message.
#[derive(Debug)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// The body.
    pub body: Vec<u8>,
    /// The descriptors that came with it.
    pub files: Vec<OwnedFd>,
}

/// The reason why a connection ends: the front-end violates the protocol, or is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The front-end has closed the connection.
    #[error("it has closed the connection")]
    Closed,
    /// The message has another version, or is an unexpected reply.
    #[error("flags {0:#x} of a message: expected version 1 and no reply")]
    Flags(u32),
    /// The body is too long.
    #[error("a message of {0} bytes: at most {BODY_BYTES_MAX}")]
    TooLong(u32),
    /// The body is too short or too long for the request.
    #[error("request {request} has {bytes} bytes: expected {expected}")]
    Size {
        /// The request.
        request: u32,
        /// The size received.
        bytes: usize,
        /// The size expected.
        expected: usize,
    },
    /// The message has the wrong number of descriptors.
    #[error("request {request} has {descriptors} descriptors: expected {expected}")]
    Descriptors {
        /// The request.
        request: u32,
        /// The number received.
        descriptors: usize,
        /// The number expected.
        expected: usize,
    },
    /// Descriptors were lost in transit.
    #[error("descriptors of a message were lost: it had too many")]
    Cut,
    /// The message has more descriptors than any request takes.
    #[error("{0} descriptors came with a message: at most {FILES_MAX}")]
    Files(usize),
    /// The request is unknown, or was not offered.
    #[error("request {0} was not offered")]
    Unknown(u32),
    /// The front-end selected features that were not offered.
    #[error("features {0:#x} were not offered")]
    Features(u64),
    /// The features change while rings run.
    #[error("features change from {before:#x} to {now:#x} while rings run")]
    Changed {
        /// The agreed features.
        before: u64,
        /// The new features.
        now: u64,
    },
    /// The ring does not exist.
    #[error("ring {index} of {rings}")]
    Ring {
        /// The number of the ring.
        index: u32,
        /// The number of rings.
        rings: usize,
    },
    /// The size of the ring is invalid, or the ring runs.
    #[error("ring {index} of {size} descriptors: a power of two up to 32768, while it is stopped")]
    RingSize {
        /// The number of the ring.
        index: u32,
        /// The size.
        size: u32,
    },
    /// The index exceeds 16 bits.
    #[error("ring {index} begins at {base}: at most 65535")]
    Base {
        /// The number of the ring.
        index: u32,
        /// The requested first index.
        base: u32,
    },
    /// The ring is not in the memory of the guest, or not aligned.
    #[error("ring {index}: its {part} at {at:#x} is not in the guest's memory, or not aligned")]
    RingPlace {
        /// The number of the ring.
        index: usize,
        /// The part of the ring.
        part: &'static str,
        /// The address of the part.
        at: u64,
    },
    /// The ring is started without addresses or a size.
    #[error("ring {0} is started before its address and size are known")]
    NotReady(usize),
    /// The number of regions is 0 or too large.
    #[error("{0} regions of memory: 1 to 8 at a time, 32 in all")]
    Regions(usize),
    /// The region wraps or overlaps another.
    #[error("a region of {bytes} bytes at {at:#x} wraps, is empty or overlaps another")]
    Region {
        /// The address in the guest.
        at: u64,
        /// The size.
        bytes: u64,
    },
    /// The region to remove does not exist.
    #[error("no region at {0:#x} to remove")]
    NoRegion(u64),
    /// The front-end's memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] PeerMemoryError),
    /// A descriptor or the socket failed.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

impl Header {
    /// Parses a header that the front-end has sent.
    ///
    /// # Errors
    /// [`Fault::Flags`], [`Fault::TooLong`].
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Fault> {
        let [request, flags, bytes] = [0, 4, 8].map(|at| u32_at(bytes, at));
        if flags & VERSION_MASK != VERSION || flags & REPLY != 0 {
            return Err(Fault::Flags(flags));
        }
        if bytes as usize > BODY_BYTES_MAX {
            return Err(Fault::TooLong(bytes));
        }
        Ok(Self { request, flags, bytes })
    }

    pub(crate) fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }

    pub(crate) fn reply(&self, body: &[u8]) -> Vec<u8> {
        let words = [self.request, VERSION | REPLY, body.len() as u32];
        let mut reply: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        reply.extend(body);
        reply
    }

    /// Returns the body, if it has the expected size.
    pub(crate) fn exactly<'b>(&self, body: &'b [u8], expected: usize) -> Result<&'b [u8], Fault> {
        match body.len() == expected {
            true => Ok(body),
            false => Err(Fault::Size { request: self.request, bytes: body.len(), expected }),
        }
    }
}

/// Reads a number from a body that is long enough.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

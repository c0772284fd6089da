//! Messages as they are on the socket, and what can be wrong with them.
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

/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;
/// The longest body: 8 regions take 264 bytes.
pub const BODY_BYTES_MAX: usize = 512;
/// The most descriptors of a message: one for each region of a table.
pub(crate) const FILES_MAX: usize = TABLE_MAX;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// What a message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The request.
    pub request: u32,
    /// Version, and whether an answer is wanted.
    pub flags: u32,
    /// Bytes of the body.
    pub bytes: u32,
}

/// A whole message.
#[derive(Debug)]
pub struct Message {
    /// What it begins with.
    pub header: Header,
    /// What it says.
    pub body: Vec<u8>,
    /// Descriptors that came with it.
    pub files: Vec<OwnedFd>,
}

/// Why a connection ends: the front-end does not keep to the protocol, or has gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It has closed the connection.
    #[error("it has closed the connection")]
    Closed,
    /// Another version, or an unexpected answer.
    #[error("flags {0:#x} of a message: expected version 1 and no reply")]
    Flags(u32),
    /// The body is too long.
    #[error("a message of {0} bytes: at most {BODY_BYTES_MAX}")]
    TooLong(u32),
    /// The body is too short or too long for the request.
    #[error("request {request} has {bytes} bytes: expected {expected}")]
    Size {
        /// What was asked for.
        request: u32,
        /// Bytes that came.
        bytes: usize,
        /// Bytes of such a message.
        expected: usize,
    },
    /// Too many descriptors, or too few.
    #[error("request {request} has {descriptors} descriptors: expected {expected}")]
    Descriptors {
        /// What was asked for.
        request: u32,
        /// How many came.
        descriptors: usize,
        /// How many such a message has.
        expected: usize,
    },
    /// Descriptors were lost on the way.
    #[error("a message has more descriptors than a message can bring")]
    Cut,
    /// More descriptors than any message has.
    #[error("{0} descriptors came with a message: at most {FILES_MAX}")]
    Files(usize),
    /// We do not know it, or it was not offered.
    #[error("request {0} was not offered")]
    Unknown(u32),
    /// Features that were not offered.
    #[error("features {0:#x} were not offered")]
    Features(u64),
    /// Features that change under rings that run.
    #[error("features change from {before:#x} to {now:#x} while rings run")]
    Changed {
        /// As agreed.
        before: u64,
        /// As wanted now.
        now: u64,
    },
    /// There is no such ring.
    #[error("ring {index} of {rings}")]
    Ring {
        /// Its number.
        index: u32,
        /// How many there are.
        rings: usize,
    },
    /// No ring has this size, or it runs.
    #[error("ring {index} of {size} descriptors: a power of two up to 32768, while it is stopped")]
    RingSize {
        /// Its number.
        index: u32,
        /// Its size.
        size: u32,
    },
    /// An index beyond 16 bits.
    #[error("ring {index} begins at {base}: at most 65535")]
    Base {
        /// Its number.
        index: u32,
        /// Where it should begin.
        base: u32,
    },
    /// A ring that is not in the memory of the guest, or not aligned.
    #[error("ring {index}: its {part} at {at:#x} is not in the guest's memory, or not aligned")]
    RingPlace {
        /// Its number.
        index: usize,
        /// Which part of it.
        part: &'static str,
        /// Its address.
        at: u64,
    },
    /// A ring is started without addresses or a size.
    #[error("ring {0} is started before its address and size are known")]
    NotReady(usize),
    /// Too many regions, or none.
    #[error("{0} regions of memory: 1 to 8 at a time, 32 in all")]
    Regions(usize),
    /// A region that wraps or overlaps another.
    #[error("a region of {bytes} bytes at {at:#x} wraps, is empty or overlaps another")]
    Region {
        /// Its address in the guest.
        at: u64,
        /// Its size.
        bytes: u64,
    },
    /// A region to remove that there is not.
    #[error("no region at {0:#x} to remove")]
    NoRegion(u64),
    /// Its memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] PeerMemoryError),
    /// A descriptor or the socket is not as it should be.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl Header {
    /// Reads a header that the front-end has sent.
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

    /// Whether it wants to know how it went.
    pub(crate) fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }

    /// An answer to it.
    pub(crate) fn reply(&self, body: &[u8]) -> Vec<u8> {
        let words = [self.request, VERSION | REPLY, body.len() as u32];
        let mut reply: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        reply.extend(body);
        reply
    }

    /// A body of known size.
    pub(crate) fn exactly<'b>(&self, body: &'b [u8], expected: usize) -> Result<&'b [u8], Fault> {
        match body.len() == expected {
            true => Ok(body),
            false => Err(Fault::Size { request: self.request, bytes: body.len(), expected }),
        }
    }
}

/// A number of a body that is long enough.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// As [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

//! Writes segments: each to its slot in a file, or contiguous and compressed.

use std::io;

use burstline_sys::direct::{OutputFile, WriteQueue};

use super::super::layout::source;
use super::super::zstd::packed::Packer;

/// Bytes being written at a time, and the minimum number of writes for that.
const UNDER_WAY_BYTES: usize = 4 << 20;
const WRITES_LEAST: usize = 2;

/// Creates the queue for segments of this size.
pub(in super::super) fn queue(segment_bytes: usize) -> io::Result<WriteQueue> {
    WriteQueue::new((UNDER_WAY_BYTES / segment_bytes).max(WRITES_LEAST), segment_bytes)
}

/// Returns how many bytes of a recording may be written at a time, beside the open segment.
pub(in super::super) fn under_way_bytes(segment_bytes: usize) -> usize {
    UNDER_WAY_BYTES.max(WRITES_LEAST * segment_bytes)
}

/// A destination of segments, with one current segment that is filled.
#[expect(clippy::large_enum_variant, reason = "a file has one of them")]
pub(in super::super) enum Slots {
    /// Segments at fixed offsets, with several writes in progress.
    Placed { output: OutputFile, queue: WriteQueue },
    /// Compressed segments, each written once and whole.
    Packed(Packer),
}

impl Slots {
    /// Returns the current segment.
    #[inline]
    pub(in super::super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Placed { queue, .. } => queue.bytes(),
            Self::Packed(packer) => &packer.segment,
        }
    }

    #[inline]
    pub(in super::super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Placed { queue, .. } => queue.bytes_mut(),
            Self::Packed(packer) => &mut packer.segment,
        }
    }

    /// Whether a partial segment can be written, and rewritten later.
    pub(in super::super) fn can_rewrite(&self) -> bool {
        matches!(self, Self::Placed { .. })
    }

    /// Hands over the current segment for a write at `offset`.
    pub(in super::super) fn submit(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => queue.submit(output, offset).map_err(source),
            Self::Packed(packer) => packer.write_in_hand(),
        }
    }

    /// Writes the current segment, and keeps it.
    ///
    /// # Panics
    /// A segment cannot be written twice: see [`can_rewrite`](Self::can_rewrite).
    pub(in super::super) fn rewrite(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => {
                output.write_all_at(queue.bytes(), offset).map_err(source)
            }
            Self::Packed(_) => unreachable!("a compressed segment is written once"),
        }
    }

    /// Writes the first segment, which has the descriptions.
    pub(in super::super) fn write_header(&mut self, header: &[u8]) -> io::Result<()> {
        match self {
            Self::Placed { output, .. } => output.write_all_at(header, 0).map_err(source),
            Self::Packed(packer) => packer.write(header),
        }
    }

    /// Waits for writes in progress.
    pub(in super::super) fn wait_all(&mut self) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => queue.wait_all(output).map_err(source),
            Self::Packed(_) => Ok(()),
        }
    }

    /// Returns the number of submitted segments that are written.
    pub(in super::super) fn written(&self) -> u64 {
        match self {
            Self::Placed { queue, .. } => queue.written(),
            Self::Packed(packer) => packer.written(),
        }
    }

    /// Ends a file of segments.
    pub(in super::super) fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Placed { .. } => Ok(()),
            Self::Packed(packer) => packer.end(),
        }
    }

    /// Overwrites the start of the file with plain pcapng of these blocks. Returns its length.
    /// Segments already written have the same packets after it, until
    /// [`cut_plain`](Self::cut_plain).
    pub(in super::super) fn write_plain(&mut self, blocks: &[u8]) -> io::Result<u64> {
        match self {
            Self::Placed { output, .. } => {
                output.leave_direct().map_err(source)?;
                output.write_all_at(blocks, 0).map_err(source)?;
                Ok(blocks.len() as u64)
            }
            Self::Packed(packer) => {
                packer.output.write(blocks)?;
                packer.output.end()?;
                Ok(packer.output.bytes)
            }
        }
    }

    /// Truncates the file after its first `bytes`, the plain pcapng.
    pub(in super::super) fn cut_plain(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Placed { output, .. } => output.set_len(bytes).map_err(source),
            Self::Packed(_) => Ok(()),
        }
    }

    /// Writes the header again, and the first `over` bytes of the current segment at `offset`:
    /// plain pcapng was written over them. Best effort: the first error is reported.
    pub(in super::super) fn restore(&mut self, header: &[u8], offset: u64, over: usize) {
        if let Self::Placed { output, queue } = self {
            let _ = output
                .write_all_at(header, 0)
                .and_then(|()| output.write_all_at(&queue.bytes()[..over], offset));
        }
    }

    /// Returns the size of the file that holds the capture up to `offset`.
    pub(in super::super) fn file_bytes(&self, offset: u64) -> u64 {
        match self {
            Self::Placed { .. } => offset,
            Self::Packed(packer) => packer.output.bytes,
        }
    }

    /// Truncates the file to `bytes`, after an error.
    pub(in super::super) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => {
                queue.abandon();
                output.set_len(bytes).map_err(source)
            }
            Self::Packed(packer) => packer.output.cut(bytes),
        }
    }

    /// Writes the current segment, up to `end`, at offset `bytes` of a file that was truncated
    /// there.
    pub(in super::super) fn append(&mut self, bytes: u64, end: usize) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => {
                output.leave_direct().map_err(source)?;
                output.write_all_at(&queue.bytes()[..end], bytes).map_err(source)
            }
            Self::Packed(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Overwrites bytes of a segment in the file.
    pub(in super::super) fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Placed { output, .. } => {
                output.leave_direct().map_err(source)?;
                output.write_all_at(bytes, offset).map_err(source)
            }
            Self::Packed(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the file, and the queue for the next one. No write is in progress any more.
    pub(in super::super) fn into_parts(self) -> (Box<dyn Send>, Option<WriteQueue>) {
        match self {
            Self::Placed { output, mut queue } => {
                queue.abandon();
                (Box::new(output), Some(queue))
            }
            Self::Packed(packer) => (Box::new(packer.output), None),
        }
    }
}

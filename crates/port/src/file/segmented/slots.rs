//! Where segments go: each into its place in a file, or one behind the other, compressed.

use std::io;

use burstline_sys::direct::{OutputFile, WriteQueue};

use super::super::layout::source;
use super::super::zstd::packed::Packer;

/// Bytes under way at a time, and how many writes that are at least.
const UNDER_WAY_BYTES: usize = 4 << 20;
const WRITES_LEAST: usize = 2;

/// The queue for segments of this size.
pub(in super::super) fn queue(segment_bytes: usize) -> io::Result<WriteQueue> {
    WriteQueue::new((UNDER_WAY_BYTES / segment_bytes).max(WRITES_LEAST), segment_bytes)
}

/// Where segments go. One is in hand, and is filled.
#[expect(clippy::large_enum_variant, reason = "a file has one of them")]
pub(in super::super) enum Slots {
    /// Several writes are under way at a time.
    Placed { output: OutputFile, queue: WriteQueue },
    /// A segment is written once, whole.
    Packed(Packer),
}

impl Slots {
    /// The segment in hand.
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

    /// Whether a segment that is not full can be written, and again later.
    pub(in super::super) fn can_rewrite(&self) -> bool {
        matches!(self, Self::Placed { .. })
    }

    /// Hands the segment in hand over, which belongs at `offset`.
    pub(in super::super) fn submit(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => queue.submit(output, offset).map_err(source),
            Self::Packed(packer) => packer.write_in_hand(),
        }
    }

    /// Writes the segment in hand, and keeps it.
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

    /// Writes the segment of the descriptions, the first.
    pub(in super::super) fn write_header(&mut self, header: &[u8]) -> io::Result<()> {
        match self {
            Self::Placed { output, .. } => output.write_all_at(header, 0).map_err(source),
            Self::Packed(packer) => packer.write(header),
        }
    }

    /// Waits for what is under way.
    pub(in super::super) fn wait_all(&mut self) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => queue.wait_all(output).map_err(source),
            Self::Packed(_) => Ok(()),
        }
    }

    /// Segments that were handed over and are written.
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

    /// Makes the start of the file plain pcapng of these blocks. Returns its bytes. Where segments
    /// are there already, the same packets lie behind it, until [`cut_plain`](Self::cut_plain).
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

    /// Cuts the file behind the plain pcapng of these bytes. `is_synced`: that is on the disk
    /// first, so that a power cut leaves what was there, or the same packets in front of it.
    pub(in super::super) fn cut_plain(&mut self, bytes: u64, is_synced: bool) -> io::Result<()> {
        let Self::Placed { output, .. } = self else { return Ok(()) };
        if is_synced {
            output.sync().map_err(source)?;
        }
        output.set_len(bytes).map_err(source)
    }

    /// Bytes of the file that has what is in front of `offset` of the capture.
    pub(in super::super) fn file_bytes(&self, offset: u64) -> u64 {
        match self {
            Self::Placed { .. } => offset,
            Self::Packed(packer) => packer.output.bytes,
        }
    }

    /// Cuts the file to `bytes`, after an error. Best effort: the first error is the one to report.
    pub(in super::super) fn cut(&mut self, bytes: u64) {
        match self {
            Self::Placed { output, queue } => {
                queue.abandon();
                let _ = output.set_len(bytes);
            }
            Self::Packed(packer) => packer.output.cut(bytes),
        }
    }

    /// Writes blocks of the segment in hand, up to `end` of it, behind the first `bytes` of a file
    /// that was cut there.
    pub(in super::super) fn append(&mut self, bytes: u64, end: usize) -> io::Result<()> {
        match self {
            Self::Placed { output, queue } => {
                output.leave_direct().map_err(source)?;
                output.write_all_at(&queue.bytes()[..end], bytes).map_err(source)
            }
            Self::Packed(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Writes bytes of a segment that is in the file, again.
    pub(in super::super) fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Placed { output, .. } => {
                output.leave_direct().map_err(source)?;
                output.write_all_at(bytes, offset).map_err(source)
            }
            Self::Packed(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The file, and the queue for the next one. Nothing is under way any more.
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

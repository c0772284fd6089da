//! Attaches to a log of another process, through three files that the process received.
//!
//! The publisher keeps a [`RemoteSeat`](crate::RemoteSeat) for each such reader and passes its
//! files. Two are sealed against writing, so the reader cannot damage them. The third is the
//! reader's own page, which the writer treats as hostile. The reader in turn trusts the writer: it
//! borrows bytes that stay constant only if the writer keeps to the protocol. No check can replace
//! that, so attaching is an unsafe function (Decision 0001). To read without trust, use an
//! [`UntrustedReader`](crate::UntrustedReader), which copies.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use burstline_sys::memory::{Mapping, MemoryError};

use crate::buckets::Buckets;
use crate::control::{ControlView, MAX_READERS, MAX_WINDOW};
use crate::error::AttachError;
use crate::log::{Held, Memory, Start};
use crate::page::PAGE_BYTES;
use crate::protocol::Payer;
use crate::reader::Reader;
use crate::seat::SeatHandle;

/// The files and numbers that a publisher passes to a reader.
#[derive(Clone, Copy, Debug)]
pub struct LogFiles<'a> {
    /// Packet memory, sealed.
    pub packets: BorrowedFd<'a>,
    /// Control memory, sealed.
    pub control: BorrowedFd<'a>,
    /// The reader's own page.
    pub page: BorrowedFd<'a>,
    /// The number of the seat.
    pub seat: usize,
    /// The number of segments that the reader may hold.
    pub window: usize,
    /// The reader's start.
    pub start: Start,
    /// The part to read; all if `None`.
    pub part: Option<Buckets>,
    /// The column for the reader's verdicts, if it gives any.
    pub verdicts: Option<BorrowedFd<'a>>,
}

/// The files and numbers that a reader received.
#[derive(Debug)]
pub struct ReceivedFiles {
    /// Packet memory.
    pub packets: OwnedFd,
    /// Control memory.
    pub control: OwnedFd,
    /// The reader's own page.
    pub page: OwnedFd,
    /// The number of the seat, in `[0, MAX_READERS)`.
    pub seat: usize,
    /// The number of segments the reader may hold, in `[1, MAX_WINDOW]`.
    pub window: usize,
    /// The reader's start.
    pub start: Start,
    /// The part to read; all if `None`.
    pub part: Option<Buckets>,
    /// The column for verdicts, if any: for [`Reader::verdicts`], before the reader is attached.
    pub verdicts: Option<OwnedFd>,
}

impl Reader {
    /// Attaches to a log of another process. The writer is trusted to keep to the protocol; the
    /// seals and the geometry are checked. A seat's files serve one reader. A second one is
    /// refused, because it would overwrite the pins of the first.
    ///
    /// # Safety
    /// The writer's process keeps to the protocol, and its publisher keeps the seat
    /// ([`RemoteSeat`](crate::RemoteSeat)) until this reader and every burst it holds are gone. Or
    /// no burst is taken from this reader: reading control memory is safe with any writer.
    pub unsafe fn attach(files: ReceivedFiles) -> Result<Self, AttachError> {
        if !(1..=MAX_WINDOW).contains(&files.window) {
            return Err(AttachError::Window { asked: files.window, most: MAX_WINDOW });
        }
        if files.seat >= MAX_READERS {
            return Err(AttachError::NotALog { reason: "the seat's number is too large" });
        }
        let control = Mapping::attach_read_only(files.control, None)?;
        // SAFETY: the mapping has this size, is page-aligned, and is kept in `Memory` below.
        let view = unsafe { ControlView::attach(control.as_ptr(), control.bytes())? };
        let geometry = *view.geometry();
        // Memory beyond it would only waste address space.
        if control.bytes() > geometry.control_bytes().next_multiple_of(PAGE_BYTES) {
            return Err(AttachError::NotALog { reason: "its control memory is too large" });
        }
        let packets = Mapping::attach_region(files.packets, geometry.packet_bytes());
        let packets = packets.map_err(|error| match error {
            MemoryError::WrongSize { .. } => AttachError::NotALog {
                reason: "its packet memory does not have the size of its segments",
            },
            error => error.into(),
        })?;
        if files.part.is_some() && !geometry.has_buckets {
            return Err(AttachError::NotALog {
                reason: "the log has no parts, but a part was requested",
            });
        }
        // A huge page never has exactly this size. In a huge page the owner could punch a hole; if
        // no huge page is left to fill it, the next access faults. The reader may write the page,
        // so no seal prevents holes, but a small page is always replaced.
        let page = Mapping::attach_writable(files.page, Some(PAGE_BYTES))?;
        let packets_at = packets.as_ptr();
        let seat = SeatHandle::attached(page, files.window, files.seat);
        if !seat.page.claim() {
            return Err(AttachError::Claimed);
        }
        let held = Held::Attached { _packets: packets, _control: control };
        let payer = Payer::Time;
        let memory = Arc::new(Memory { control: view, packets: packets_at, payer, held });
        Ok(Reader::new(memory, seat, files.start, files.part))
    }
}

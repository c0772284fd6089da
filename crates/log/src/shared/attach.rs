//! A log seen from another process: three files, however they got there.
//!
//! The publisher keeps a [`RemoteSeat`](crate::RemoteSeat) for each such reader and passes its
//! files. Two of them are sealed against writing, so the reader can do no harm with them. The third
//! is the reader's own page, which the writer treats as hostile. In the other direction the reader
//! trusts: it borrows bytes that stay constant only if the writer keeps to the protocol. No check
//! can replace that. So attaching is an unsafe function (Decision 0001). To read without trust,
//! take an [`UntrustedReader`](crate::UntrustedReader), which copies.

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

/// What the publisher gives to a reader.
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
    /// How many segments the reader may hold.
    pub window: usize,
    /// Where it starts.
    pub start: Start,
    /// The part that it takes; all if `None`.
    pub part: Option<Buckets>,
    /// The column that it writes verdicts into, if it is to.
    pub verdicts: Option<BorrowedFd<'a>>,
}

/// What a reader has received.
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
    /// How many segments it may hold, in `[1, MAX_WINDOW]`.
    pub window: usize,
    /// Where to start.
    pub start: Start,
    /// The part to take; all if `None`.
    pub part: Option<Buckets>,
    /// The column to write verdicts into, if there is one: for [`Reader::verdicts`], before the
    /// reader is attached.
    pub verdicts: Option<OwnedFd>,
}

impl Reader {
    /// Attaches to a log of another process. The writer is trusted to keep to the protocol; the
    /// seals and the geometry are checked. A seat's files serve one reader: the second is refused,
    /// because it would overwrite the pins of the first.
    ///
    /// # Safety
    /// The writer's process keeps to the protocol, and its publisher keeps the seat
    /// ([`RemoteSeat`](crate::RemoteSeat)) until this reader and every burst it holds are gone. Or
    /// no burst is taken from this reader: looking at control memory is safe with any writer.
    pub unsafe fn attach(files: ReceivedFiles) -> Result<Self, AttachError> {
        if !(1..=MAX_WINDOW).contains(&files.window) {
            return Err(AttachError::Window { asked: files.window, most: MAX_WINDOW });
        }
        if files.seat >= MAX_READERS {
            return Err(AttachError::NotALog { reason: "the seat's number is too large" });
        }
        let control = Mapping::attach_read_only(files.control, None)?;
        // SAFETY: the mapping is that large, page-aligned, and kept in `Memory` below.
        let view = unsafe { ControlView::attach(control.as_ptr(), control.bytes())? };
        let geometry = *view.geometry();
        // What is beyond it would cost us the mapping, and hold nothing.
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
        // No huge page has just this size. The owner could punch a hole for a huge page, and if no
        // other is left to fill it, the next access would fault. That the reader may write it
        // allows no seal against holes; a small page is made anew.
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

//! The log: a queue that stores packets back to back, from one writer to many readers.
//!
//! ```text
//! packet memory (sealed memfd, huge pages)               control memory (sealed memfd)
//! +-----------------------------------------------+      head, state, names of ports
//! | packet | packet | ...  free  ... | desc | desc |      sequence number -> segment
//! +-----------------------------------------------+      watermark of each segment
//! | segment 1 ...                                 |
//! +-----------------------------------------------+      reader's page (one each, memfd)
//! | ...                                           |      pins, cursor, waiting
//! ```
//!
//! A [`Writer`] appends packets to the open segment: bytes upwards from its start, 16-byte
//! [`Desc`]s downwards from its end. After each receive poll it publishes the new count. A
//! [`Reader`] sees [`Burst`]s: the descs between its cursor and the published count, and the bytes
//! they point to. Nothing is copied. A burst's bytes do not change while it is lent, because the
//! reader's pin keeps the writer from reusing the segment. Readers of [parts](Log::part) of one log
//! each see only their own packets.
//!
//! Ownership:
//! - The writer owns a segment that no pin names and that is not in the directory.
//! - The writer owns the open segment above the published count.
//! - Nobody owns what is below a published count. It is constant until all pins are gone.
//! - Logs [made together](Log::create_together) have one region, and each owns its part of that.
//! - A reader owns its page, and the column of its verdicts (`verdict`). To the writer, both are
//!   hostile input.
//!
//! Reading order: `desc`, `writer`, `reader`. Then `protocol`, the hand-over and its four edges,
//! modelled in `tests/loom.rs`; `reuse`, the choice of the next segment; `log`, making a log. A
//! merge of several logs adds `promise`, what it waits for, and `weave`, bursts of all of them.
//!
//! Invariants of the whole:
//! - I1: packets get consecutive numbers in the order they are appended. A reader's delivered and
//!   missed packets add up exactly to the difference of two of these numbers.
//! - I2: no reader can make the writer wait, except a lossless one, until its deadline.
//! - I3: the path of a packet has no allocation and no system call, except to wake up sleepers.

mod burst;
mod desc;
mod error;
mod handover;
mod log;
mod packets;
mod reader;
mod shared;
mod untrusted;
#[doc(hidden)]
pub mod verdict;
mod writer;

use handover::{cycle, handoff, wake};
#[doc(hidden)]
pub use handover::{promise, protocol, reuse, watermark};
use packets::{buckets, copy, frames, head, scratch, select, weave};
use shared::{attach, budget, control, history, names, page, remote, seat, standing};

pub use attach::{LogFiles, ReceivedFiles};
pub use buckets::{Buckets, bucket_of};
pub use burst::{Burst, Packet, Packets, PlainPacket, PlainPackets, PlainSum};
pub use control::{BUCKETS, Ending, MAX_READERS, MAX_WINDOW};
pub use desc::{Desc, FACTS_BYTES, Facts, Flags, MAX_PACKET_BYTES, PACKET_ALIGNMENT};
pub use error::{AttachError, CreateError};
pub use frames::{FrameSource, Frames, Turn, Turns};
pub use handoff::Handoff;
pub use head::{HEAD_BYTES, Head};
pub use history::History;
pub use log::{
    Log, LogConfig, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, MIN_SEGMENTS, ReaderConfig, Start,
};
pub use promise::{Promise, Promised};
pub use reader::{GATHER_NS, HeldBurst, Reader, ReaderStatistics};
pub use remote::{RemoteSeat, SeatStatus};
pub use scratch::{SCRATCH_PACKETS, Scratch};
pub use seat::Policy;
pub use standing::{LogStanding, OwnReader};
pub use untrusted::{HeldCopy, UntrustedReader};
pub use verdict::{
    REPLACEMENT_BYTES_MAX, REPLACEMENT_BYTES_MIN, Replacement, Ruling, VERDICTS_WAITING_MAX,
    Verdict, VerdictError, VerdictGiver, VerdictTaker,
};
pub use weave::{WOVEN_PACKETS, Weave, WeavePart};
pub use writer::{
    Adopted, Appended, Batch, BatchSlot, HandedOut, Meta, Room, Slot, Strand, Writer,
    WriterStatistics,
};

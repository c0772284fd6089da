//! Segmented pcapng: a run of blocks, then a worklist, then a trailer, in slots of S bytes.
//!
//! ```text
//! 0                     blocks_end                                                   S
//! | EPB | EPB | ... | closing block: zeros | sketch | entry n-1 ... entry 0 | trailer | length |
//! ```
//!
//! It is the segment of the log with pcapng blocks as packets: blocks grow up, the worklist grows
//! down. `docs/format.md` has every field. Segment n of a file is at `n * S` and has the sequence
//! number n; segment 0 holds the descriptions and no packet.
//!
//! - I1. The closing block ends at S, so every slot is whole blocks and the file is valid pcapng.
//! - I2. Blocks are only appended. If a slot is written again with more packets, the bytes of its
//!   earlier blocks do not change. So a write torn between sectors loses the new packets, never old
//!   ones.
//! - I3. Worklist and trailer repeat what the blocks say. A reader may trust them if the checksum
//!   holds and must ignore them if it does not.

mod encoder;
mod end;
mod index;
mod list;
mod order;
mod sketch;
mod trailer;

pub use encoder::{PlainItem, PlainRun, SegmentEncoder};
pub use end::SegmentEnd;
pub(super) use index::{MOST_PACKETS, may_hold, used_bytes};
pub use index::{SegmentError, SegmentIndex, WorkEntry};
pub(super) use list::list_bytes;
pub use sketch::Sketch;
pub use trailer::{LOSS_CAUSES, LossCause, Recorded, Trailer};

/// Bytes of a worklist entry in version 1.
const OLD_ENTRY_BYTES: usize = 16;

/// Bytes after the worklist: the trailer and the total length of the closing block.
pub(super) const TAIL_BYTES: usize = Trailer::BYTES + 4;

/// The flag of a version 1 entry that has a flow hash.
const HASHED: u8 = 8;

const _: () = assert!(TAIL_BYTES.is_multiple_of(16));

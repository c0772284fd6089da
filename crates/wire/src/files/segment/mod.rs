//! Segmented pcapng: a run of blocks, then a worklist, then a trailer, in slots of S bytes.
//!
//! ```text
//! 0                     blocks_end                                                   S
//! | EPB | EPB | EPB | ... | closing block: zeros | entry n-1 | ... | entry 0 | trailer | length |
//! ```
//!
//! It is the segment of the log with pcapng blocks for packets: blocks grow up, the worklist grows
//! down. `docs/format.md` has every field. Segment n of a file lies at `n * S` and has the sequence
//! number n; segment 0 holds the descriptions and no packet.
//!
//! - I1. The closing block ends at S, so every slot is whole blocks and the file is valid pcapng.
//! - I2. Blocks are only appended. A slot that is written again, after more packets came, has all
//!   bytes of its earlier blocks unchanged: a write torn at sectors loses the new packets, never
//!   old ones.
//! - I3. Worklist and trailer repeat what the blocks say. A reader may trust them when the checksum
//!   holds and must do without them when it does not.

mod encoder;
mod index;
mod trailer;

pub use encoder::{PlainRun, SegmentEncoder};
pub use index::{SegmentError, SegmentIndex, WorkEntry};
pub(super) use index::{is_listed, may_hold, worklist_bytes};
pub use trailer::{LOSS_CAUSES, LossCause, Recorded, Trailer};

/// Bytes of a worklist entry.
const ENTRY_BYTES: usize = 16;

/// What stands behind the worklist: the trailer and the total length of the closing block.
pub(super) const TAIL_BYTES: usize = Trailer::BYTES + 4;

/// The time delta that sends a reader to the block for the time.
const TIME_IN_BLOCK: u32 = u32::MAX;

/// The interface number that sends a reader to the block for the interface.
const INTERFACE_IN_BLOCK: u32 = 0xFFF;

/// Flags of a worklist entry.
const TRUNCATED: u8 = 1;
const INBOUND: u8 = 2;
const OUTBOUND: u8 = 4;
const HASHED: u8 = 8;

const _: () = assert!(TAIL_BYTES.is_multiple_of(16));

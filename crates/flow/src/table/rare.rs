//! State of a conversation that few packets touch: the first one, the handshake, the last one.

use crate::record::Place;

/// Fields of a record's first packet in addition to its [`Sight`].
pub(super) struct First {
    pub(super) macs: Option<[u8; 12]>,
    pub(super) place: Place,
}

/// No round-trip time was measured.
pub(super) const NO_RTT: u64 = u64::MAX;

/// State that few packets touch.
#[derive(Clone, Copy, Default)]
pub(super) struct Rare {
    pub(super) hash: u32,
    /// The number of the first packet's segment plus 1; 0 if it is in none.
    segment: u32,
    pub(super) rtt_ns: u64,
    pub(super) losses: u64,
    /// The number of the first packet in the lower 48 bits; above, its file's number plus 1.
    number: u64,
}

const NUMBER_BITS: u32 = 48;

impl Rare {
    pub(super) fn new(hash: u32, losses: u64, place: Place) -> Self {
        let next = |segment: u32| segment.checked_add(1);
        let file = place.file.and_then(|file| file.checked_add(1)).unwrap_or(0);
        let number = place.number & ((1 << NUMBER_BITS) - 1) | u64::from(file) << NUMBER_BITS;
        let segment = place.segment.and_then(next).unwrap_or(0);
        Self { hash, segment, rtt_ns: NO_RTT, losses, number }
    }

    pub(super) fn place(&self) -> Place {
        let file = (self.number >> NUMBER_BITS) as u16;
        Place {
            file: file.checked_sub(1),
            segment: self.segment.checked_sub(1),
            number: self.number & ((1 << NUMBER_BITS) - 1),
        }
    }
}

//! The newest packets given to a sink, remembered until it is known that they are safe.
//!
//! A sink says how many packets it lost, not which. It writes in order, so what it could not write
//! are the newest: this ring says whose they were and how long, to the packet.

use burstline_port::PortTable;

use crate::runtime::Tally;

/// Packets remembered: more than any sink has in its hands at a time.
const TAIL_PACKETS: usize = 1 << 18;

const PORT_BITS: u32 = 8;
const LENGTH_BITS: u32 = 20;

/// Port, captured length and wire length of the newest packets, a word each.
pub(crate) struct Tail {
    ring: Box<[u64; TAIL_PACKETS]>,
    /// Packets pushed and not taken back, over all time.
    end: usize,
    /// How many of them are still in the ring.
    len: usize,
}

impl Tail {
    pub(crate) fn new() -> Self {
        // By way of a Vec, so that 2 MiB do not pass over the stack.
        let ring = vec![0; TAIL_PACKETS].into_boxed_slice().try_into();
        Self { ring: ring.unwrap_or_else(|_| unreachable!("as long as asked")), end: 0, len: 0 }
    }

    /// Remembers a packet. Cost: one store.
    #[inline]
    pub(crate) fn push(&mut self, port: u8, length: usize, wire_length: usize) {
        let wire = (wire_length as u64) << (PORT_BITS + LENGTH_BITS);
        let word = wire | (length as u64) << PORT_BITS | u64::from(port);
        self.ring[self.end % TAIL_PACKETS] = word;
        self.end += 1;
        self.len = (self.len + 1).min(TAIL_PACKETS);
    }

    /// Forgets the newest packet and says what it was; `None` when there is none left.
    pub(crate) fn take_back(&mut self) -> Option<(usize, Tally)> {
        if self.len == 0 {
            return None;
        }
        self.end -= 1;
        self.len -= 1;
        let word = self.ring[self.end % TAIL_PACKETS];
        let port = word as usize % PortTable::MAX_ENTRIES;
        let bytes = word >> PORT_BITS & ((1 << LENGTH_BITS) - 1);
        Some((port, Tally { packets: 1, bytes, wire_bytes: word >> (PORT_BITS + LENGTH_BITS) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_back_first_and_the_oldest_are_forgotten() {
        let mut tail = Tail::new();
        for index in 0..TAIL_PACKETS + 5 {
            tail.push((index % 256) as u8, index, u32::MAX as usize);
        }
        let newest = TAIL_PACKETS + 4;
        let bytes = newest as u64;
        let wanted = Tally { packets: 1, bytes, wire_bytes: u32::MAX.into() };
        assert_eq!(tail.take_back(), Some((newest % 256, wanted)));
        let rest = std::iter::from_fn(|| tail.take_back());
        let (oldest, tally) = rest.last().unwrap();
        assert_eq!((oldest, tally.bytes), (5, 5));
    }
}

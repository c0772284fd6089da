//! The rings of the two directions, each for both roles.

use std::sync::Arc;

use burstline_peer::{LONGEST, OFFLOAD_BYTES, PeerMemory, Put, Refusal, Taken};

use crate::ring::{Desc, NEXT, Ring, Role};

/// The number of slots whose descriptors are prefetched.
const AHEAD: u16 = 4;

#[derive(Debug)]
pub(crate) enum Buffers {
    /// The client's own memory: one buffer per slot, of equal size, in sequence.
    Own { memory: Arc<PeerMemory>, at: usize, bytes: u32 },
    /// A client's memory, located by descriptors.
    Described(Arc<Vec<Arc<PeerMemory>>>),
}

impl Buffers {
    /// Returns the memory of a slot's buffer and the buffer's offset.
    #[inline]
    fn place(&self, slot: u16, slots: u16, desc: &Desc) -> Option<(&PeerMemory, usize)> {
        match self {
            Self::Own { memory, at, bytes } => {
                let slot = usize::from(slot & (slots - 1));
                Some((memory, at + slot * *bytes as usize))
            }
            Self::Described(regions) => {
                let memory = regions.get(usize::from(desc.region))?;
                Some((memory, desc.offset as usize))
            }
        }
    }

    /// Returns the size of a slot's buffer, according to the client.
    #[inline]
    fn room(&self, desc: &Desc) -> u32 {
        match self {
            Self::Own { bytes, .. } => *bytes,
            Self::Described(_) => desc.bytes,
        }
    }

    /// Returns the descriptor of a slot that we have filled.
    #[inline]
    fn filled(&self, slot: u16, slots: u16, before: Desc, bytes: u32, flags: u16) -> Desc {
        match self {
            Self::Own { at, bytes: size, .. } => {
                let offset = at + usize::from(slot & (slots - 1)) * *size as usize;
                Desc { flags, region: 0, bytes, offset: offset as u32 }
            }
            Self::Described(_) => Desc { flags, bytes, ..before },
        }
    }
}

/// The ring of packets from the peer.
#[derive(Debug)]
pub struct FromPeer {
    pub(crate) ring: Ring,
    pub(crate) buffers: Buffers,
    /// Whether the peer's index was invalid; the ring is then no longer used.
    pub(crate) is_broken: bool,
    /// Slots of packets other than their first, since our index was last published.
    pub(crate) continued: u16,
}

/// The ring of packets to the peer.
#[derive(Debug)]
pub struct ToPeer {
    pub(crate) ring: Ring,
    pub(crate) buffers: Buffers,
    pub(crate) is_broken: bool,
}

impl FromPeer {
    pub(crate) fn new(ring: Ring, buffers: Buffers) -> Self {
        Self { ring, buffers, is_broken: false, continued: 0 }
    }

    #[inline]
    fn available(&mut self, wanted: u16) -> u16 {
        if self.is_broken {
            return 0;
        }
        match self.ring.ahead(self.ring.next, wanted) {
            Some(slots) => slots,
            None => {
                self.is_broken = true;
                0
            }
        }
    }

    /// Copies the packet that begins at the next slot. Returns its slots and the outcome.
    #[inline]
    fn gather(&mut self, slots: u16, room: &mut [u8]) -> (u16, Result<usize, Refusal>) {
        let (mut used, mut at, mut outcome) = (0, 0, Ok(0));
        loop {
            let slot = self.ring.next.wrapping_add(used);
            let desc = self.ring.desc(slot);
            used += 1;
            let bytes = desc.bytes as usize;
            if outcome.is_ok() {
                outcome = self.copy(slot, &desc, &mut room[at..]);
                at += bytes.min(room.len() - at);
            }
            if let Buffers::Own { bytes, .. } = self.buffers {
                // Restore the descriptor for the server.
                let slots = self.ring.slots();
                let fresh = self.buffers.filled(slot, slots, Desc::default(), bytes, 0);
                self.ring.set_desc(slot, fresh);
            }
            if desc.flags & NEXT == 0 {
                break;
            }
            if used >= slots {
                // The packet continues in a slot that is not available.
                return (used, Err(Refusal::Malformed));
            }
        }
        match outcome {
            Ok(_) if at == 0 => (used, Err(Refusal::Short)),
            outcome => (used, outcome.map(|_| at)),
        }
    }

    #[inline]
    fn copy(&self, slot: u16, desc: &Desc, room: &mut [u8]) -> Result<usize, Refusal> {
        let bytes = desc.bytes as usize;
        if let Buffers::Own { bytes: most, .. } = self.buffers
            && desc.bytes > most
        {
            return Err(Refusal::Malformed);
        }
        let into = room.get_mut(..bytes).ok_or(Refusal::Long)?;
        let place = self.buffers.place(slot, self.ring.slots(), desc);
        let (memory, at) = place.ok_or(Refusal::Malformed)?;
        if memory.read(at, into) { Ok(bytes) } else { Err(Refusal::Malformed) }
    }
}

impl burstline_peer::FromPeer for FromPeer {
    #[inline]
    fn take(&mut self, room: &mut [u8]) -> Taken {
        let slots = self.available(1);
        if slots == 0 {
            return Taken::Nothing;
        }
        self.ring.prefetch(self.ring.next.wrapping_add(AHEAD));
        let most = room.len().min(LONGEST);
        // All slots of a packet become visible in one step, so it is complete.
        let (used, outcome) = self.gather(slots, &mut room[..most]);
        self.ring.next = self.ring.next.wrapping_add(used);
        self.continued += used - 1;
        match outcome {
            Ok(bytes) => Taken::Packet { bytes, is_partial: false, is_merged: false },
            Err(refusal) => Taken::Refused(refusal),
        }
    }

    #[inline]
    fn publish(&mut self) -> u16 {
        // A client offers its buffers again: a whole ring of them belongs to the server.
        let ahead = if self.ring.role() == Role::Client { self.ring.slots() } else { 0 };
        let slots = self.ring.publish(self.ring.next.wrapping_add(ahead));
        slots - std::mem::take(&mut self.continued)
    }

    fn fill(&mut self) -> (u16, u16) {
        // More than any ring has, so that the peer's index is read again.
        (self.available(u16::MAX), self.ring.slots())
    }

    fn arm(&mut self) -> bool {
        self.ring.set_polling(false);
        self.available(1) > 0
    }

    fn disarm(&mut self) {
        self.ring.set_polling(true);
    }
}

impl ToPeer {
    pub(crate) fn new(ring: Ring, buffers: Buffers) -> Self {
        Self { ring, buffers, is_broken: false }
    }

    /// Returns the number of slots that may be filled.
    #[inline]
    fn room(&mut self, wanted: u16) -> u16 {
        if self.is_broken {
            return 0;
        }
        let slots = self.ring.slots();
        let room = match self.ring.role() {
            // What the server has not taken is behind our head: its tail is at most a ring away.
            Role::Client => {
                let from = self.ring.next.wrapping_sub(slots);
                self.ring.ahead(from, wanted)
            }
            Role::Server => self.ring.ahead(self.ring.next, wanted),
        };
        self.is_broken = room.is_none();
        room.unwrap_or(0)
    }
}

impl burstline_peer::ToPeer for ToPeer {
    #[inline]
    fn put(&mut self, packet: &[u8], offload: &[u8; OFFLOAD_BYTES]) -> Put {
        if offload[0] != 0 || offload[1] != 0 {
            return Put::Unfit;
        }
        let (mut used, mut rest) = (0, packet);
        while !rest.is_empty() {
            if self.room(used + 1) <= used {
                return Put::NoRoom;
            }
            let slot = self.ring.next.wrapping_add(used);
            let before = match self.ring.role() {
                Role::Client => Desc::default(),
                Role::Server => self.ring.desc(slot),
            };
            let part = rest.len().min(self.buffers.room(&before) as usize);
            let place = self.buffers.place(slot, self.ring.slots(), &before);
            let is_written = place.is_some_and(|(memory, at)| memory.write(at, &rest[..part]));
            if part == 0 || !is_written {
                // A fault of the peer: such a ring accepts no more packets.
                self.is_broken = true;
                return Put::NoRoom;
            }
            rest = &rest[part..];
            let flags = if rest.is_empty() { 0 } else { NEXT };
            let desc = self.buffers.filled(slot, self.ring.slots(), before, part as u32, flags);
            self.ring.set_desc(slot, desc);
            used += 1;
        }
        self.ring.next = self.ring.next.wrapping_add(used);
        Put::Done
    }

    #[inline]
    fn publish(&mut self) {
        self.ring.publish(self.ring.next);
    }

    fn is_live(&self) -> bool {
        !self.is_broken && !self.ring.is_lost()
    }
}

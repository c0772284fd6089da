//! Packets from the guest: copies them from its transmit ring into our buffer.

use burstline_peer::{FromPeer, LONGEST, OFFLOAD_BYTES, Taken};

use crate::memory::Header;
use crate::split::{ChainFault, INDIRECT, NEXT, WRITE};
use crate::vring::Vring;

/// Source: `VIRTIO_NET_HDR_F_NEEDS_CSUM` and `VIRTIO_NET_HDR_GSO_NONE`, section 5.1.6.
const NEEDS_CHECKSUM: u8 = 1;

/// The device's side of a transmit ring.
#[derive(Debug)]
pub struct FromGuest(pub(crate) Vring);

impl FromPeer for FromGuest {
    /// Takes the next packet into `room`, which has [`LONGEST`] bytes. Its buffers return to the
    /// guest with [`publish`](Self::publish).
    ///
    /// Cost: two loads of the ring's lines and the copy.
    #[inline]
    fn take(&mut self, room: &mut [u8]) -> Taken {
        let ring = &mut self.0;
        if ring.available(1) == 0 {
            return Taken::Nothing;
        }
        ring.fetch_ahead::<false>();
        let head = match ring.split.head(0) {
            Ok(head) => head,
            Err(fault) => {
                ring.fault = Some(fault);
                return Taken::Nothing;
            }
        };
        let mut header = Header::default();
        let taken = gather(ring, head, &mut header, room);
        ring.split.note_used(0, head, 0);
        ring.split.advance(1);
        match taken {
            Err(fault) => Taken::Refused(fault.refusal()),
            Ok(bytes) => Taken::Packet {
                bytes,
                is_partial: header[0] & NEEDS_CHECKSUM != 0,
                is_merged: header[1] != 0,
            },
        }
    }

    /// Gives taken chains back to the guest. Returns their number, according to the index that it
    /// sees (V3).
    #[inline]
    fn publish(&mut self) -> u16 {
        self.0.publish()
    }

    fn fill(&mut self) -> (u16, u16) {
        // More than any ring has, so that the guest's index is read again.
        (self.0.available(u16::MAX), self.0.split.size())
    }

    /// Asks the guest to ring when it sends. Returns whether a packet is already there.
    fn arm(&mut self) -> bool {
        if !self.0.is_live() {
            return false;
        }
        match self.0.split.arm() {
            Ok(is_there) => is_there,
            Err(fault) => {
                self.0.fault = Some(fault);
                false
            }
        }
    }

    /// Asks the guest not to ring.
    fn disarm(&mut self) {
        self.0.split.disarm();
    }
}

impl FromGuest {
    /// Returns the fault that stopped the ring, if any.
    pub fn fault(&self) -> Option<crate::RingFault> {
        self.0.fault
    }
}

const _: () = assert!(size_of::<Header>() >= OFFLOAD_BYTES);

/// Copies a chain: the header, and the packet behind it. Returns the packet's length. The first
/// descriptor is read to see whether it is the whole chain; if not, that value is not used (V1).
#[inline]
fn gather(
    ring: &mut Vring,
    head: u16,
    header: &mut Header,
    room: &mut [u8],
) -> Result<usize, ChainFault> {
    let header_bytes = ring.header_bytes;
    let most = room.len().min(LONGEST);
    let whole = ring.split.desc(head);
    if !ring.heeds_headers && whole.flags & (WRITE | NEXT | INDIRECT) == 0 {
        // The usual case: one buffer, whose header need not be read.
        let bytes = (whole.bytes as usize).checked_sub(header_bytes).filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or(ChainFault::Short)?;
        let into = room.get_mut(..bytes).filter(|_| bytes <= most).ok_or(ChainFault::Long)?;
        if ring.memory.read_behind(whole.address, header_bytes, into, &mut ring.near) {
            return Ok(bytes);
        }
    }
    // Bytes of the chain so far, the header's first.
    let mut at = 0;
    let mut walk = ring.walk(head);
    while let Some(desc) = ring.step(&mut walk)? {
        if desc.flags & WRITE != 0 {
            return Err(ChainFault::Direction);
        }
        let (mut address, mut bytes) = (desc.address, desc.bytes as usize);
        if at < header_bytes {
            let part = bytes.min(header_bytes - at);
            if !ring.memory.read(address, &mut header[at..at + part], &mut ring.near) {
                return Err(ChainFault::Address);
            }
            (address, bytes, at) = (address.wrapping_add(part as u64), bytes - part, at + part);
            if bytes == 0 {
                continue;
            }
        }
        let start = at - header_bytes;
        if bytes > most - start {
            return Err(ChainFault::Long);
        }
        if !ring.memory.read(address, &mut room[start..start + bytes], &mut ring.near) {
            return Err(ChainFault::Address);
        }
        at += bytes;
    }
    at.checked_sub(header_bytes).filter(|&bytes| bytes > 0).ok_or(ChainFault::Short)
}

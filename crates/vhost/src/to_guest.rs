//! Packets to the guest: copies them into the buffers of its receive ring.

use burstline_peer::{OFFLOAD_BYTES, Put, ToPeer};

use crate::memory::Header;
use crate::split::{ChainFault, INDIRECT, NEXT, WRITE};
use crate::vring::Vring;

/// The offset of the number of buffers in a header.
const BUFFERS_AT: usize = 10;

/// The most invalid buffers in a row that a packet tries. Each costs a walk along a chain, and a
/// guest could fill its whole ring with them to delay others.
const REFUSED_MAX: u16 = 16;

/// The device's side of a receive ring.
#[derive(Debug)]
pub struct ToGuest(pub(crate) Vring);

/// The state of a packet that is being written.
struct Writing<'p> {
    header: Header,
    header_bytes: usize,
    packet: &'p [u8],
    /// Bytes written, including the header.
    at: usize,
    /// The address of the header in the guest's memory.
    header_at: u64,
}

impl ToPeer for ToGuest {
    /// Copies a packet into buffers of the guest. `offload` is the offload that the packet still
    /// needs, as a `virtio_net_hdr`; zeros for none. The guest sees the packet after
    /// [`publish`](Self::publish).
    ///
    /// Cost: two loads of the ring's lines and the copy.
    #[inline]
    fn put(&mut self, packet: &[u8], offload: &[u8; OFFLOAD_BYTES]) -> Put {
        let ring = &mut self.0;
        let is_unfinished = offload[0] != 0 || offload[1] != 0;
        if is_unfinished && !ring.takes_offloads {
            return if ring.is_live() { Put::Unfit } else { Put::NoRoom };
        }
        let header_bytes = ring.header_bytes;
        let mut header = Header::default();
        header[..OFFLOAD_BYTES].copy_from_slice(offload);
        header[BUFFERS_AT] = u8::from(header_bytes > BUFFERS_AT);
        let mut writing = Writing { header, header_bytes, packet, at: 0, header_at: 0 };
        let total = header_bytes + packet.len();
        let (mut buffers, mut refused) = (0, 0);
        while writing.at < total {
            if buffers > 0 && !ring.has_merged_buffers {
                return Put::Unfit;
            }
            if ring.available(buffers + 1) <= buffers {
                return Put::NoRoom;
            }
            ring.fetch_ahead::<true>();
            let head = match ring.split.head(buffers) {
                Ok(head) => head,
                Err(fault) => {
                    ring.fault = Some(fault);
                    return Put::NoRoom;
                }
            };
            let before = writing.at;
            match scatter(ring, head, &mut writing) {
                Ok(()) => {
                    ring.split.note_used(buffers, head, (writing.at - before) as u32);
                    buffers += 1;
                }
                Err(_) if buffers == 0 => {
                    // The guest gets it back empty, and the packet is tried in the next chain.
                    ring.split.note_used(0, head, 0);
                    ring.split.advance(1);
                    (writing.at, refused) = (0, refused + 1);
                    if refused == REFUSED_MAX {
                        return Put::NoRoom;
                    }
                }
                // In the middle of a packet: none of it is published.
                Err(_) => return Put::Unfit,
            }
        }
        if buffers > 1 {
            let bytes = buffers.to_le_bytes();
            let at = writing.header_at.wrapping_add(BUFFERS_AT as u64);
            // Cannot fail: the header was just written there.
            let _ = ring.memory.write(at, &bytes, &mut ring.near);
        }
        ring.split.advance(buffers);
        Put::Done
    }

    /// Publishes the packets put so far, and rings if the guest wants it.
    #[inline]
    fn publish(&mut self) {
        self.0.publish();
    }

    /// Returns whether the guest currently accepts packets.
    fn is_live(&self) -> bool {
        self.0.is_live()
    }
}

impl ToGuest {
    /// Returns the fault that stopped the ring, if any.
    pub fn fault(&self) -> Option<crate::RingFault> {
        self.0.fault
    }
}

/// Writes as much as the chain has room for. Treats its first descriptor like `gather` (V1).
#[inline]
fn scatter(ring: &mut Vring, head: u16, writing: &mut Writing<'_>) -> Result<(), ChainFault> {
    let total = writing.header_bytes + writing.packet.len();
    let whole = ring.split.desc(head);
    let is_whole = whole.flags & (WRITE | NEXT | INDIRECT) == WRITE;
    if writing.at == 0 && is_whole && whole.bytes as usize >= total {
        // The usual case: one buffer for everything.
        let behind = whole.address.wrapping_add(writing.header_bytes as u64);
        let (memory, near) = (&ring.memory, &mut ring.near);
        let Writing { header, header_bytes, .. } = writing;
        let is_written = memory.write_header(whole.address, header, *header_bytes, near)
            && memory.write(behind, writing.packet, near);
        (writing.header_at, writing.at) = (whole.address, total);
        return if is_written { Ok(()) } else { Err(ChainFault::Address) };
    }
    let mut walk = ring.walk(head);
    let before = writing.at;
    while let Some(desc) = ring.step(&mut walk)? {
        if desc.flags & WRITE == 0 {
            return Err(ChainFault::Direction);
        }
        let (mut address, mut bytes) = (desc.address, desc.bytes as usize);
        if writing.at < writing.header_bytes {
            if bytes < writing.header_bytes {
                return Err(ChainFault::Short);
            }
            let header = &writing.header[..writing.header_bytes];
            if !ring.memory.write(address, header, &mut ring.near) {
                return Err(ChainFault::Address);
            }
            writing.header_at = address;
            writing.at = writing.header_bytes;
            address = address.wrapping_add(writing.header_bytes as u64);
            bytes -= writing.header_bytes;
        }
        let start = writing.at - writing.header_bytes;
        let part = &writing.packet[start..];
        let part = &part[..part.len().min(bytes)];
        if !part.is_empty() && !ring.memory.write(address, part, &mut ring.near) {
            return Err(ChainFault::Address);
        }
        writing.at += part.len();
        if writing.at == total {
            return Ok(());
        }
    }
    if writing.at > before { Ok(()) } else { Err(ChainFault::Short) }
}

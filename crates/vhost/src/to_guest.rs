//! Packets for the guest: into the buffers of its receive ring.

use burstline_peer::{OFFLOAD_BYTES, Put, ToPeer};

use crate::memory::Header;
use crate::split::{ChainFault, INDIRECT, NEXT, WRITE};
use crate::vring::Vring;

/// Where a header has the number of buffers.
const BUFFERS_AT: usize = 10;

/// Buffers in a row that are none, before a packet has no room. Each takes a walk along a chain: a
/// guest whose whole ring is of these would hold everybody up.
const REFUSED_MAX: u16 = 16;

/// The device's side of a receive ring.
#[derive(Debug)]
pub struct ToGuest(pub(crate) Vring);

/// What is known of a packet that is being written.
struct Writing<'p> {
    header: Header,
    header_bytes: usize,
    packet: &'p [u8],
    /// Bytes written, the header's included.
    at: usize,
    /// Where the header is in the guest's memory.
    header_at: u64,
}

impl ToPeer for ToGuest {
    /// Copies a packet into buffers of the guest. `offload` is what a device still has to do to
    /// it, as a `virtio_net_hdr`; zeros: nothing. It is the guest's after
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
                    // The guest gets it back empty; the packet goes to the next one.
                    ring.split.note_used(0, head, 0);
                    ring.split.advance(1);
                    (writing.at, refused) = (0, refused + 1);
                    if refused == REFUSED_MAX {
                        return Put::NoRoom;
                    }
                }
                // In the middle of a packet: nothing of it is published.
                Err(_) => return Put::Unfit,
            }
        }
        if buffers > 1 {
            let bytes = buffers.to_le_bytes();
            let at = writing.header_at.wrapping_add(BUFFERS_AT as u64);
            // The header was written there a moment ago.
            let _ = ring.memory.write(at, &bytes, &mut ring.near);
        }
        ring.split.advance(buffers);
        Put::Done
    }

    /// Shows the guest what was put, and rings if it wants.
    #[inline]
    fn publish(&mut self) {
        self.0.publish();
    }

    /// Whether the guest takes packets now.
    fn is_live(&self) -> bool {
        self.0.is_live()
    }
}

impl ToGuest {
    /// Why it does nothing any more, if so.
    pub fn fault(&self) -> Option<crate::RingFault> {
        self.0.fault
    }
}

/// Writes as much as a chain has room for. Of its first descriptor as in `gather` (V1).
#[inline]
fn scatter(ring: &mut Vring, head: u16, writing: &mut Writing<'_>) -> Result<(), ChainFault> {
    let total = writing.header_bytes + writing.packet.len();
    let whole = ring.split.desc(head);
    let is_whole = whole.flags & (WRITE | NEXT | INDIRECT) == WRITE;
    if writing.at == 0 && is_whole && whole.bytes as usize >= total {
        // The usual: one buffer for all.
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

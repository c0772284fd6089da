//! One packet of a block: its header is checked, and its VLAN tag is put back.
//!
//! ```text
//! at                     48        68            mac
//! | struct tpacket3_hdr | address | gap | 4 room | bytes ...            as the kernel leaves it
//! | struct tpacket3_hdr | address | gap | MACs, tag, rest ...           with its tag put back
//! ```

use std::fmt;
use std::mem::offset_of;

use burstline_sys::prefetch;
use libc::{sockaddr_ll, tpacket_hdr_variant1, tpacket3_hdr};

/// Room that we request in front of each packet, in bytes.
pub(super) const TAG_BYTES: usize = 4;

/// Two MAC addresses, which precede a tag.
const ADDRESSES_BYTES: usize = 12;

/// The tag protocol if the device does not report it. Source: IEEE 802.1Q, section 9.6.
const TPID_DEFAULT: u16 = 0x8100;

/// A packet is a merged TCP segment, longer than on the wire. Since Linux 6.4. Source:
/// TP_STATUS_GSO_TCP, uapi/linux/if_packet.h.
const STATUS_GSO_TCP: u32 = 1 << 8;

/// A bit that the kernel does not use; we set it for outgoing packets.
const STATUS_OUTGOING: u32 = 1 << 16;

/// How far ahead of a packet's header lines are prefetched, in bytes. The kernel wrote them on
/// another core, and one line takes longer from there than a short packet takes here.
const AHEAD_BYTES: usize = 1024;

/// Offset of the address from the packet's header.
const ADDRESS_AT: usize = size_of::<tpacket3_hdr>();

/// Bytes in front of every packet: header and address.
const HEADER_BYTES: usize = libc::TPACKET3_HDRLEN;

const _: () = assert!(size_of::<tpacket3_hdr>() == 48 && size_of::<sockaddr_ll>() == 20);
const _: () = assert!(HEADER_BYTES == ADDRESS_AT + size_of::<sockaddr_ll>());

/// The kernel's marks on a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketMarks(u32);

impl PacketMarks {
    /// This host sent it.
    #[inline]
    pub fn is_outgoing(self) -> bool {
        self.0 & STATUS_OUTGOING != 0
    }

    /// The transport checksum is left to a device: it is not valid yet.
    #[inline]
    pub fn has_partial_checksum(self) -> bool {
        self.0 & libc::TP_STATUS_CSUMNOTREADY != 0
    }

    /// It is several TCP segments of the wire merged into one. Kernels before 6.4 do not report it.
    #[inline]
    pub fn is_merged_tcp(self) -> bool {
        self.0 & STATUS_GSO_TCP != 0
    }

    /// The kernel had stripped its outermost VLAN tag: a filter in the kernel did not see it.
    #[inline]
    pub fn had_stripped_tag(self) -> bool {
        self.0 & libc::TP_STATUS_VLAN_VALID != 0
    }

    /// Its time is from the network card's clock.
    #[inline]
    pub fn has_hardware_time(self) -> bool {
        self.0 & libc::TP_STATUS_TS_RAW_HARDWARE != 0
    }
}

impl fmt::Debug for PacketMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketMarks({:#x})", self.0)
    }
}

/// The location of a packet in its block, and its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPacket {
    /// Offset of its first byte from the block's start.
    pub offset: u32,
    /// Its captured bytes.
    pub length: u32,
    /// Its length on the wire, without FCS.
    pub original_length: u32,
    /// Arrival time, in ns since 1970.
    pub time_ns: u64,
    /// Packets dropped by the full ring just before this one.
    pub drops_before: u64,
    /// Other marks of the kernel.
    pub marks: PacketMarks,
}

/// Reads the packet whose header is at `at`, and puts its tag back. Returns the packet and the
/// offset of the next header, which is 0 after the block's last packet. `None` on an inconsistent
/// header.
///
/// Call it once per packet, since it inserts the tag each time.
#[inline]
pub(super) fn take(block: &mut [u8], at: usize) -> Option<(RingPacket, usize)> {
    let header: &[u8; HEADER_BYTES] = block.get(at..)?.first_chunk()?;
    let mac = usize::from(half(header, offset_of!(tpacket3_hdr, tp_mac)));
    let mut offset = at + mac;
    let mut length = word(header, offset_of!(tpacket3_hdr, tp_snaplen)) as usize;
    let mut original_length = word(header, offset_of!(tpacket3_hdr, tp_len));
    let seconds = word(header, offset_of!(tpacket3_hdr, tp_sec));
    let nanoseconds = word(header, offset_of!(tpacket3_hdr, tp_nsec));
    let mut status = word(header, offset_of!(tpacket3_hdr, tp_status)) & !STATUS_OUTGOING;
    let kind = header[ADDRESS_AT + offset_of!(sockaddr_ll, sll_pkttype)];
    if kind == libc::PACKET_OUTGOING {
        status |= STATUS_OUTGOING;
    }
    let next = word(header, offset_of!(tpacket3_hdr, tp_next_offset)) as usize;
    if mac < HEADER_BYTES || offset + length > block.len() {
        return None;
    }
    let ahead = block.as_ptr().wrapping_add(at + AHEAD_BYTES);
    prefetch::start_to_read(ahead, next);
    if status & libc::TP_STATUS_VLAN_VALID != 0 {
        let tag = tag(header, status);
        original_length = original_length.saturating_add(TAG_BYTES as u32);
        if length >= ADDRESSES_BYTES && mac >= HEADER_BYTES + TAG_BYTES {
            put_tag(block, offset, tag);
            (offset, length) = (offset - TAG_BYTES, length + TAG_BYTES);
        }
    }
    let packet = RingPacket {
        // Both fit: a block is at most 1 GiB.
        offset: offset as u32,
        length: length as u32,
        original_length: original_length.max(length as u32),
        time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds),
        drops_before: 0,
        marks: PacketMarks(status),
    };
    Some((packet, if next == 0 { 0 } else { at + next }))
}

/// Returns the stripped tag, in wire format.
fn tag(header: &[u8; HEADER_BYTES], status: u32) -> [u8; TAG_BYTES] {
    let variant = offset_of!(tpacket3_hdr, hv1);
    let control = word(header, variant + offset_of!(tpacket_hdr_variant1, tp_vlan_tci)) as u16;
    let protocol = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => TPID_DEFAULT,
        _ => half(header, variant + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid)),
    };
    let ([a, b], [c, d]) = (protocol.to_be_bytes(), control.to_be_bytes());
    [a, b, c, d]
}

/// Moves the addresses of the packet at `offset` forward by a tag's length and writes the tag
/// behind them. The caller has checked that there is room.
fn put_tag(block: &mut [u8], offset: usize, tag: [u8; TAG_BYTES]) {
    let start = offset - TAG_BYTES;
    block.copy_within(offset..offset + ADDRESSES_BYTES, start);
    block[start + ADDRESSES_BYTES..][..TAG_BYTES].copy_from_slice(&tag);
}

#[inline]
fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[inline]
fn half(header: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_ne_bytes([header[at], header[at + 1]])
}

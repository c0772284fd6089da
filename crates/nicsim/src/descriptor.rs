//! The descriptors of the Intel 82599, bit for bit. The same 16 bytes have one format when the
//! driver writes them and another when the device does.
//!
//! ```text
//!               63                          32 31 30    21 20  17 16       4 3      0
//! read     0    | packet buffer address 63:1                                   | A0 |
//! format   8    | header buffer address 63:1                                   | DD |
//!
//! write    0    | RSS hash / fragment checksum |SPH| HDR_LEN |RSCCNT| type   | RSS   |
//! back     8    | VLAN tag | packet length     | extended error | extended status   |
//!               63       48 47              32 31            20 19                 0
//! ```
//!
//! Source: Intel 82599 10 GbE Controller Datasheet, 7.1.6 (receive) and 7.2.3.2.4 (transmit); the
//! paper's tables 1 and 2 are the first two. The device has no RSC and does not split headers:
//! RSCCNT, HDR_LEN and SPH are 0. A tag stays in the packet and is also reported.

use burstline_wire::headers::{Headers, Network, Outcome, protocol};

/// The two words of a descriptor, in memory order.
pub type Words = [u64; 2];

/// Descriptor done: the device has written it.
pub const DONE: u64 = 1;
/// End of packet: its last descriptor.
pub const END_OF_PACKET: u64 = 1 << 1;
const VLAN_PRESENT: u64 = 1 << 3;
const IP_CHECKED: u64 = 1 << 6;
const TRANSPORT_CHECKED: u64 = 1 << 5;
/// The length of the packet contradicts its headers (extended error bit 5).
const LENGTH_ERROR: u64 = 1 << 25;
/// The IP header is malformed (extended error bit 11).
const IP_ERROR: u64 = 1 << 31;

/// Returns the words that the driver writes: the address of a buffer for a packet.
///
/// Bit 0 of both addresses is lost: A0 and DD are 0.
#[must_use]
pub fn receive_read(buffer: u64) -> Words {
    [buffer & !1, 0]
}

/// Returns the buffer address that the device reads.
#[must_use]
pub fn buffer_of(words: Words) -> u64 {
    words[0] & !1
}

/// The device's metadata of a packet, in the write-back format or before the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The Toeplitz hash, or 0.
    pub hash: u32,
    /// The hashed fields: 4 bits.
    pub rss_type: u8,
    /// The headers found: 13 bits.
    pub packet_type: u16,
    /// Bytes in this buffer.
    pub length: u16,
    /// The outer VLAN tag, or 0.
    pub vlan: u16,
    /// Status and error bits, as in the second word, without [`DONE`] and [`END_OF_PACKET`].
    pub marks: u32,
}

impl Metadata {
    /// Returns all metadata of a packet except its hash and length.
    #[inline]
    #[must_use]
    pub fn of(headers: &Headers) -> Self {
        let tag = headers.tags().first();
        let mut marks = if tag.is_some() { VLAN_PRESENT } else { 0 };
        if matches!(headers.network, Network::Ipv4) {
            marks |= IP_CHECKED;
        }
        if headers.outcome == Outcome::Complete && headers.ports.is_some() {
            marks |= TRANSPORT_CHECKED;
        }
        marks |= match headers.outcome {
            Outcome::MalformedNetwork => IP_ERROR,
            Outcome::TruncatedNetwork | Outcome::TruncatedTransport => LENGTH_ERROR,
            _ => 0,
        };
        Self {
            packet_type: packet_type(headers),
            rss_type: rss_type(headers),
            vlan: tag.map_or(0, |tag| tag.0),
            marks: marks as u32,
            ..Self::default()
        }
    }

    /// Returns the write-back format, for a packet's last buffer or another one.
    #[inline]
    #[must_use]
    pub fn write_back(&self, is_last: bool) -> Words {
        let first = u64::from(self.hash) << 32
            | u64::from(self.packet_type & 0x1fff) << 4
            | u64::from(self.rss_type & 0xf);
        let end = if is_last { END_OF_PACKET } else { 0 };
        let second = u64::from(self.vlan) << 48
            | u64::from(self.length) << 32
            | u64::from(self.marks)
            | end
            | DONE;
        [first, second]
    }

    /// Reads the write-back format.
    #[inline]
    #[must_use]
    pub fn read([first, second]: Words) -> Self {
        Self {
            hash: (first >> 32) as u32,
            rss_type: (first & 0xf) as u8,
            packet_type: (first >> 4 & 0x1fff) as u16,
            length: (second >> 32) as u16,
            vlan: (second >> 48) as u16,
            marks: second as u32 & !(END_OF_PACKET | DONE) as u32,
        }
    }

    /// Returns whether the device reports an error in the packet.
    #[inline]
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.marks >> 20 != 0
    }
}

/// Returns the packet type. Source: 82599 Datasheet, table 7-17; bits 4 to 16 of the first word.
#[inline]
fn packet_type(headers: &Headers) -> u16 {
    let network = match headers.network {
        Network::Ipv4 if headers.transport_offset - headers.network_offset > 20 => 1 | 2,
        Network::Ipv4 => 1,
        Network::Ipv6 if headers.transport_offset - headers.network_offset > 40 => 4 | 8,
        Network::Ipv6 => 4,
        _ => return 0,
    };
    // A later fragment has no transport header.
    let transport = match headers.protocol {
        _ if headers.is_later_fragment() => 0,
        protocol::TCP => 0x10,
        protocol::UDP => 0x20,
        protocol::SCTP => 0x40,
        _ => 0,
    };
    network | transport
}

/// Returns the input of the hash. Source: 82599 Datasheet, table 7-15.
#[inline]
fn rss_type(headers: &Headers) -> u8 {
    let has_ports = headers.ports.is_some() && headers.fragment.is_none();
    match (headers.network, headers.protocol) {
        (Network::Ipv4, protocol::TCP) if has_ports => 1,
        (Network::Ipv4, protocol::UDP) if has_ports => 7,
        (Network::Ipv4, _) => 2,
        (Network::Ipv6, protocol::TCP) if has_ports => 3,
        (Network::Ipv6, protocol::UDP) if has_ports => 8,
        (Network::Ipv6, _) => 5,
        _ => 0,
    }
}

/// Descriptor type "advanced data", and extension: both always set.
const TRANSMIT_DATA: u64 = 3 << 20 | 1 << 29;
/// The device adds the FCS after the packet.
const INSERT_FCS: u64 = 1 << 25;
const TRANSMIT_END: u64 = 1 << 24;
/// The device must write the descriptor back.
const REPORT_STATUS: u64 = 1 << 27;
const TRANSMIT_DONE: u64 = 1 << 32;

/// A piece of a packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u16,
    /// Whether it is the packet's last piece.
    pub is_last: bool,
    /// Whether the device reports sending it by writing the descriptor back.
    pub reports: bool,
}

impl Outgoing {
    /// Returns the words for the device; `packet_bytes` is the length of the whole packet.
    #[inline]
    #[must_use]
    pub fn words(&self, packet_bytes: u32) -> Words {
        let end = if self.is_last { TRANSMIT_END } else { 0 };
        let report = if self.reports { REPORT_STATUS } else { 0 };
        let paid = u64::from(packet_bytes & 0x3_ffff) << 46;
        let second = u64::from(self.length) | TRANSMIT_DATA | INSERT_FCS | end | report | paid;
        [self.address, second]
    }

    /// Reads the words as the device does.
    #[inline]
    #[must_use]
    pub fn read([address, second]: Words) -> Self {
        Self {
            address,
            length: second as u16,
            is_last: second & TRANSMIT_END != 0,
            reports: second & REPORT_STATUS != 0,
        }
    }
}

/// The second word of a sent transmit descriptor: all bits but DD are reserved.
pub const SENT: u64 = TRANSMIT_DONE;

/// Returns whether the second word of a transmit descriptor reports that it was sent.
#[inline]
#[must_use]
pub fn is_sent(second: u64) -> bool {
    second & TRANSMIT_DONE != 0
}

#[cfg(test)]
mod tests {
    use burstline_wire::headers::{LinkType, parse};

    use super::*;

    fn frame(ether: &[u8], ip: &[u8]) -> Vec<u8> {
        let mut frame = [&[2; 12][..], ether, ip].concat();
        frame.resize(60, 0);
        frame
    }

    fn ipv4(protocol: u8) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip.extend([4, 0, 0, 53, 0, 8, 0, 0]);
        ip
    }

    fn words(frame: &[u8]) -> Words {
        let headers = parse(LinkType::ETHERNET, frame);
        let metadata = Metadata::of(&headers);
        Metadata { hash: 0xdead_beef, length: frame.len() as u16, ..metadata }.write_back(true)
    }

    /// Checks byte by byte, lowest first, as in the tables.
    #[test]
    fn the_tables_of_the_paper() {
        let bytes = |words: Words| [words[0].to_le_bytes(), words[1].to_le_bytes()].concat();
        let read = bytes(receive_read(0x1122_3344_5566_7788));
        assert_eq!(read, [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 0, 0]);
        let udp = bytes(words(&frame(&[8, 0], &ipv4(17))));
        // RSS type 7 (IPv4 UDP) and packet type 0x21 (IPv4, UDP) from bit 4 on; hash; status EOP,
        // DD, L4I, IPCS; no error; length 60; no tag.
        let expected = [0x17, 0x02, 0, 0, 0xef, 0xbe, 0xad, 0xde, 0x63, 0, 0, 0, 60, 0, 0, 0];
        assert_eq!(udp, expected);
        let tagged = bytes(words(&frame(&[0x81, 0, 0x20, 5, 8, 0], &ipv4(17))));
        assert_eq!(tagged[8..], [0x6b, 0, 0, 0, 60, 0, 5, 0x20], "VP, and the tag");
    }

    #[test]
    fn types_of_packets() {
        let mut ipv6 = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        ipv6.extend([0xfd; 32]);
        let mut tcp = vec![0; 20];
        (tcp[1], tcp[3], tcp[12]) = (80, 81, 0x50);
        ipv6.extend(tcp);
        let first = words(&frame(&[0x86, 0xdd], &ipv6))[0];
        assert_eq!(first & 0x1_ffff, 0x14 << 4 | 3, "IPv6, TCP");
        let mut fragment = ipv4(17);
        fragment[7] = 5;
        let first = words(&frame(&[8, 0], &fragment))[0];
        assert_eq!(first & 0x1_ffff, 1 << 4 | 2, "IPv4, its transport not seen");
        assert_eq!(words(&frame(&[8, 6], &[0; 28]))[0] & 0x1_ffff, 0, "ARP");
        let mut wrong = ipv4(17);
        wrong[0] = 0x41;
        let second = words(&frame(&[8, 0], &wrong))[1];
        assert!(Metadata::read([0, second]).is_damaged(), "{second:#x}");
    }

    #[test]
    fn one_slot_has_two_meanings() {
        let mut slot = receive_read(0x7000);
        assert_eq!((buffer_of(slot), slot[1] & DONE), (0x7000, 0));
        let metadata = Metadata {
            hash: 1,
            rss_type: 2,
            packet_type: 0x1fff,
            length: u16::MAX,
            vlan: 0xffff,
            marks: 0,
        };
        slot = metadata.write_back(false);
        assert_eq!((Metadata::read(slot), slot[1] & (DONE | END_OF_PACKET)), (metadata, DONE));
    }

    #[test]
    fn transmit_descriptors() {
        let piece = Outgoing { address: 0x1000, length: 60, is_last: true, reports: true };
        let words = piece.words(60);
        assert_eq!(Outgoing::read(words), piece);
        // PAYLEN 60, DEXT, RS, IFCS, EOP, DTYP 3, DTALEN 60.
        assert_eq!(words[1], 60 << 46 | 0x2b << 24 | 3 << 20 | 60);
        assert!(!is_sent(words[1]) && is_sent(SENT));
        let silent = Outgoing { reports: false, is_last: false, ..piece };
        assert_eq!(silent.words(9018)[1], 9018 << 46 | 0x22 << 24 | 3 << 20 | 60);
    }
}

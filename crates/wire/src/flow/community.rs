//! Community ID, version 1: one text per conversation, the same in Zeek, Suricata and Wireshark.
//!
//! ```text
//! "1:" base64( SHA-1( seed | lower end's address | other's | protocol | 0 | port | port ) )
//! ```
//!
//! The lower end, by address and then by port, comes first. ICMP has types in place of ports: a
//! request and its reply are one conversation.
//!
//! Source: <https://github.com/corelight/community-id-spec>, version 1; SHA-1: RFC 3174; base64:
//! RFC 4648, section 4. Nothing here is a secret, so SHA-1's weakness does not matter.

use std::fmt;
use std::str::FromStr;

use super::{FlowKey, IpVersion};
use crate::headers::{Headers, bytes_at, protocol};

/// The default seed, two bytes: other tools can change it.
const SEED: [u8; 2] = [0; 2];

/// The longest input: the seed, two IPv6 addresses, protocol, padding, two ports.
const INPUT_BYTES_MAX: usize = 2 + 32 + 2 + 4;

/// Type and type of the reply. Source: the specification's table for ICMP.
const ICMP_PAIRS: [[u8; 2]; 5] = [[8, 0], [10, 9], [13, 14], [15, 16], [17, 18]];

/// The same for ICMPv6.
const ICMPV6_PAIRS: [[u8; 2]; 6] =
    [[128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145]];

/// The Community ID of a conversation, as 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommunityId([u8; 20]);

/// The error for a text that is not a Community ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a Community ID of version 1, 30 characters: 1:LQU9qZlK+B5F3KDmev6m5PMibrg=")]
pub struct CommunityIdError;

impl CommunityId {
    /// Returns the conversation of a packet; `None` if it is not IP.
    ///
    /// Cost: one SHA-1 of 18 to 40 bytes, some 200 ns.
    #[must_use]
    pub fn new(headers: &Headers, packet: &[u8]) -> Option<Self> {
        let key = FlowKey::new(headers, packet)?;
        let is_icmp = matches!(key.protocol, protocol::ICMP | protocol::ICMPV6);
        let head = bytes_at(packet, headers.transport_offset as usize)
            .filter(|_| is_icmp && !headers.is_later_fragment());
        Some(Self::of(&key, head))
    }

    /// Returns the conversation of a key. `icmp` are the first two bytes of an ICMP message, type
    /// and code, which replace the ports.
    ///
    /// Cost: as [`new`](Self::new).
    #[must_use]
    pub fn of(key: &FlowKey, icmp: Option<[u8; 2]>) -> Self {
        let ports = key.ports.map(|ports| [ports.source, ports.destination]);
        let (ports, is_one_way) = match icmp.map(|head| IcmpEnds::new(key.protocol, head)) {
            Some(IcmpEnds { ends, is_one_way }) => (Some(ends), is_one_way),
            None => (ports, false),
        };
        let [from, to] = ports.unwrap_or_default();
        let is_ordered = (key.source, from) <= (key.destination, to);
        let (first, second, ports) = match is_ordered || is_one_way {
            true => (key.source, key.destination, ports),
            false => (key.destination, key.source, ports.map(|[from, to]| [to, from])),
        };
        let skip = if key.version == IpVersion::V4 { 12 } else { 0 };
        let (mut input, mut length) = ([0; INPUT_BYTES_MAX], 0);
        let mut put = |bytes: &[u8]| {
            input[length..length + bytes.len()].copy_from_slice(bytes);
            length += bytes.len();
        };
        put(&SEED);
        put(&first[skip..]);
        put(&second[skip..]);
        put(&[key.protocol, 0]);
        for port in ports.into_iter().flatten() {
            put(&port.to_be_bytes());
        }
        Self(sha1(&input[..length]))
    }
}

/// The values that replace the ports of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpEnds {
    /// For sender and receiver: type and the type of its reply, or type and code.
    pub ends: [u16; 2],
    /// Whether the message has no reply: then the other direction is a different conversation.
    pub is_one_way: bool,
}

impl IcmpEnds {
    /// Returns the ends of an ICMP (or else ICMPv6) message with this type and code.
    #[must_use]
    pub fn new(protocol: u8, [kind, code]: [u8; 2]) -> Self {
        let pairs = if protocol == protocol::ICMP { &ICMP_PAIRS[..] } else { &ICMPV6_PAIRS[..] };
        let answer = pairs.iter().find_map(|&[one, other]| match kind {
            kind if kind == one => Some(other),
            kind if kind == other => Some(one),
            _ => None,
        });
        Self { ends: [kind.into(), answer.unwrap_or(code).into()], is_one_way: answer.is_none() }
    }
}

impl CommunityId {
    /// Bytes of the text.
    pub const TEXT_BYTES: usize = 30;

    /// Returns the text: `1:`, 27 letters and `=`. Cost: some 20 ns.
    #[must_use]
    pub fn text(&self) -> [u8; Self::TEXT_BYTES] {
        let mut text = *b"1:...........................=";
        let mut bytes = [0; 21];
        bytes[..20].copy_from_slice(&self.0);
        let threes = bytes.as_chunks::<3>().0;
        for (letters, &[a, b, c]) in text[2..].as_chunks_mut::<4>().0.iter_mut().zip(threes) {
            let word = u32::from_be_bytes([0, a, b, c]);
            *letters = [18, 12, 6, 0].map(|shift| DIGITS[(word >> shift & 63) as usize]);
        }
        // The last letter would encode no byte.
        text[Self::TEXT_BYTES - 1] = b'=';
        text
    }
}

impl fmt::Display for CommunityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        // It is ASCII.
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl FromStr for CommunityId {
    type Err = CommunityIdError;

    fn from_str(text: &str) -> Result<Self, CommunityIdError> {
        let digits = text.strip_prefix("1:").and_then(|rest| rest.strip_suffix('='));
        let digits = digits.filter(|digits| digits.len() == 27).ok_or(CommunityIdError)?;
        // 27 digits are 162 bits: 20 bytes and two bits of zeros.
        let (mut bytes, mut bits, mut held) = (Vec::with_capacity(20), 0_u32, 0);
        for digit in digits.bytes() {
            let value = DIGITS.iter().position(|known| *known == digit).ok_or(CommunityIdError)?;
            (bits, held) = (bits << 6 | value as u32, held + 6);
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        let id = bytes.try_into().map(Self).map_err(|_| CommunityIdError)?;
        // Only one spelling of the same bytes is valid.
        if id.to_string() == text { Ok(id) } else { Err(CommunityIdError) }
    }
}

/// Computes SHA-1 of a message below 56 bytes: a block less its length.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut words = [0_u32; 80];
    let mut block = [0; 64];
    block[..message.len()].copy_from_slice(message);
    block[message.len()] = 0x80;
    block[56..].copy_from_slice(&(8 * message.len() as u64).to_be_bytes());
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..80 {
        let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words[at] = mixed.rotate_left(1);
    }
    let start = [0x6745_2301_u32, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let [mut a, mut b, mut c, mut d, mut e] = start;
    for (round, word) in words.into_iter().enumerate() {
        let (mixed, constant) = match round / 20 {
            0 => (b & c | !b & d, 0x5A82_7999_u32),
            1 => (b ^ c ^ d, 0x6ED9_EBA1),
            2 => (b & c | b & d | c & d, 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6),
        };
        let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
        let next = next.wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    let mut digest = [0; 20];
    for ((place, start), end) in
        digest.as_chunks_mut::<4>().0.iter_mut().zip(start).zip([a, b, c, d, e])
    {
        *place = start.wrapping_add(end).to_be_bytes();
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::Ports;

    fn key(ends: [&str; 2], protocol: u8, ports: Option<[u16; 2]>) -> FlowKey {
        let [source, destination] = ends.map(|end| end.parse::<std::net::Ipv4Addr>().unwrap());
        FlowKey {
            version: IpVersion::V4,
            protocol,
            source: source.to_ipv6_mapped().octets(),
            destination: destination.to_ipv6_mapped().octets(),
            ports: ports.map(|[source, destination]| Ports { source, destination }),
        }
    }

    /// The examples of the specification, `baseline_tcp.pcap`, `_udp`, `_icmp`, `_sctp`.
    #[test]
    fn the_specifications_examples() {
        let tcp = key(["128.232.110.120", "66.35.250.204"], 6, Some([34855, 80]));
        assert_eq!(CommunityId::of(&tcp, None).to_string(), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        let udp = key(["192.168.1.52", "8.8.8.8"], 17, Some([54585, 53]));
        assert_eq!(CommunityId::of(&udp, None).to_string(), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
        let icmp = key(["192.168.0.89", "192.168.0.1"], 1, None);
        let of = |key: &FlowKey, head| CommunityId::of(key, Some(head)).to_string();
        assert_eq!(of(&icmp, [8, 0]), "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=");
        assert_eq!(of(&icmp.reversed(), [0, 0]), of(&icmp, [8, 0]));
        assert_ne!(of(&icmp, [3, 1]), of(&icmp.reversed(), [3, 1]), "no answer: one way");
        assert_eq!(CommunityId::of(&tcp.reversed(), None), CommunityId::of(&tcp, None));
    }

    #[test]
    fn text_is_read_as_it_is_printed_and_nothing_else_is() {
        let text = "1:LQU9qZlK+B5F3KDmev6m5PMibrg=";
        assert_eq!(text.parse::<CommunityId>().unwrap().to_string(), text);
        for wrong in ["", "1:", "2:LQU9qZlK+B5F3KDmev6m5PMibrg=", "1:LQU9qZlK+B5F3KDmev6m5PMibrh="]
        {
            assert!(wrong.parse::<CommunityId>().is_err(), "{wrong}");
        }
    }

    /// RFC 3174, section 7.3, test 1.
    #[test]
    fn sha1_of_abc() {
        let digest = sha1(b"abc");
        assert_eq!(digest[..4], [0xA9, 0x99, 0x3E, 0x36]);
        assert_eq!(digest[16..], [0x9C, 0xD0, 0xD8, 0x9D]);
    }
}

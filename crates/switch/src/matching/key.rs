//! The fields that rules can match, as a row of words and a mask over them.
//!
//! ```text
//!  word  0                                1       2            3, 4     5, 6     7
//!        | end | vlan | type | protocol |  source  destination  IP from  IP to    ports
//! ```
//!
//! An IPv4 address is in the last four bytes of an IPv6 field; the other bytes are 0. A field that
//! a packet does not have is 0. Rules on ports also match the protocol, so that 0 is unambiguous.

use burstline_wire::headers::{self, LinkType, Network};

use crate::EndId;
use crate::frame::Frame;

/// Number of words in a key.
pub(crate) const WORDS: usize = 8;

/// The fields of one packet.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Key(pub(crate) [u64; WORDS]);

impl PartialEq for Key {
    /// Inlined, because a call would cost more than comparing 64 bytes.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |unlike, (own, other)| unlike | (own ^ other)) == 0
    }
}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|&word| state.write_u64(word));
    }
}

/// The bits of a key that a rule matches, and their values. Value bits outside the mask are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    pub(crate) value: Key,
    pub(crate) mask: Key,
}

impl Key {
    /// Returns the key known before parsing the headers: the receiving end and the VLAN.
    #[inline]
    pub(crate) fn of_place(end: EndId, frame: &Frame) -> Self {
        let mut key = Self::default();
        key.0[0] = u64::from(end.0) << 48 | u64::from(frame.vlan) << 32;
        key
    }

    /// Returns whether this mask has only bits that [`of_place`](Self::of_place) sets.
    pub(crate) fn is_of_place(&self) -> bool {
        self.0[0] as u32 == 0 && self.0[1..].iter().all(|&word| word == 0)
    }

    /// Returns the union of both masks.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut words = self.0;
        words.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
        Self(words)
    }

    /// Returns the fields of a frame received on an end.
    pub(crate) fn of(end: EndId, frame: &Frame, bytes: &[u8]) -> Self {
        let headers = headers::parse(LinkType::ETHERNET, bytes);
        let mut key = Self::of_place(end, frame);
        let words = &mut key.0;
        words[0] |= u64::from(headers.ether_type) << 16 | u64::from(headers.protocol);
        words[1] = word(&bytes[6..12]);
        words[2] = word(&bytes[..6]);
        let network = headers.network_offset as usize;
        // The invariants of `headers` guarantee a complete fixed header.
        match headers.network {
            Network::Ipv4 => {
                words[4] = word(&bytes[network + 12..network + 16]);
                words[6] = word(&bytes[network + 16..network + 20]);
            }
            Network::Ipv6 => {
                for (index, place) in words[3..7].iter_mut().enumerate() {
                    let at = network + 8 + index * 8;
                    *place = word(&bytes[at..at + 8]);
                }
            }
            Network::Llc | Network::None | Network::Other => {}
        }
        if let Some(ports) = headers.ports {
            words[7] = u64::from(ports.source) << 16 | u64::from(ports.destination);
        }
        key
    }

    /// Returns this key with the bits outside the mask cleared.
    #[inline]
    pub(crate) fn masked(&self, mask: &Self) -> Self {
        let mut words = self.0;
        words.iter_mut().zip(&mask.0).for_each(|(word, mask)| *word &= mask);
        Self(words)
    }
}

/// Converts at most 8 big-endian bytes to a word.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

impl Match {
    /// Returns whether a packet's fields match.
    #[inline]
    pub fn holds(&self, key: &Key) -> bool {
        key.masked(&self.mask) == self.value
    }

    fn set(&mut self, index: usize, shift: u32, value: u64, mask: u64) {
        self.mask.0[index] |= mask << shift;
        self.value.0[index] |= (value & mask) << shift;
    }

    /// Matches the receiving end.
    pub(crate) fn end(&mut self, end: EndId) {
        self.set(0, 48, end.0.into(), 0xffff);
    }

    pub(crate) fn vlan(&mut self, vlan: u16) {
        self.set(0, 32, vlan.into(), 0xffff);
    }

    pub(crate) fn ether_type(&mut self, ether_type: u16) {
        self.set(0, 16, ether_type.into(), 0xffff);
    }

    pub(crate) fn protocol(&mut self, protocol: u8) {
        self.set(0, 0, protocol.into(), 0xff);
    }

    /// Matches a MAC address: the source's if `is_source`, else the destination's.
    pub(crate) fn link(&mut self, is_source: bool, address: [u8; 6], mask: [u8; 6]) {
        self.set(if is_source { 1 } else { 2 }, 0, word(&address), word(&mask));
    }

    /// Matches an IP address of 4 or 16 bytes.
    pub(crate) fn ip(&mut self, is_source: bool, address: &[u8], mask: &[u8]) {
        let first = if is_source { 3 } else { 5 };
        let halves = |bytes: &[u8]| match bytes.len() {
            4 => [0, word(bytes)],
            _ => [word(&bytes[..8]), word(&bytes[8..])],
        };
        let (address, mask) = (halves(address), halves(mask));
        for half in 0..2 {
            self.set(first + half, 0, address[half], mask[half]);
        }
    }

    pub(crate) fn port(&mut self, is_source: bool, port: u16, mask: u16) {
        self.set(7, if is_source { 16 } else { 0 }, port.into(), mask.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_which_bits_count() {
        let mut bytes = vec![0; 14 + 20 + 8];
        bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14..24].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
        bytes[26..34].copy_from_slice(&[10, 1, 2, 3, 10, 9, 8, 7]);
        bytes[34..40].copy_from_slice(&[0x13, 0x88, 0, 53, 0, 8]);
        let key = Key::of(EndId(3), &Frame { vlan: 20, tag: None, has_inner: false }, &bytes);
        let holds = |change: &dyn Fn(&mut Match)| {
            let mut one = Match::default();
            change(&mut one);
            one.holds(&key)
        };
        assert!(holds(&|_| {}));
        assert!(holds(&|one| one.end(EndId(3))) && !holds(&|one| one.end(EndId(2))));
        assert!(holds(&|one| one.vlan(20)) && holds(&|one| one.ether_type(0x800)));
        assert!(holds(&|one| one.protocol(17)) && !holds(&|one| one.protocol(6)));
        assert!(holds(&|one| one.link(true, [2, 0, 0, 0, 0, 8], [255; 6])));
        assert!(holds(&|one| one.link(false, [2, 0, 0, 0, 0, 8], [255, 255, 0, 0, 0, 8])));
        assert!(holds(&|one| one.ip(true, &[10, 1, 9, 9], &[255, 255, 0, 0])));
        assert!(!holds(&|one| one.ip(false, &[10, 1, 9, 9], &[255, 255, 0, 0])));
        assert!(holds(&|one| one.port(true, 5000, 0xffff)));
        assert!(holds(&|one| one.port(false, 52, 0xfffe)));
    }
}

//! A single change to packets, and its text form.

use std::net::IpAddr;
use std::str::FromStr;

use crate::link_address;

/// The greatest VLAN id. Source: IEEE 802.1Q, 9.6.
const VLAN_MOST: u16 = 0xfff;

/// A single change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `src-mac=02:00:00:00:00:01`
    SourceMac([u8; 6]),
    /// `dst-mac=02:00:00:00:00:02`
    DestinationMac([u8; 6]),
    /// `vlan=7`, `vlan=strip`
    Vlan(VlanChange),
    /// `ip=10.0.0.0/8=172.16.0.0/8`, `src-ip=...`, `dst-ip=...`
    Addresses(AddressMap),
    /// `checksums`: recomputed for IPv4, TCP, UDP, ICMP and ICMPv6 in whole datagrams.
    Checksums,
}

/// Change of the outermost VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanChange {
    /// Sets this id, in `[0, 4095]`, and keeps the priority; an untagged packet gets a tag.
    Set(u16),
    /// Removes the tag, if there is one.
    Strip,
}

/// One of the two addresses of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
}

/// Maps addresses of one network to another: the first `length` bits are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressMap {
    /// `None` for both directions.
    direction: Option<Direction>,
    from: Vec<u8>,
    to: Vec<u8>,
    /// Bits of the network prefix, at most those of an address.
    length: u32,
}

/// Why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Unknown rule.
    #[error(
        "'{0}': expected src-mac=MAC, dst-mac=MAC, vlan=ID, vlan=strip, checksums, or ip=, \
         src-ip= or dst-ip= with OLD/BITS=NEW/BITS"
    )]
    Unknown(String),
    /// Not six bytes.
    #[error("'{0}' is not a link address such as 02:00:00:00:00:01")]
    Mac(String),
    /// Neither an id nor the word `strip`.
    #[error("'{0}' is neither a VLAN id from 0 to 4095 nor strip")]
    Vlan(String),
    /// Not a pair of networks.
    #[error(
        "'{0}' is not OLD/BITS=NEW/BITS with two networks of one kind and size, e.g. \
         10.0.0.0/8=172.0.0.0/8"
    )]
    Network(String),
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let addresses = |direction| AddressMap::parse(direction, value).map(Rule::Addresses);
        match key {
            "src-mac" => mac(value).map(Rule::SourceMac),
            "dst-mac" => mac(value).map(Rule::DestinationMac),
            "vlan" if value == "strip" => Ok(Rule::Vlan(VlanChange::Strip)),
            "vlan" => match value.parse() {
                Ok(id) if id <= VLAN_MOST => Ok(Rule::Vlan(VlanChange::Set(id))),
                _ => Err(RuleError::Vlan(value.to_owned())),
            },
            "ip" => addresses(None),
            "src-ip" => addresses(Some(Direction::Source)),
            "dst-ip" => addresses(Some(Direction::Destination)),
            "checksums" if value.is_empty() => Ok(Rule::Checksums),
            _ => Err(RuleError::Unknown(text.to_owned())),
        }
    }
}

impl AddressMap {
    /// Parses `OLD/BITS=NEW/BITS` for addresses of `direction`, or of both.
    fn parse(direction: Option<Direction>, text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Network(text.to_owned());
        let (from, to) = text.split_once('=').ok_or_else(wrong)?;
        let ((from, from_bits), (to, to_bits)) =
            network(from).zip(network(to)).ok_or_else(wrong)?;
        if from.len() != to.len() || from_bits != to_bits {
            return Err(wrong());
        }
        Ok(Self { direction, from, to, length: from_bits })
    }

    /// Replaces the network part of `address`, of 4 or 16 bytes, if it is in the old network and
    /// the rule has this direction. Returns whether it is.
    pub(super) fn apply(&self, direction: Direction, address: &mut [u8]) -> bool {
        let is_of = self.direction.is_none_or(|wanted| wanted == direction);
        if !is_of || address.len() != self.from.len() {
            return false;
        }
        let mask_at = |at: usize| mask(self.length.saturating_sub(at as u32 * 8));
        let differs = |at: usize| (address[at] ^ self.from[at]) & mask_at(at) != 0;
        if (0..address.len()).any(differs) {
            return false;
        }
        for (at, byte) in address.iter_mut().enumerate() {
            *byte = *byte & !mask_at(at) | self.to[at] & mask_at(at);
        }
        true
    }
}

/// Returns a mask of the first `bits` bits of a byte, or of all if there are more.
fn mask(bits: u32) -> u8 {
    !(0xff_u8.checked_shr(bits).unwrap_or(0))
}

/// Parses `ADDRESS/BITS`; without bits, a single address.
fn network(text: &str) -> Option<(Vec<u8>, u32)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address = match address.parse().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let most = address.len() as u32 * 8;
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

fn mac(text: &str) -> Result<[u8; 6], RuleError> {
    link_address::parse(text).ok_or_else(|| RuleError::Mac(text.to_owned()))
}

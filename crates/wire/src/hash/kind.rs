//! The kinds of hash: their names, numbers and inputs.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The input of a packet's hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashKind {
    /// Nothing: every hash is 0.
    #[default]
    None,
    /// Toeplitz with [`MICROSOFT_KEY`](super::MICROSOFT_KEY): IPv4 and IPv6, with ports for TCP and
    /// UDP only. 0 for all others.
    Rss,
    /// Addresses, ports and protocol, the same for both directions.
    FiveTuple,
    /// Like `FiveTuple`, of the innermost packet: see [`tunnel`](crate::tunnel).
    Inner,
    /// The two IP addresses, the same for both directions.
    Ip,
    /// The ids of all VLAN tags; untagged packets form one VLAN.
    Vlan,
    /// Like `Rss` with [`SYMMETRIC_KEY`](super::SYMMETRIC_KEY): the same for both directions.
    RssSymmetric,
    /// One byte of the packet; 0 if the packet is shorter.
    Byte(BytePosition),
}

/// Position of a byte in a packet, counted from 1, in `[1, 32_767]`: byte 30 ends an IPv4 source
/// address after an untagged Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BytePosition(u16);

impl BytePosition {
    /// The last position that has a number.
    pub const MAX: u16 = BYTE - 1;

    /// Returns the position `number`, in `[1, MAX]`.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (1..=Self::MAX).contains(&number).then_some(Self(number))
    }

    /// Returns the number of bytes before it.
    #[must_use]
    pub fn offset(self) -> usize {
        usize::from(self.0) - 1
    }
}

/// Numbers from here on are [`HashKind::Byte`], with the position in the other bits.
const BYTE: u16 = 0x8000;

/// A kind without a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedHash {
    /// The kind.
    pub kind: HashKind,
    /// Its name, as on the command line.
    pub name: &'static str,
    /// Its input.
    pub made_from: &'static str,
}

const fn named(kind: HashKind, name: &'static str, made_from: &'static str) -> NamedHash {
    NamedHash { kind, name, made_from }
}

impl HashKind {
    /// Every kind without a parameter.
    pub const NAMED: [NamedHash; 7] = [
        named(Self::None, "none", "no hash"),
        named(Self::FiveTuple, "five-tuple", "addresses, ports and protocol"),
        named(Self::Ip, "ip", "addresses"),
        named(Self::Inner, "inner", "five-tuple of the innermost packet in tunnels"),
        named(Self::Vlan, "vlan", "VLAN numbers"),
        named(Self::Rss, "rss", "like a NIC, with Microsoft's key: directions differ"),
        named(Self::RssSymmetric, "rss:symmetric", "like a NIC, with a symmetric key"),
    ];

    /// The kind that has a position: its name and its input.
    pub const BYTE: (&'static str, &'static str) =
        ("byte:N", "the packet's N-th byte, counted from 1");

    /// Returns the number that logs and files store. Numbers are stable.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Rss => 1,
            Self::FiveTuple => 2,
            Self::Inner => 3,
            Self::Ip => 4,
            Self::Vlan => 5,
            Self::RssSymmetric => 6,
            Self::Byte(BytePosition(number)) => BYTE | number,
        }
    }

    /// Returns the kind with this number, if there is one.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        let named =
            Self::NAMED.map(|named| named.kind).into_iter().find(|kind| kind.code() == code);
        named.or_else(|| BytePosition::new(code.checked_sub(BYTE)?).map(Self::Byte))
    }

    /// Returns whether both directions of a flow have the same hash.
    #[must_use]
    pub fn is_symmetric(self) -> bool {
        !matches!(self, Self::Rss | Self::Byte(_))
    }
}

/// Prints the name, as on the command line and in JSON.
impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|named| named.kind == *self) {
            Some(named) => f.pad(named.name),
            None => write!(f, "byte:{}", self.code() - BYTE),
        }
    }
}

/// The error for a text that is not the name of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is not one of {}", names())]
pub struct HashKindError {
    /// The text.
    pub text: String,
}

fn names() -> String {
    let named = HashKind::NAMED.map(|named| named.name).join(", ");
    format!("{named}, {} with N from 1 to {}", HashKind::BYTE.0, BytePosition::MAX)
}

impl FromStr for HashKind {
    type Err = HashKindError;

    fn from_str(text: &str) -> Result<Self, HashKindError> {
        if let Some(named) = Self::NAMED.iter().find(|named| named.name == text) {
            return Ok(named.kind);
        }
        // The former name of `five-tuple`.
        if text == "symmetric" {
            return Ok(Self::FiveTuple);
        }
        let position = || {
            let digits = text.strip_prefix("byte:")?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok().filter(|_| is_number)?;
            BytePosition::new(number).map(Self::Byte)
        };
        position().ok_or_else(|| HashKindError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        let byte = |number| BytePosition::new(number).map(HashKind::Byte).unwrap();
        let named = HashKind::NAMED.map(|named| named.kind);
        for kind in named.into_iter().chain([byte(1), byte(30), byte(BytePosition::MAX)]) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(HashKind::from_code(kind.code()), Some(kind));
        }
        let codes = named.map(|kind| kind.code());
        assert_eq!(codes, [0, 2, 4, 3, 5, 1, 6], "files that were written have these");
        assert_eq!((byte(30).to_string().as_str(), byte(30).code()), ("byte:30", 0x801e));
        assert_eq!([7, 0x7fff, 0x8000].map(HashKind::from_code), [None; 3]);
    }

    #[test]
    fn other_texts_are_told_what_there_is() {
        for wrong in ["", "md5", "RSS", "byte", "byte:", "byte:0", "byte:32768", "byte:+3", "rss:"]
        {
            let error = wrong.parse::<HashKind>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("five-tuple, ip, inner"), "{error}");
            assert!(error.contains("byte:N") && error.contains("32767"), "{error}");
        }
    }
}

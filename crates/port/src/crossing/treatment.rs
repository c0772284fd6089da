//! Processing of packets between two ports.

use burstline_wire::headers::{self, LinkType, Network};

use crate::Loss;
use crate::live::SHORTEST;

/// Which bytes of each packet are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Touch {
    /// None: as `testpmd --forward-mode=io`.
    #[default]
    None,
    /// Its headers, up to the transport's.
    Headers,
    /// All bytes.
    Payload,
}

impl Touch {
    /// The name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Headers => "headers",
            Self::Payload => "payload",
        }
    }
}

/// What happens to the link addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rewrite {
    /// They stay unchanged.
    #[default]
    None,
    /// They are swapped: as `testpmd --forward-mode=macswap`.
    Swap,
    /// They are replaced: as `testpmd --forward-mode=mac`.
    Set {
        /// Six bytes, in wire order.
        source: [u8; 6],
        /// As above.
        destination: [u8; 6],
    },
}

/// The results of reading packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Packets read.
    pub packets: u64,
    /// Those with an IP header.
    pub ip: u64,
    /// The sum of all their bytes, modulo 2^64.
    pub sum: u64,
}

impl Touched {
    /// Adds the results of another.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            ip: self.ip + other.ip,
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

/// How to process each packet, and the results so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Treatment {
    /// Which bytes are read.
    pub touch: Touch,
    /// Which bytes are written.
    pub rewrite: Rewrite,
    /// The results of reading.
    pub found: Touched,
}

impl Treatment {
    /// Whether packets are neither read nor written.
    #[cfg(feature = "dpdk")]
    pub(crate) fn does_nothing(&self) -> bool {
        self.touch == Touch::None && self.writes_nothing()
    }

    /// Whether packets are left unchanged.
    pub fn writes_nothing(&self) -> bool {
        self.rewrite == Rewrite::None
    }

    /// Reads and writes a packet as requested. Free if nothing is requested.
    ///
    /// # Errors
    /// [`Loss::TooShort`] if it has no link addresses.
    #[inline]
    pub fn apply(&mut self, packet: &mut [u8]) -> Result<(), Loss> {
        self.read(packet);
        let (source, destination) = match self.rewrite {
            Rewrite::None => return Ok(()),
            Rewrite::Swap if packet.len() >= SHORTEST => {
                let (first, second) = packet.split_at_mut(6);
                first.swap_with_slice(&mut second[..6]);
                return Ok(());
            }
            Rewrite::Set { source, destination } if packet.len() >= SHORTEST => {
                (source, destination)
            }
            _ => return Err(Loss::TooShort),
        };
        packet[..6].copy_from_slice(&destination);
        packet[6..12].copy_from_slice(&source);
        Ok(())
    }

    /// Reads a packet as requested.
    #[inline]
    pub fn read(&mut self, packet: &[u8]) {
        match self.touch {
            Touch::None => return,
            Touch::Headers => {
                let headers = headers::parse(LinkType::ETHERNET, packet);
                let is_ip = matches!(headers.network, Network::Ipv4 | Network::Ipv6);
                self.found.ip += u64::from(is_ip);
            }
            Touch::Payload => {
                self.found.sum = self.found.sum.wrapping_add(sum(packet));
            }
        }
        self.found.packets += 1;
    }
}

/// Returns the sum of all bytes, in words of eight while possible.
fn sum(packet: &[u8]) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    // Lanes without carries between them let the compiler process many bytes at a time.
    packet.chunks(256).map(sum).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_swapped_or_set_and_the_rest_stays() {
        let packet: Vec<u8> = (0..60).collect();
        let mut swapped = packet.clone();
        let mut swap = Treatment { rewrite: Rewrite::Swap, ..Treatment::default() };
        swap.apply(&mut swapped).unwrap();
        assert_eq!(swapped[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(swapped[12..], packet[12..]);
        let rewrite = Rewrite::Set { source: [0xaa; 6], destination: [0xbb; 6] };
        let mut set = packet.clone();
        Treatment { rewrite, ..Treatment::default() }.apply(&mut set).unwrap();
        assert_eq!((&set[..6], &set[6..12]), (&[0xbb; 6][..], &[0xaa; 6][..]));
        assert_eq!(set[12..], packet[12..]);
        for rewrite in [rewrite, Rewrite::Swap] {
            let mut short = [1; SHORTEST - 1];
            let mut treatment = Treatment { rewrite, ..Treatment::default() };
            assert_eq!(treatment.apply(&mut short), Err(Loss::TooShort));
            assert_eq!(short, [1; SHORTEST - 1]);
        }
    }

    #[test]
    fn all_that_is_asked_for_is_read() {
        let mut packet: Vec<u8> = vec![255; 1514];
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        let bytes: u64 = packet.iter().map(|&byte| u64::from(byte)).sum();
        let found = |touch| {
            let mut treatment = Treatment { touch, ..Treatment::default() };
            treatment.apply(&mut packet.clone()).unwrap();
            treatment.found
        };
        assert_eq!(found(Touch::None), Touched::default());
        assert_eq!(found(Touch::Payload), Touched { packets: 1, ip: 0, sum: bytes });
        let headers = found(Touch::Headers);
        assert_eq!((headers.packets, headers.sum), (1, 0));
    }
}

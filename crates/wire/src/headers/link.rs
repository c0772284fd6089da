//! Link headers, VLAN tags, and LLC.

use super::walk::Walk;
use super::{LinkType, Network, Outcome, VlanTag, ether_type};

/// VLAN tags that are followed in one packet. Real stacks have one or two.
pub const TAGS_MAX: usize = 8;

impl Walk<'_> {
    /// Reads the link header with its tags; leaves the walk at the network header.
    #[inline(always)]
    pub(super) fn link(&mut self, link: LinkType) -> Result<(), Outcome> {
        match link {
            LinkType::ETHERNET => {
                let [.., high, low] = self.take::<14>(Outcome::TruncatedLink)?;
                self.tags(u16::from_be_bytes([high, low]))?;
                if self.headers.ether_type <= ether_type::LENGTH_MAX { self.llc() } else { Ok(()) }
            }
            LinkType::LINUX_SLL => {
                let [.., high, low] = self.take::<16>(Outcome::TruncatedLink)?;
                self.tags(u16::from_be_bytes([high, low]))
            }
            LinkType::LINUX_SLL2 => {
                let [high, low, ..] = self.take::<20>(Outcome::TruncatedLink)?;
                self.tags(u16::from_be_bytes([high, low]))
            }
            LinkType::NULL | LinkType::LOOP => self.address_family(),
            LinkType::RAW => self.version_nibble(),
            LinkType::IPV4 => {
                self.headers.ether_type = ether_type::IPV4;
                Ok(())
            }
            LinkType::IPV6 => {
                self.headers.ether_type = ether_type::IPV6;
                Ok(())
            }
            LinkType(_) => Err(Outcome::UnknownLink),
        }
    }

    /// Follows VLAN tags from the EtherType `first` to the first one that is not a tag.
    fn tags(&mut self, first: u16) -> Result<(), Outcome> {
        self.headers.ether_type = first;
        while is_tag(self.headers.ether_type) {
            let index = usize::from(self.headers.tag_count);
            if index == TAGS_MAX {
                return Err(Outcome::TooManyTags);
            }
            let [tag_high, tag_low, high, low] = self.take(Outcome::TruncatedLink)?;
            self.headers.tags[index] = VlanTag(u16::from_be_bytes([tag_high, tag_low]));
            self.headers.tag_count += 1;
            self.headers.ether_type = u16::from_be_bytes([high, low]);
        }
        Ok(())
    }

    /// Reads the LLC header of an 802.3 frame, whose type field is a length.
    ///
    /// SNAP with organisation code 0 carries an EtherType (RFC 1042). Everything else is
    /// `Network::Llc`; the walk stops after the three bytes of LLC or the eight of SNAP.
    fn llc(&mut self) -> Result<(), Outcome> {
        let length = std::mem::take(&mut self.headers.ether_type);
        self.cut(usize::from(length));
        let llc = self.take(Outcome::TruncatedLink)?;
        if llc == [0xaa, 0xaa, 0x03] {
            let [organisation @ .., high, low] = self.take::<5>(Outcome::TruncatedLink)?;
            if organisation == [0, 0, 0] {
                self.headers.ether_type = u16::from_be_bytes([high, low]);
                return Ok(());
            }
        }
        self.headers.network = Network::Llc;
        Err(Outcome::UnknownNetwork)
    }

    /// Reads the address family of a loopback header. IPv6 has a different number on each system:
    /// 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on Darwin.
    fn address_family(&mut self) -> Result<(), Outcome> {
        let family = self.take(Outcome::TruncatedLink)?;
        // Families are small, so the smaller value is the one in the writer's byte order.
        self.headers.ether_type = match u32::from_le_bytes(family).min(u32::from_be_bytes(family)) {
            2 => ether_type::IPV4,
            10 | 24 | 28 | 30 => ether_type::IPV6,
            _ => 0,
        };
        Ok(())
    }

    fn version_nibble(&mut self) -> Result<(), Outcome> {
        let [first] = self.peek(Outcome::TruncatedNetwork)?;
        self.headers.ether_type = match first >> 4 {
            4 => ether_type::IPV4,
            6 => ether_type::IPV6,
            _ => return Err(Outcome::MalformedNetwork),
        };
        Ok(())
    }
}

fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::OLD_STACKED_VLAN)
}

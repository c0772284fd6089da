//! Rewrites the addresses of captured packets before they are sent somewhere else.
//!
//! ```text
//! | destination | source | tag | type | IP: source, destination | TCP, UDP: checksum | ...
//!   dst-mac=      src-mac=  vlan=          src-ip=  dst-ip=  ip=   updated, or checksums: renewed
//! ```
//!
//! Checksums that cover an address are updated by the difference alone. So a wrong one stays wrong,
//! and truncated bytes are not needed. A capture on the sending host may have checksums that only
//! its NIC would fill in; [`Rule::Checksums`] recomputes all of them.
//!
//! Only the outermost IP header is changed: not the payload of a tunnel, not ARP, not the packet
//! that an ICMP error quotes. With an IPv6 routing header the final address is not searched.
//!
//! Invariant R1: bytes that no rule names keep their value and their order.

mod rule;

#[cfg(test)]
mod tests;

pub use rule::{AddressMap, Direction, Rule, RuleError, VlanChange};

use crate::checksum::{renew, update_network, update_transport};
use crate::headers::{Headers, LinkType, Network, ether_type, parse};

/// Bytes of the two link addresses.
const ADDRESSES: usize = 12;
/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// The fields to change. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    source: Option<[u8; 6]>,
    destination: Option<[u8; 6]>,
    vlan: Option<VlanChange>,
    maps: Vec<AddressMap>,
    is_renewing: bool,
}

impl Rewrite {
    /// Combines `rules`. The last rule about a field wins, and of address maps the first one that
    /// contains an address.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut this = Self::default();
        for rule in rules {
            match rule {
                Rule::SourceMac(address) => this.source = Some(address),
                Rule::DestinationMac(address) => this.destination = Some(address),
                Rule::Vlan(change) => this.vlan = Some(change),
                Rule::Addresses(map) => this.maps.push(map),
                Rule::Checksums => this.is_renewing = true,
            }
        }
        this
    }

    /// Appends the rewritten `packet` to `out`.
    ///
    /// Cost: a copy; a parse if IP is involved; a pass over the bytes if checksums are recomputed.
    pub fn append(&self, link: LinkType, packet: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let is_ethernet = link == LinkType::ETHERNET && packet.len() >= ADDRESSES + 2;
        if is_ethernet {
            self.append_link(packet, out);
        } else {
            out.extend_from_slice(packet);
        }
        if self.maps.is_empty() && !self.is_renewing {
            return;
        }
        let packet = &mut out[start..];
        let headers = parse(link, packet);
        self.map_addresses(&headers, packet);
        if self.is_renewing {
            renew(&headers, packet);
        }
    }

    /// Appends a frame with a rewritten link header.
    fn append_link(&self, packet: &[u8], out: &mut Vec<u8>) {
        let (addresses, rest) = packet.split_at(ADDRESSES);
        let (destination, source) = addresses.split_at(6);
        out.extend_from_slice(self.destination.as_ref().map_or(destination, |address| address));
        out.extend_from_slice(self.source.as_ref().map_or(source, |address| address));
        let kind = u16::from_be_bytes([rest[0], rest[1]]);
        let is_tag = [ether_type::VLAN, ether_type::SERVICE_VLAN, ether_type::OLD_STACKED_VLAN]
            .contains(&kind);
        let is_tagged = is_tag && rest.len() >= TAG;
        match self.vlan {
            Some(VlanChange::Strip) if is_tagged => out.extend_from_slice(&rest[TAG..]),
            Some(VlanChange::Set(id)) if is_tagged => {
                let control = u16::from_be_bytes([rest[2], rest[3]]) & 0xf000 | id;
                out.extend_from_slice(&rest[..2]);
                out.extend_from_slice(&control.to_be_bytes());
                out.extend_from_slice(&rest[TAG..]);
            }
            Some(VlanChange::Set(id)) => {
                out.extend_from_slice(&ether_type::VLAN.to_be_bytes());
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(rest);
            }
            Some(VlanChange::Strip) | None => out.extend_from_slice(rest),
        }
    }

    fn map_addresses(&self, headers: &Headers, packet: &mut [u8]) {
        let network = headers.network_offset as usize;
        let (first, length) = match headers.network {
            Network::Ipv4 => (network + 12, 4),
            Network::Ipv6 => (network + 8, 16),
            Network::Llc | Network::None | Network::Other => return,
        };
        for (at, direction) in
            [(first, Direction::Source), (first + length, Direction::Destination)]
        {
            // By I2 of `headers` the fixed header is present.
            let mut old = [0; 16];
            old[..length].copy_from_slice(&packet[at..at + length]);
            let old = &old[..length];
            let mut new = [0; 16];
            let new = &mut new[..length];
            new.copy_from_slice(old);
            if !self.maps.iter().any(|map| map.apply(direction, new)) {
                continue;
            }
            packet[at..at + length].copy_from_slice(new);
            update_network(headers, packet, old, new);
            update_transport(headers, packet, old, new);
        }
    }
}

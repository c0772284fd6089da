//! Edits packets: changes the VLAN tag, and sets fields for a rule.

use burstline_wire::checksum;
use burstline_wire::headers::{self, LinkType, Network};

use crate::frame::{HEADER, TAG, TAG_TYPE};

/// The change of a frame's tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagChange {
    /// Leaves the frame unchanged.
    #[default]
    Keep,
    /// Removes the tag.
    Strip,
    /// Sets the tag's number and priority, and inserts a tag if there is none.
    Put(u16),
}

/// Fields that a rule sets. Checksums are updated incrementally, so a wrong one stays wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFields {
    /// The source MAC address.
    pub source: Option<[u8; 6]>,
    /// The destination MAC address.
    pub destination: Option<[u8; 6]>,
    /// The VLAN in which the frame is forwarded.
    pub vlan: Option<u16>,
    /// The source IPv4 address.
    pub ip_source: Option<[u8; 4]>,
    /// The destination IPv4 address.
    pub ip_destination: Option<[u8; 4]>,
    /// The source port of TCP, UDP or SCTP.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
}

impl SetFields {
    /// Returns whether bytes of a packet change, apart from its tag.
    pub fn changes_bytes(&self) -> bool {
        Self { vlan: None, ..*self } != Self::default()
    }

    /// Sets the fields of a frame. Fields that the frame does not have are skipped.
    pub fn apply(&self, packet: &mut [u8]) {
        if packet.len() < HEADER {
            return;
        }
        if let Some(address) = self.destination {
            packet[..6].copy_from_slice(&address);
        }
        if let Some(address) = self.source {
            packet[6..12].copy_from_slice(&address);
        }
        let changes_ip = self.ip_source.is_some() || self.ip_destination.is_some();
        let changes_ports = self.source_port.is_some() || self.destination_port.is_some();
        if !changes_ip && !changes_ports {
            return;
        }
        let headers = headers::parse(LinkType::ETHERNET, packet);
        if headers.network == Network::Ipv4 {
            let at = headers.network_offset as usize + 12;
            for (at, address) in [(at, self.ip_source), (at + 4, self.ip_destination)] {
                let Some(new) = address else { continue };
                // The invariants of `headers` guarantee a complete fixed header.
                let old = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
                packet[at..at + 4].copy_from_slice(&new);
                checksum::update_network(&headers, packet, &old, &new);
                checksum::update_transport(&headers, packet, &old, &new);
            }
        }
        if headers.ports.is_some() {
            let at = headers.transport_offset as usize;
            for (at, port) in [(at, self.source_port), (at + 2, self.destination_port)] {
                let Some(port) = port else { continue };
                let (old, new) = ([packet[at], packet[at + 1]], port.to_be_bytes());
                packet[at..at + 2].copy_from_slice(&new);
                checksum::update_transport(&headers, packet, &old, &new);
            }
        }
    }
}

/// Appends a frame with its new tag to `out`. The frame must have a full Ethernet header.
pub(crate) fn append(packet: &[u8], tag: TagChange, out: &mut Vec<u8>) {
    let is_tagged = packet.len() >= HEADER + TAG && packet[12..14] == TAG_TYPE;
    let behind = if is_tagged { &packet[12 + TAG..] } else { &packet[12..] };
    match tag {
        TagChange::Keep => out.extend_from_slice(packet),
        TagChange::Strip => {
            out.extend_from_slice(&packet[..12]);
            out.extend_from_slice(behind);
        }
        TagChange::Put(control) => {
            out.extend_from_slice(&packet[..12]);
            out.extend_from_slice(&TAG_TYPE);
            out.extend_from_slice(&control.to_be_bytes());
            out.extend_from_slice(behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use burstline_wire::headers::protocol;

    use super::*;

    fn with(tag: TagChange, packet: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append(packet, tag, &mut out);
        out
    }

    #[test]
    fn tags_are_put_in_changed_and_taken_out() {
        let plain: Vec<u8> = (0..12).chain([8, 0, 1, 2, 3]).collect();
        let tagged = with(TagChange::Put(0x600a), &plain);
        assert_eq!(tagged[12..18], [0x81, 0, 0x60, 0x0a, 8, 0]);
        assert_eq!(with(TagChange::Strip, &tagged), plain);
        assert_eq!(with(TagChange::Keep, &tagged), tagged);
        assert_eq!(with(TagChange::Put(7), &tagged), with(TagChange::Put(7), &plain));
        assert_eq!(with(TagChange::Strip, &plain), plain);
    }

    /// Builds a UDP over IPv4 frame with checksums.
    fn datagram() -> Vec<u8> {
        let mut packet = vec![2; 14 + 20 + 8 + 5];
        packet[12..14].copy_from_slice(&[8, 0]);
        packet[14..24].copy_from_slice(&[0x45, 0, 0, 33, 0, 0, 0, 0, 64, protocol::UDP]);
        packet[38..40].copy_from_slice(&13_u16.to_be_bytes());
        let headers = headers::parse(LinkType::ETHERNET, &packet);
        checksum::renew(&headers, &mut packet);
        packet
    }

    #[test]
    fn what_is_set_keeps_the_checksums_right() {
        let set = SetFields {
            source: Some([6; 6]),
            destination: Some([7; 6]),
            ip_source: Some([10, 0, 0, 1]),
            ip_destination: Some([192, 168, 1, 2]),
            source_port: Some(5000),
            destination_port: Some(53),
            vlan: None,
        };
        let mut packet = datagram();
        set.apply(&mut packet);
        assert_eq!((&packet[..6], &packet[6..12]), (&[7; 6][..], &[6; 6][..]));
        assert_eq!(packet[26..34], [10, 0, 0, 1, 192, 168, 1, 2]);
        assert_eq!(packet[34..38], [0x13, 0x88, 0, 53]);
        let headers = headers::parse(LinkType::ETHERNET, &packet);
        assert_eq!(checksum::holds(&headers, &packet), Some(true));
        // Missing fields are skipped without a panic.
        for length in 0..packet.len() {
            set.apply(&mut datagram()[..length]);
        }
    }
}

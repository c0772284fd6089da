//! IPv4 with options, IPv6 with extension headers, fragments of both.

use super::walk::Walk;
use super::{Fragment, Network, Outcome, ether_type, protocol};

/// IPv6 extension headers that are followed in one packet. RFC 8200 section 4.1 recommends an order
/// with at most seven; each takes up to 2,048 bytes.
pub const EXTENSIONS_MAX: usize = 8;

impl Walk<'_> {
    /// Reads the network header of type `ether_type`; leaves the walk after it.
    #[inline(always)]
    pub(super) fn network(&mut self) -> Result<(), Outcome> {
        match self.headers.ether_type {
            ether_type::IPV4 => self.ipv4(),
            ether_type::IPV6 => self.ipv6(),
            _ => {
                self.headers.network = Network::Other;
                Err(Outcome::UnknownNetwork)
            }
        }
    }

    /// Source: RFC 791 section 3.1.
    #[inline(always)]
    fn ipv4(&mut self) -> Result<(), Outcome> {
        let header: [u8; 20] = self.peek(Outcome::TruncatedNetwork)?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // The sending host leaves a total length of 0 in a packet that its NIC will segment.
        let total_is_sane = total_len == 0 || total_len >= header_len;
        if header[0] >> 4 != 4 || header_len < 20 || !total_is_sane {
            return Err(Outcome::MalformedNetwork);
        }
        if total_len != 0 {
            self.cut(total_len);
        }
        self.headers.network = Network::Ipv4;
        self.headers.protocol = header[9];

        let flags_and_offset = u16::from_be_bytes([header[6], header[7]]);
        let fragment = Fragment {
            id: u32::from(u16::from_be_bytes([header[4], header[5]])),
            offset_bytes: (flags_and_offset & 0x1fff) * 8,
            more: flags_and_offset & 0x2000 != 0,
        };
        if fragment.more || fragment.offset_bytes != 0 {
            self.headers.fragment = Some(fragment);
        }
        self.skip(header_len, Outcome::TruncatedNetwork)?;
        self.enter_transport();
        Ok(())
    }

    /// Source: RFC 8200 section 3.
    fn ipv6(&mut self) -> Result<(), Outcome> {
        let header: [u8; 40] = self.peek(Outcome::TruncatedNetwork)?;
        if header[0] >> 4 != 6 {
            return Err(Outcome::MalformedNetwork);
        }
        // A payload length of 0 is a jumbogram (RFC 2675) or a packet that a NIC will segment.
        let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if payload_len != 0 {
            self.cut(header.len() + payload_len);
        }
        self.headers.network = Network::Ipv6;
        self.headers.protocol = header[6];
        self.skip(header.len(), Outcome::TruncatedNetwork)?;
        self.enter_transport();
        self.extensions()
    }

    /// Follows extension headers until `headers.protocol` is not one, or until the first fragment
    /// header of a later fragment, after which there is only data.
    fn extensions(&mut self) -> Result<(), Outcome> {
        for _ in 0..EXTENSIONS_MAX {
            if !is_extension(self.headers.protocol) {
                return Ok(());
            }
            let header: [u8; 8] = self.peek(Outcome::TruncatedNetwork)?;
            let length = usize::from(header[1]);
            match self.headers.protocol {
                protocol::FRAGMENT => {
                    self.fragment_header(header)?;
                    self.skip(8, Outcome::TruncatedNetwork)?;
                }
                // Counted in 4-byte units minus 2. Source: RFC 4302 section 2.2.
                protocol::AUTHENTICATION => {
                    self.skip((length + 2) * 4, Outcome::TruncatedNetwork)?;
                }
                // Counted in 8-byte units, without the first. Source: RFC 8200 section 4.3.
                _ => self.skip((length + 1) * 8, Outcome::TruncatedNetwork)?,
            }
            self.headers.protocol = header[0];
            self.enter_transport();
            if self.headers.is_later_fragment() {
                return Ok(());
            }
        }
        if is_extension(self.headers.protocol) { Err(Outcome::TooManyExtensions) } else { Ok(()) }
    }

    /// Source: RFC 8200 section 4.5.
    fn fragment_header(&mut self, header: [u8; 8]) -> Result<(), Outcome> {
        if self.headers.fragment.is_some() {
            return Err(Outcome::MalformedNetwork);
        }
        let offset_and_flags = u16::from_be_bytes([header[2], header[3]]);
        let fragment = Fragment {
            id: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            // The upper 13 bits count 8-byte units, so the masked field counts bytes.
            offset_bytes: offset_and_flags & 0xfff8,
            more: offset_and_flags & 1 != 0,
        };
        if fragment.more || fragment.offset_bytes != 0 {
            self.headers.fragment = Some(fragment);
        }
        Ok(())
    }
}

fn is_extension(number: u8) -> bool {
    matches!(
        number,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
    )
}

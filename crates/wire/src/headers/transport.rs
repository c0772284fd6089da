//! TCP, UDP, SCTP, ICMP and ICMPv6: ports and header length.

use super::walk::Walk;
use super::{Outcome, Ports, protocol};

/// Bytes of a UDP header. Source: RFC 768.
pub(super) const UDP_HEADER_BYTES: usize = 8;
/// Bytes of a TCP header without options. Source: RFC 9293 section 3.1.
pub(super) const TCP_HEADER_BYTES_MIN: usize = 20;
/// Bytes of the SCTP common header. Source: RFC 9260 section 3.1.
const SCTP_HEADER_BYTES: usize = 12;
/// Bytes of an ICMP header, with the four that each type uses in its own way. Source: RFC 792.
const ICMP_HEADER_BYTES: usize = 8;
/// Bytes of an ICMPv6 header: type, code, checksum. Source: RFC 4443 section 2.1.
const ICMPV6_HEADER_BYTES: usize = 4;

impl Walk<'_> {
    /// Reads the transport header; leaves the walk at the payload.
    #[inline(always)]
    pub(super) fn transport(&mut self) -> Result<(), Outcome> {
        if self.headers.is_later_fragment() {
            return Err(Outcome::LaterFragment);
        }
        let header_len = match self.headers.protocol {
            protocol::TCP => self.tcp()?,
            protocol::UDP => self.udp()?,
            protocol::SCTP => {
                self.ports()?;
                SCTP_HEADER_BYTES
            }
            protocol::ICMP => ICMP_HEADER_BYTES,
            protocol::ICMPV6 => ICMPV6_HEADER_BYTES,
            _ => return Err(Outcome::UnknownTransport),
        };
        self.skip(header_len, Outcome::TruncatedTransport)?;
        self.enter_payload();
        Ok(())
    }

    #[inline(always)]
    fn tcp(&mut self) -> Result<usize, Outcome> {
        self.ports()?;
        let header: [u8; TCP_HEADER_BYTES_MIN] = self.peek(Outcome::TruncatedTransport)?;
        tcp_header_len(header[12]).ok_or(Outcome::MalformedTransport)
    }

    #[inline(always)]
    fn udp(&mut self) -> Result<usize, Outcome> {
        self.ports()?;
        let header: [u8; UDP_HEADER_BYTES] = self.peek(Outcome::TruncatedTransport)?;
        if !is_udp_length([header[4], header[5]]) {
            return Err(Outcome::MalformedTransport);
        }
        Ok(UDP_HEADER_BYTES)
    }

    fn ports(&mut self) -> Result<(), Outcome> {
        self.headers.ports = Some(Ports::from_bytes(self.peek(Outcome::TruncatedTransport)?));
        Ok(())
    }
}

/// Returns the length of a TCP header from the byte with its data offset, in bytes, `[20, 60]`.
#[inline]
pub(super) fn tcp_header_len(data_offset: u8) -> Option<usize> {
    let length = usize::from(data_offset >> 4) * 4;
    (length >= TCP_HEADER_BYTES_MIN).then_some(length)
}

/// Returns whether a UDP length field is possible. A jumbogram has 0 (RFC 2675 section 4). The
/// field is not compared to the captured bytes, because a first fragment has fewer.
#[inline]
pub(super) fn is_udp_length(field: [u8; 2]) -> bool {
    let length = usize::from(u16::from_be_bytes(field));
    length == 0 || length >= UDP_HEADER_BYTES
}

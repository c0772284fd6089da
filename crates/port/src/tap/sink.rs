//! The sink: one system call per packet, after which the host has received it.
//!
//! Packets of a flow go to one queue, so that the kernel puts the flow's replies on that queue,
//! too. A packet with unfinished offloads (`offloads=on`) gets a header with the remaining work:
//! complete the checksum, and cut the packet into segments that fit the interface's MTU.

use std::io;

use burstline_log::Flags;
use burstline_sys::interface::LinkState;
use burstline_sys::tap::{Checksum, Cut, LONGEST, Offload, Segments, Tap};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{self, Headers, LinkType, Network, protocol};

use super::device::{self, Half};
use super::settings::{SINK_KEYS, parse};
use crate::halves::Role;
use crate::live::{LiveSink, Outlet, OutletCounts};
use crate::watch::Watch;
use crate::{Address, Loss, OpenOptions, OpenedSink, PortError};

/// An injection path into the host.
struct Inward {
    device: Half,
    hasher: FlowHasher,
    mtu: u32,
    /// Packets that the kernel took, and packets that it rejected.
    sent: u64,
    refused: u64,
    failure: Option<io::Error>,
    /// Whether the last packet found it down: this also works for a device in another namespace.
    is_down: bool,
}

/// Opens a device for sending.
pub(crate) fn open_sink(address: &Address, _options: &OpenOptions) -> OpenedSink {
    let values = address.values(SINK_KEYS)?;
    let device = device::take(address, parse(&values)?, Role::Sink)?;
    let watch = Watch::new(device.device().interface());
    let mtu = device.device().interface().mtu;
    let hasher = FlowHasher::new(HashKind::FiveTuple);
    let inward = Inward { device, hasher, mtu, sent: 0, refused: 0, failure: None, is_down: false };
    let passes_offloads = inward.device.options().passes_offloads;
    Ok(Box::new(LiveSink::new(&values, inward, watch)?.passing_offloads(passes_offloads)))
}

impl Inward {
    fn tap(&self) -> &Tap {
        self.device.device()
    }

    fn put(&mut self, packet: &[u8], offload: &Offload) -> bool {
        let queue = match self.tap().queues() {
            1 => 0,
            queues => self.hasher.hash(LinkType::ETHERNET, packet) as usize % queues,
        };
        match self.tap().send(queue, packet, offload) {
            Ok(is_sent) => {
                self.is_down = false;
                self.sent += u64::from(is_sent);
                is_sent
            }
            Err(error) if error.raw_os_error() == Some(INVALID) => {
                self.refused += 1;
                true
            }
            // It is down or deleted: a sink that waits for room finds out.
            Err(error) => {
                self.is_down = error.raw_os_error() == Some(DOWN);
                self.failure = Some(error);
                false
            }
        }
    }
}

/// `EINVAL`. Source: include/uapi/asm-generic/errno-base.h.
const INVALID: i32 = 22;
/// `EIO`: the interface is down.
const DOWN: i32 = 5;

impl Outlet for Inward {
    const LOST_TO: Loss = Loss::TxRejected;
    const IS_AT_ONCE: bool = true;

    fn longest(&self) -> usize {
        LONGEST
    }

    #[inline]
    fn push(&mut self, packet: &[u8]) -> bool {
        self.put(packet, &Offload::default())
    }

    fn push_unfinished(&mut self, packet: &[u8], flags: Flags) -> bool {
        match unfinished(packet, flags, self.mtu) {
            Some(offload) => self.put(packet, &offload),
            None => {
                self.refused += 1;
                true
            }
        }
    }

    fn send(&mut self) -> Result<(), PortError> {
        match self.failure.take() {
            None => Ok(()),
            Some(error) if error.raw_os_error() == Some(DOWN) => Ok(()),
            Some(error) => {
                let path = self.tap().interface().name.clone().into();
                Err(PortError::Io { action: "send to", path, error })
            }
        }
    }

    fn counts(&self) -> OutletCounts {
        let (sent, lost) = (self.sent, self.refused);
        OutletCounts { pushed: sent + lost, sent, lost, waiting: 0 }
    }

    fn is_down(&self) -> bool {
        self.is_down
    }

    fn link_state(&self) -> io::Result<LinkState> {
        self.tap().link_state()
    }
}

/// Returns the offloads that the kernel must finish for a marked packet; `None` if its headers do
/// not determine them.
pub(crate) fn unfinished(packet: &[u8], flags: Flags, mtu: u32) -> Option<Offload> {
    let headers = headers::parse(LinkType::ETHERNET, packet);
    let checksum = match flags.contains(Flags::PARTIAL_CHECKSUM) {
        true => {
            let start = headers.transport_offset as u16;
            Some(Checksum { start, offset: checksum_at(&headers)? })
        }
        false => None,
    };
    let is_merged = flags.contains(Flags::MERGED);
    let cut = match is_merged {
        true => Some(cut(&headers, mtu)?),
        false => None,
    };
    Some(Offload { checksum, is_merged, cut })
}

/// Returns the offset of the checksum in a transport header.
fn checksum_at(headers: &Headers) -> Option<u16> {
    match headers.protocol {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        _ => None,
    }
}

/// Returns the segmentation for the payload that fits the MTU.
fn cut(headers: &Headers, mtu: u32) -> Option<Cut> {
    let kind = match (headers.protocol, headers.network) {
        (protocol::TCP, Network::Ipv4) => Segments::Tcp4,
        (protocol::TCP, Network::Ipv6) => Segments::Tcp6,
        (protocol::UDP, Network::Ipv4 | Network::Ipv6) => Segments::Udp,
        _ => return None,
    };
    let behind_link = headers.payload_offset - headers.network_offset;
    let payload = mtu.checked_sub(behind_link).filter(|&bytes| bytes > 0)?;
    let segment_bytes = payload.min(u32::from(u16::MAX)) as u16;
    Some(Cut { kind, header_bytes: headers.payload_offset as u16, segment_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds Ethernet, IPv4 and TCP headers, and 3,000 bytes.
    fn merged() -> Vec<u8> {
        let mut packet = vec![0; 14 + 20 + 32 + 3000];
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[16..18].copy_from_slice(&3052_u16.to_be_bytes());
        packet[23] = protocol::TCP;
        packet[46] = 0x80;
        packet
    }

    #[test]
    fn what_is_unfinished_is_described_by_its_headers_and_the_mtu() {
        let flags = Flags::PARTIAL_CHECKSUM.union(Flags::MERGED);
        let found = unfinished(&merged(), flags, 1500).unwrap();
        let checksum = Some(Checksum { start: 34, offset: 16 });
        assert_eq!(found.checksum, checksum);
        let cut = Cut { kind: Segments::Tcp4, header_bytes: 66, segment_bytes: 1448 };
        assert_eq!(found.cut, Some(cut));
        let found = unfinished(&merged(), Flags::PARTIAL_CHECKSUM, 1500).unwrap();
        assert_eq!((found.checksum, found.cut), (checksum, None));
        assert_eq!(unfinished(&merged(), flags, 52), None, "no room for a byte");
        assert_eq!(unfinished(&[0; 60], flags, 1500), None, "not IP");
    }
}

//! A finished record: plain data from the table. The columns are computed when it is written, on
//! the writer's thread.

use std::fmt;
use std::net::IpAddr;

use burstline_wire::flow::{CommunityId, FlowKey};
use burstline_wire::tunnel;

/// Why a record ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet for the idle timeout.
    Idle,
    /// It was open for the active timeout, and continues in the next record.
    Active,
    /// Both TCP ends sent a FIN.
    Fin,
    /// A TCP end reset the connection.
    Rst,
    /// The source or the program ended.
    #[default]
    End,
}

impl EndReason {
    /// All reasons, by number.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Active, Self::Fin, Self::Rst, Self::End];

    /// Returns the value of the column `end_reason`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Fin => "fin",
            Self::Rst => "rst",
            Self::End => "end",
        }
    }
}

/// The innermost tunnel of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its kind.
    pub kind: tunnel::Tunnel,
    /// Its network number, for the kinds where both directions have the same.
    pub id: Option<u32>,
}

/// All kinds of tunnels; the number of a kind is its position in this list, from 1.
const TUNNELS: [tunnel::Tunnel; 9] = [
    tunnel::Tunnel::Erspan,
    tunnel::Tunnel::Geneve,
    tunnel::Tunnel::Gre,
    tunnel::Tunnel::Gtp,
    tunnel::Tunnel::IpInIp,
    tunnel::Tunnel::Mpls,
    tunnel::Tunnel::Pppoe,
    tunnel::Tunnel::Vxlan,
    tunnel::Tunnel::VxlanGpe,
];

/// Set if the tunnel has a number.
const HAS_ID: u64 = 0x8000;

impl Tunnel {
    /// The bits of a word for the tunnel; bits 16 to 31 are not.
    pub(crate) const MASK: u64 = 0xffff_ffff_0000_ffff;

    /// Encodes the tunnel as a number other than 0: kind in bits 0 to 7, a flag for the network
    /// number in bit 15, and that number in bits 32 to 63.
    pub(crate) fn to_bits(self) -> u64 {
        let kind = TUNNELS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u64 + 1;
        self.id.map_or(kind, |id| u64::from(id) << 32 | HAS_ID | kind)
    }

    /// Decodes the tunnel from a word; other bits are ignored. `None` if there is no tunnel.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        let kind = *TUNNELS.get((bits & 0xff).checked_sub(1)? as usize)?;
        Some(Self { kind, id: (bits & HAS_ID != 0).then_some((bits >> 32) as u32) })
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            tunnel::Tunnel::Erspan => "erspan",
            tunnel::Tunnel::Geneve => "geneve",
            tunnel::Tunnel::Gre => "gre",
            tunnel::Tunnel::Gtp => "gtp",
            tunnel::Tunnel::IpInIp => "ipip",
            tunnel::Tunnel::Mpls => "mpls",
            tunnel::Tunnel::Pppoe => "pppoe",
            tunnel::Tunnel::Vxlan => "vxlan",
            tunnel::Tunnel::VxlanGpe => "vxlan-gpe",
        })?;
        self.id.map_or(Ok(()), |id| write!(f, ":{id}"))
    }
}

/// The names of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortName {
    /// Name of the source, as in the ledger.
    pub name: String,
    /// The files that hold its packets, by the file number of a [`Place`].
    pub files: Vec<String>,
}

/// Location of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The number of its file, in [`PortName::files`].
    pub file: Option<u16>,
    /// The number of its segment in the file.
    pub segment: Option<u32>,
    /// Its number in the file, in a published log or on its port, from 1, below 2^48.
    pub number: u64,
}

/// A conversation, or a part of it; "back" is the direction opposite to the first packet's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Addresses, protocol and ports in the direction of the record's first packet.
    pub key: FlowKey,
    /// Type and code of the first packet, if it is ICMP or ICMPv6.
    pub icmp: Option<[u8; 2]>,
    /// The outermost VLAN number.
    pub vlan: Option<u16>,
    /// The innermost tunnel.
    pub tunnel: Option<Tunnel>,
    /// Receiver and sender in the first packet's Ethernet header, in that order, as on the wire.
    pub macs: Option<[u8; 12]>,
    /// The number of the source.
    pub port: u16,
    /// Time of the earliest packet, in ns since 1970.
    pub first_ns: u64,
    /// Time of the latest packet.
    pub last_ns: u64,
    /// Packets of both directions.
    pub packets: u64,
    /// Packets of the direction back.
    pub packets_back: u64,
    /// Bytes of both directions: frames as on the wire, without FCS.
    pub bytes: u64,
    /// Bytes of the direction back.
    pub bytes_back: u64,
    /// TCP flags of the first packet's direction, ORed.
    pub tcp_flags: u8,
    /// TCP flags of the other direction, ORed.
    pub tcp_flags_back: u8,
    /// Time from the SYN to the ACK that completes the handshake.
    pub rtt_ns: Option<u64>,
    /// TCP segments below the highest byte sent, in both directions.
    pub retransmissions: u32,
    /// Why it ended.
    pub end: EndReason,
    /// Packets that the port lost while the record was open.
    pub losses: u64,
    /// Location of the first packet.
    pub place: Place,
}

impl Record {
    /// Computes the Community ID. Cost: some 200 ns.
    #[must_use]
    pub fn flow_id(&self) -> CommunityId {
        CommunityId::of(&self.key, self.icmp)
    }

    /// Returns the sender of the first packet.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        self.key.source_address()
    }

    /// Returns the receiver of the first packet.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        self.key.destination_address()
    }
}

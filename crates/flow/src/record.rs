//! One finished record: plain data, as the table had it. What a column holds is computed when it is
//! written, on the writer's thread.

use std::fmt;
use std::net::IpAddr;

use burstline_wire::flow::{CommunityId, FlowKey};
use burstline_wire::tunnel;

/// Why a record ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// No packet for the idle time-out.
    Idle,
    /// It was open for the active time-out, and goes on in the next record.
    Active,
    /// Both TCP ends had finished.
    Fin,
    /// A TCP end had reset the connection.
    Rst,
    /// The source or the program ended.
    #[default]
    End,
}

impl EndReason {
    /// The word in the column `end_reason`.
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

/// The innermost tunnel that the packets came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its kind.
    pub kind: tunnel::Tunnel,
    /// Its number, for the kinds where both directions have the same.
    pub id: Option<u32>,
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

/// What a source is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortName {
    /// The source, as in the ledger.
    pub name: String,
    /// The file that holds the packets, if they come from one.
    pub file: Option<String>,
}

/// One conversation, or a part of it; "back" is the direction against the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Addresses, protocol and ports in the direction of the record's first packet.
    pub key: FlowKey,
    /// Type and code of the first packet, where that is ICMP or ICMPv6.
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
    /// Of which back.
    pub packets_back: u64,
    /// Bytes of both directions: frames as on the wire, without FCS.
    pub bytes: u64,
    /// Of which back.
    pub bytes_back: u64,
    /// TCP flags of the first packet's direction, ORed.
    pub tcp_flags: u8,
    /// Of the other.
    pub tcp_flags_back: u8,
    /// From the SYN to the ACK that ends the handshake.
    pub rtt_ns: Option<u64>,
    /// TCP segments below the highest byte sent, both directions.
    pub retransmissions: u32,
    /// Why it ended.
    pub end: EndReason,
    /// Packets that the port lost while the record was open.
    pub losses: u64,
    /// Number of the first packet on its port, from 1.
    pub packet_number: u64,
}

impl Record {
    /// The Community ID. Cost: some 200 ns.
    #[must_use]
    pub fn flow_id(&self) -> CommunityId {
        CommunityId::of(&self.key, self.icmp)
    }

    /// Sender of the first packet.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        self.key.source_address()
    }

    /// Receiver of the first packet.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        self.key.destination_address()
    }
}

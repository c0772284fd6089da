//! Microsoft's published verification vectors, by the bare hash and through whole packets.
//!
//! Source: Microsoft, "Verifying the RSS Hash Calculation"; also Intel 82599 datasheet, 7.1.2.8.3.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::headers_build::{Addresses, ethernet, flow_frame};
use burstline_wire::hash::{FlowHasher, HashKind, MICROSOFT_KEY, Toeplitz};
use burstline_wire::headers::{LinkType, protocol};

/// Source and its port, destination and its port, hash of addresses, hash of addresses and ports.
type Vector = (&'static str, u16, &'static str, u16, u32, u32);

const IPV4: [Vector; 5] = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e_8fc2, 0x51cc_c178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718_262a, 0xc626_b0ea),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0_a5de, 0x5c2b_394a),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x8298_9176, 0xafc7_327f),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d18_09c5, 0x10e8_28a2),
];

const IPV6: [Vector; 3] = [
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc1_8cd5, 0x4020_7d3d),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c_461c, 0xdde5_1bbf),
    (
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44251,
        "fe80::200:f8ff:fe21:67cf",
        38024,
        0x4b61_e985,
        0x02d1_feef,
    ),
];

/// Returns the bytes of both addresses, then of both ports.
fn input<const N: usize>(parts: [&[u8]; 2], ports: (u16, u16)) -> [u8; N] {
    let ports = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    let all = [parts[0], parts[1], &ports].concat();
    all[..N].try_into().unwrap()
}

fn hash_frame(addresses: Addresses, protocol: u8, ports: (u16, u16)) -> u32 {
    let mut hasher = FlowHasher::new(HashKind::Rss);
    hasher.hash(LinkType::ETHERNET, &flow_frame(addresses, protocol, ports))
}

#[test]
fn ipv4_vectors() {
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
    for (source, source_port, destination, destination_port, by_addresses, by_ports) in IPV4 {
        let source = source.parse::<Ipv4Addr>().unwrap().octets();
        let destination = destination.parse::<Ipv4Addr>().unwrap().octets();
        let ports = (source_port, destination_port);
        assert_eq!(toeplitz.hash(&input::<8>([&source, &destination], ports)), by_addresses);
        assert_eq!(toeplitz.hash(&input::<12>([&source, &destination], ports)), by_ports);

        let addresses = Addresses::V4(source, destination);
        assert_eq!(hash_frame(addresses, protocol::TCP, ports), by_ports);
        assert_eq!(hash_frame(addresses, protocol::UDP, ports), by_ports);
        assert_eq!(hash_frame(addresses, protocol::ICMP, ports), by_addresses);
        assert_eq!(hash_frame(addresses, protocol::SCTP, ports), by_addresses);
    }
}

#[test]
fn ipv6_vectors() {
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
    for (source, source_port, destination, destination_port, by_addresses, by_ports) in IPV6 {
        let source = source.parse::<Ipv6Addr>().unwrap().octets();
        let destination = destination.parse::<Ipv6Addr>().unwrap().octets();
        let ports = (source_port, destination_port);
        assert_eq!(toeplitz.hash(&input::<32>([&source, &destination], ports)), by_addresses);
        assert_eq!(toeplitz.hash(&input::<36>([&source, &destination], ports)), by_ports);

        let addresses = Addresses::V6(source, destination);
        assert_eq!(hash_frame(addresses, protocol::TCP, ports), by_ports);
        assert_eq!(hash_frame(addresses, protocol::UDP, ports), by_ports);
        assert_eq!(hash_frame(addresses, protocol::ICMPV6, ports), by_addresses);
    }
}

#[test]
fn what_is_not_ip_hashes_to_zero() {
    let mut hasher = FlowHasher::new(HashKind::Rss);
    assert_eq!(hasher.hash(LinkType::ETHERNET, &ethernet(&[], 0x0806, &[1; 46])), 0);
    assert_eq!(hasher.hash(LinkType::ETHERNET, &[]), 0);
}

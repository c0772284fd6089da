//! Flow keys: their contents, and that both directions have the same symmetric key.

use crate::headers_build::{Addresses, ethernet, flow_frame};
use burstline_wire::flow::FlowKey;
use burstline_wire::headers::{LinkType, parse, protocol};
use proptest::prelude::*;

fn key(frame: &[u8]) -> FlowKey {
    FlowKey::new(&parse(LinkType::ETHERNET, frame), frame).unwrap()
}

#[test]
fn display() {
    let v4 = Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]);
    let mut one = [0; 16];
    one[0] = 0xfe;
    one[1] = 0x80;
    one[15] = 1;
    let mut two = one;
    two[15] = 2;
    let v6 = Addresses::V6(one, two);
    for (addresses, protocol, expected) in [
        (v4, protocol::UDP, "10.0.0.1:53 > 10.0.0.2:999 udp"),
        (v4, protocol::ICMP, "10.0.0.1 > 10.0.0.2 icmp"),
        (v4, 47, "10.0.0.1 > 10.0.0.2 protocol 47"),
        (v6, protocol::TCP, "[fe80::1]:53 > [fe80::2]:999 tcp"),
        (v6, protocol::SCTP, "[fe80::1]:53 > [fe80::2]:999 sctp"),
        (v6, protocol::ICMPV6, "fe80::1 > fe80::2 icmpv6"),
    ] {
        assert_eq!(key(&flow_frame(addresses, protocol, (53, 999))).to_string(), expected);
    }
}

#[test]
fn symmetric_starts_at_the_smaller_end() {
    let frame = flow_frame(Addresses::V4([10, 0, 0, 2], [10, 0, 0, 1]), 17, (1, 2));
    assert_eq!(key(&frame).symmetric().to_string(), "10.0.0.1:2 > 10.0.0.2:1 udp");
    let frame = flow_frame(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 1]), 17, (9, 8));
    assert_eq!(key(&frame).symmetric().to_string(), "10.0.0.1:8 > 10.0.0.1:9 udp");
}

#[test]
fn what_is_not_ip_has_no_key() {
    let arp = ethernet(&[], 0x0806, &[0; 46]);
    assert_eq!(FlowKey::new(&parse(LinkType::ETHERNET, &arp), &arp), None);
}

#[test]
fn an_ipv4_flow_is_not_its_ipv6_mapped_twin() {
    let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last];
    let v4 = key(&flow_frame(Addresses::V4([10, 0, 0, 1], [10, 0, 0, 2]), 17, (1, 2)));
    let v6 = key(&flow_frame(Addresses::V6(mapped(1), mapped(2)), 17, (1, 2)));
    assert_eq!((v4.source, v4.destination), (v6.source, v6.destination));
    assert_ne!(v4, v6);
}

fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| Addresses::V4(a, b)),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| Addresses::V6(a, b)),
        any::<([u8; 4], u16)>().prop_map(|(a, _)| Addresses::V4(a, a)),
    ]
}

proptest! {
    #[test]
    fn directions_meet(
        addresses in addresses(),
        protocol in prop::sample::select(vec![1u8, 6, 17, 132]),
        ports: (u16, u16),
    ) {
        let there = key(&flow_frame(addresses, protocol, ports));
        let back = key(&flow_frame(addresses.reversed(), protocol, (ports.1, ports.0)));
        prop_assert_eq!(there.reversed(), back);
        prop_assert_eq!(there.symmetric(), back.symmetric());
        prop_assert_eq!(there.symmetric().symmetric(), there.symmetric());
        prop_assert!([there, back].contains(&there.symmetric()));
    }
}

//! Any bytes as a packet: the invariants of `headers` and `tunnel` hold, and hashing agrees with
//! itself.
//!
//! An input is a link type (a byte, 256 more if above 250), a kind of hash (a byte) and a run of
//! packets. Each packet comes after a length byte. There is a run of them because fragments need
//! more than one packet.
#![no_main]

use burstline_wire::flow::FlowKey;
use burstline_wire::hash::{BytePosition, FlowHasher, HashKind};
use burstline_wire::headers::{self, Headers, LinkType, Network};
use burstline_wire::tunnel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [number, kind, rest @ ..] = data else {
        return;
    };
    let link = LinkType(u16::from(*number) + if *number > 250 { 256 } else { 0 });
    // The first named kinds keep the numbers that the corpus was made with.
    let kind = match kind {
        0..=6 => HashKind::from_code(u16::from(*kind)).unwrap_or_default(),
        _ => BytePosition::new(u16::from(*kind)).map_or(HashKind::Inner, HashKind::Byte),
    };
    // One parses for itself, the other is given the headers.
    let (mut whole, mut parsed) = (FlowHasher::new(kind), FlowHasher::new(kind));
    let mut rest = rest;
    while let Some((&length, behind)) = rest.split_first() {
        let (packet, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        let headers = headers::parse(link, packet);
        check_offsets(&headers, packet);
        check_tunnels(&headers, packet);
        let hash = whole.hash(link, packet);
        assert_eq!(hash, parsed.hash_parsed(link, &headers, packet));
        if let Some(key) = FlowKey::new(&headers, packet) {
            assert_eq!(key, key.reversed().reversed());
            assert_eq!(key.symmetric(), key.reversed().symmetric());
        }
    }
});

/// I1 and I2 of the module `tunnel`, layer by layer.
fn check_tunnels(headers: &Headers, packet: &[u8]) {
    let mut around = *headers;
    while let Some(inner) = tunnel::inside(&around, packet) {
        check_offsets(&inner.headers, packet);
        assert!(around.network_offset < inner.offset, "I1: {inner:?} in {around:?}");
        assert!(inner.offset <= inner.headers.network_offset, "I1: {inner:?}");
        assert!(inner.headers.end <= around.end, "I1: {inner:?} in {around:?}");
        let is_ip = matches!(inner.headers.network, Network::Ipv4 | Network::Ipv6);
        assert!(is_ip || inner.link == LinkType::ETHERNET, "I2: {inner:?}");
        around = inner.headers;
    }
}

/// I1 to I3 of the module `headers`.
fn check_offsets(headers: &Headers, packet: &[u8]) {
    let (network, transport) = (headers.network_offset, headers.transport_offset);
    let (payload, end) = (headers.payload_offset, headers.end);
    assert!(network <= transport && transport <= payload && payload <= end, "I1: {headers:?}");
    assert!(end as usize <= packet.len(), "I1: {headers:?}");
    let fixed = match headers.network {
        Network::Ipv4 => 20,
        Network::Ipv6 => 40,
        _ => 0,
    };
    assert!(network + fixed <= end, "I2: {headers:?}");
    assert!(headers.ports.is_none() || transport + 4 <= end, "I3: {headers:?}");
}

//! Any bytes as a packet: the invariants of `headers` hold, and hashing them agrees with itself.
//!
//! An input is a link type (a byte, 256 more if above 250), a kind of hash (a byte) and a run of
//! packets, each after a length byte: fragments need more than one packet.
#![no_main]

use burstline_wire::flow::FlowKey;
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{self, Headers, LinkType, Network};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [number, kind, rest @ ..] = data else {
        return;
    };
    let link = LinkType(u16::from(*number) + if *number > 250 { 256 } else { 0 });
    let kind = [HashKind::None, HashKind::Rss, HashKind::FiveTuple][usize::from(kind % 3)];
    // One parses for itself, the other is given the headers.
    let (mut whole, mut parsed) = (FlowHasher::new(kind), FlowHasher::new(kind));
    let mut rest = rest;
    while let Some((&length, behind)) = rest.split_first() {
        let (packet, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        let headers = headers::parse(link, packet);
        check_offsets(&headers, packet);
        let hash = whole.hash(link, packet);
        assert_eq!(hash, parsed.hash_parsed(link, &headers, packet));
        if let Some(key) = FlowKey::new(&headers, packet) {
            assert_eq!(key, key.reversed().reversed());
            assert_eq!(key.symmetric(), key.reversed().symmetric());
        }
    }
});

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

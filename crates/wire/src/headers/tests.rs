//! The fast path against the general walk. Their results are tested in `tests/headers`.

use proptest::prelude::*;

use super::{LinkType, fast, parse_general};

/// Returns a valid untagged Ethernet frame with `noise` bytes written over it.
fn frame(
    is_ipv6: bool,
    protocol: u8,
    payload: usize,
    pad: usize,
    noise: &[(usize, u8)],
) -> Vec<u8> {
    let transport = if protocol == 6 { 20 } else { 8 };
    let length = transport + payload;
    let mut frame = vec![2; 12];
    if is_ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((length as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((20 + length as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    frame.extend([1, 2, 3, 4]);
    frame.extend((length as u16).to_be_bytes());
    frame.resize(frame.len() + length - 6 + pad, 0x50);
    for (at, byte) in noise {
        let at = at % frame.len();
        frame[at] = *byte;
    }
    frame
}

proptest! {
    #[test]
    fn fast_path_says_what_the_walk_says(
        is_ipv6: bool,
        protocol in prop::sample::select(vec![6u8, 17, 1, 132]),
        payload in 0usize..40,
        pad in 0usize..8,
        noise in prop::collection::vec((12usize..100, any::<u8>()), 0..4),
        cut in 0usize..8,
    ) {
        let frame = frame(is_ipv6, protocol, payload, pad, &noise);
        let packet = &frame[..frame.len() - cut];
        if let Some(headers) = fast::parse(packet) {
            prop_assert_eq!(headers, parse_general(LinkType::ETHERNET, packet));
        }
    }
}

#[test]
fn plain_frames_take_the_fast_path() {
    for (is_ipv6, protocol) in [(false, 6), (false, 17), (true, 6), (true, 17)] {
        assert!(fast::parse(&frame(is_ipv6, protocol, 18, 0, &[])).is_some());
    }
}

#[test]
fn fast_path_says_what_the_walk_says_for_every_value_of_every_byte() {
    for (is_ipv6, protocol) in [(false, 6), (false, 17), (true, 6), (true, 17)] {
        let good = frame(is_ipv6, protocol, 18, 3, &[]);
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut packet = good.clone();
                packet[at] = value;
                let general = parse_general(LinkType::ETHERNET, &packet);
                assert_eq!(fast::parse(&packet).unwrap_or(general), general, "{value} at {at}");
            }
        }
    }
}

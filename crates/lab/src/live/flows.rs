//! Builds frames of many flows: UDP over IPv4 from as many addresses.
//!
//! ```text
//! | Ethernet, 14 | IPv4, 20: identification 18..20, source 26..30 | UDP, 8 | number, 8 | zeros |
//!                                ~flow: the checksum stays   10.0.flow
//! ```
//!
//! The NUMA document's balancer selects by the 30th byte of a frame, the last one of the source
//! address. The frames are addressed to a host that does not exist here, so the kernel's stack
//! drops them early.

use burstline_testbed::{Flows, InjectorOptions, Target};
use burstline_wire::checksum;

/// The flows, sent in turn.
pub const FLOWS: Flows = Flows { count: 1024, at: 28, complement_at: 18 };

/// Offset of a frame's number: after the headers.
const NUMBER_AT: usize = 42;

/// A MAC address that no interface has, and the sender's. Both are locally administered.
const LINK: [u8; 12] = [2, 0x42, 0x55, 0, 0, 0x99, 2, 0x42, 0x55, 0, 0, 1];

/// Address of flow 0 and an address reserved for benchmarks. Source: RFC 2544, appendix C.2.2.
const ADDRESSES: [u8; 8] = [10, 0, 0, 0, 198, 18, 0, 1];

/// Returns injector options for frames of `bytes` bytes, at least 60, numbered from 0.
pub(super) fn options(interface: &str, bytes: usize) -> InjectorOptions {
    InjectorOptions {
        interface: interface.to_owned(),
        receiver: Target::Program,
        frame: frame(bytes),
        number_at: Some(NUMBER_AT),
        first: 0,
        flows: Some(FLOWS),
    }
}

/// Returns the frame of flow 0, with `bytes` bytes, at least 60.
pub(crate) fn frame(bytes: usize) -> Vec<u8> {
    let [total, datagram] = [14, 34].map(|before| ((bytes - before) as u16).to_be_bytes());
    // Version and header length, service; total length; identification, no fragments; TTL, UDP.
    let mut header = [0x45, 0, total[0], total[1], 0xff, 0xff, 0, 0, 64, 17, 0, 0].to_vec();
    header.extend(ADDRESSES);
    // Ports 1024 and 9 (discard); no UDP checksum, which IPv4 allows.
    let udp = [4, 0, 0, 9, datagram[0], datagram[1], 0, 0];
    let mut frame = [&LINK[..], &[8, 0], &header, &udp].concat();
    frame.resize(bytes, 0);
    let sum = checksum::sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&(!sum).to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use burstline_afpacket::{Ring, RingOptions};
    use burstline_skip::skip;
    use burstline_testbed::{Amount, FAR};

    use super::*;
    use crate::live::{Load, Road, missing};
    use crate::threads::Cores;

    const FRAMES: u64 = 5000;

    #[test]
    fn frames_are_of_all_flows_in_turns_and_their_checksums_hold() {
        if let Some(why) = missing(&[]) {
            return skip(why);
        }
        let road = Road::new(Cores::allowed()).unwrap().with_flows();
        // The ring holds all frames, so that timing does not matter.
        let options = RingOptions { block_bytes: 1 << 20, blocks: 4, ..RingOptions::default() };
        let mut ring = road.bed().far.run(move || Ring::open(FAR, &options).unwrap());
        let load = Load { amount: Amount::Frames(FRAMES), rate_pps: None };
        let stop = Arc::new(AtomicBool::new(false));
        match road.inject(Target::Stack, load, &stop) {
            Ok(injected) => assert_eq!(injected.offered, FRAMES),
            // This happens in a container.
            Err(why) if why.contains("permitted") => return skip(why),
            Err(why) => panic!("{why}"),
        }
        let (mut number, began) = (0, Instant::now());
        while number < FRAMES {
            assert!(began.elapsed() < Duration::from_secs(60), "{number} of {FRAMES}");
            let Some(mut block) = ring.next_block() else { continue };
            let packets: Vec<_> = std::iter::from_fn(|| block.next_packet()).collect();
            let bytes = block.into_bytes();
            for packet in packets {
                let at = packet.offset as usize;
                let frame = &bytes[at..at + packet.length as usize];
                assert_eq!(checksum::sum(&frame[14..34]), 0xffff, "{frame:x?}");
                assert_eq!(frame[NUMBER_AT..][..8], number.to_be_bytes(), "{frame:x?}");
                let flow = (number % u64::from(FLOWS.count)) as u16;
                assert_eq!(frame[28..30], flow.to_be_bytes(), "{frame:x?}");
                assert_eq!(frame[29], number as u8, "the 30th byte");
                number += 1;
            }
        }
    }
}

//! Every pushed frame arrives, byte for byte.

use super::*;
use crate::bpf::BpfError;
use crate::tests::{arrived_where, ip, make_pair, run_or_skip};
use burstline_afpacket::{Ring, RingOptions};
use burstline_sys::namespace::enter_new_network;

/// Runs a test in a namespace with a veth pair, `v0` and `v1`; reports if it may not.
fn with_injector(job: impl FnOnce(BurstInjector) + Send + 'static) {
    let work = move || {
        enter_new_network().map_err(InjectError::Parking)?;
        make_pair();
        job(BurstInjector::open("v1", None)?);
        Ok::<_, InjectError>(())
    };
    run_or_skip(work, |error| {
        matches!(error, InjectError::Parking(_) | InjectError::Bpf(BpfError::NotPermitted { .. }))
    });
}

/// Receives this many packets.
fn arrived(ring: &mut Ring, count: usize) -> Vec<Vec<u8>> {
    // The interface itself sends IPv6 when it comes up.
    arrived_where(ring, count, |frame| frame[12..14] != [0x86, 0xdd])
}

#[test]
fn frames_of_all_lengths_come_in_as_they_are_in_runs_of_all_sizes() {
    with_injector(|mut injector| {
        assert_eq!(injector.target(), None);
        let options = RingOptions { block_bytes: 1 << 20, blocks: 32, ..RingOptions::default() };
        let mut ring = Ring::open("v1", &options).unwrap();
        let mut number = 0_u32;
        for run in [1, 63, 64, 65, 700, 3000, 4096] {
            let mut expected = Vec::new();
            while expected.len() < run {
                let mut frame = [&[0xff; 12], &[0x88, 0xb5][..]].concat();
                // Lengths without a pattern that a buffer could keep.
                let length = 14 + (number.wrapping_mul(2_654_435_761) >> 20) as usize % 1_500;
                frame.extend((14..length).map(|at| (at as u32 * 7 + number) as u8));
                if !injector.push(&frame) {
                    injector.run().unwrap();
                    assert!(injector.push(&frame));
                }
                expected.push(frame);
                number += 1;
            }
            injector.run().unwrap();
            assert!(arrived(&mut ring, run) == expected, "a run of {run}");
        }
        let counts = (injector.injected(), injector.failed(), injector.waiting());
        assert_eq!(counts, (number.into(), 0, 0));
    });
}

#[test]
fn the_shortest_and_the_longest_come_in_and_a_full_table_says_so() {
    with_injector(|mut injector| {
        ip("link set v1 mtu 3000");
        let options = RingOptions { block_bytes: 1 << 20, blocks: 32, ..RingOptions::default() };
        let mut ring = Ring::open("v1", &options).unwrap();
        let mut pushed = 0;
        for length in [BurstInjector::SHORTEST, INJECTED_BYTES_MAX, 15] {
            assert!(injector.push(&vec![0x55; length]), "{length}");
            pushed += 1;
        }
        while injector.push(&[0xaa; INJECTED_BYTES_MAX]) {
            pushed += 1;
        }
        assert!(pushed > 300, "{pushed}");
        assert_eq!(injector.waiting(), pushed);
        injector.run().unwrap();
        assert_eq!((injector.injected(), injector.failed()), (pushed, 0));
        let lengths: Vec<_> = arrived(&mut ring, pushed as usize).iter().map(Vec::len).collect();
        assert_eq!(lengths[..3], [14, INJECTED_BYTES_MAX, 15]);
        assert!(lengths[3..].iter().all(|&length| length == INJECTED_BYTES_MAX));
        ip("link delete v1");
        assert!(injector.push(&[0; 60]));
        assert!(matches!(injector.run(), Err(InjectError::Bpf(_))));
        assert_eq!(injector.waiting(), 1);
    });
}

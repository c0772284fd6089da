//! What it costs not to trust the writer: a copy of each packet. To be run by
//! `cargo test --release -p burstline-log --test untrusted_cost -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use burstline_log::{Appended, Burst, Log, LogConfig, Meta, Reader, ReaderConfig, UntrustedReader};

const PACKETS: u64 = 1_000_000;
const BURST: u64 = 256;

enum Either {
    Trusts(Reader),
    Copies(UntrustedReader),
}

/// Nanoseconds a packet that reading takes, in the median burst, on the core that wrote, by a
/// reader that touches the first and the last byte of each packet.
fn read_ns(length: usize, trusts: bool) -> f64 {
    let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
    let reader = log.attach(ReaderConfig::default()).unwrap();
    let mut reader = if trusts { Either::Trusts(reader) } else { Either::Copies(reader.into()) };
    let (bytes, meta) = (vec![7; length], Meta::new(1, length as u32, 0));
    let (mut sum, mut times_ns) = (0, Vec::new());
    let mut look = |burst: Burst<'_>| {
        for packet in burst.packets() {
            let bytes = packet.bytes();
            sum += u64::from(bytes[0]) + u64::from(bytes[bytes.len() - 1]);
        }
    };
    for _ in 0..PACKETS / BURST {
        for _ in 0..BURST {
            assert_eq!(writer.append(&bytes, &meta), Appended::Whole);
        }
        writer.publish();
        let begun = Instant::now();
        match &mut reader {
            Either::Trusts(reader) => {
                while let Some(burst) = reader.next_burst() {
                    look(burst);
                }
            }
            Either::Copies(reader) => {
                while let Some(burst) = reader.next_burst() {
                    look(burst);
                }
            }
        }
        times_ns.push(begun.elapsed().as_nanos());
    }
    black_box(sum);
    times_ns.sort_unstable();
    times_ns[times_ns.len() / 2] as f64 / BURST as f64
}

#[test]
#[ignore = "a measurement"]
fn cost_of_not_trusting() {
    for length in [60, 256, 512, 1514] {
        let best = |trusts| (0..7).map(|_| read_ns(length, trusts)).fold(f64::INFINITY, f64::min);
        let (trusted, untrusted) = (best(true), best(false));
        println!(
            "{length:5} bytes: trusted {trusted:6.2} ns, untrusted {untrusted:6.2} ns a packet"
        );
        assert!(trusted > 0.0 && untrusted > 0.0);
    }
}

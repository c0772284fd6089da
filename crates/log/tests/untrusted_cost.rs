//! Measures the cost of not trusting the writer: a reader's instructions per packet, with
//! callgrind. It needs valgrind, and runs with `cargo test --release -p burstline-log --test
//! untrusted_cost -- --ignored --nocapture`.
#![cfg(not(miri))]

use std::env;
use std::hint::black_box;
use std::process::Command;

use burstline_log::{
    Appended, Burst, Log, LogConfig, Meta, Reader, ReaderConfig, UntrustedReader, Writer,
};

/// Packets of a round; they are published in bursts.
const PACKETS: u64 = 10_240;
const BURST: u64 = 256;
const PIECE: &str = "BURSTLINE_TEST_PIECE";

enum Either {
    Nobody,
    Trusts(Reader),
    Copies(Box<UntrustedReader>),
}

/// Reads the first and the last byte of each packet.
fn look(burst: &Burst<'_>, sum: &mut u64) {
    for packet in burst.packets() {
        let bytes = packet.bytes();
        *sum += u64::from(bytes[0]) + u64::from(bytes[bytes.len() - 1]);
    }
}

impl Either {
    fn new(kind: &str, log: &Log) -> Self {
        let attach = || log.attach(ReaderConfig::default()).unwrap();
        match kind {
            "nobody" => Self::Nobody,
            "trusts" => Self::Trusts(attach()),
            _ => Self::Copies(Box::new(attach().into())),
        }
    }

    fn read(&mut self, sum: &mut u64) {
        match self {
            Self::Nobody => {}
            Self::Trusts(reader) => {
                while let Some(burst) = reader.next_burst() {
                    look(&burst, sum);
                }
            }
            Self::Copies(reader) => {
                while let Some(burst) = reader.next_burst() {
                    look(&burst, sum);
                }
            }
        }
    }
}

fn write(writer: &mut Writer, bytes: &[u8]) {
    let meta = Meta::new(1, bytes.len() as u32, 0);
    for _ in 0..BURST {
        assert_eq!(writer.append(bytes, &meta), Appended::Whole);
    }
    writer.publish();
}

#[test]
#[ignore = "the other process of the measurement below"]
fn role_read() {
    let piece = env::var(PIECE).expect("started by the measurement");
    let words: Vec<&str> = piece.split(' ').collect();
    let (length, rounds): (usize, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    let (log, mut writer) = Log::create(LogConfig::default()).unwrap();
    let mut reader = Either::new(words[0], &log);
    let (bytes, mut sum) = (vec![7; length], 0);
    for _ in 0..rounds * PACKETS / BURST {
        write(&mut writer, &bytes);
        reader.read(&mut sum);
    }
    black_box(sum);
}

/// Returns the instructions of a process that writes and reads this number of rounds.
fn count(kind: &str, length: usize, rounds: u64) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().unwrap())
        .args(["role_read", "--exact", "--ignored"])
        .env(PIECE, format!("{kind} {length} {rounds}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("Collected :")).expect("callgrind counts");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "a measurement"]
fn instructions_of_not_trusting() {
    for length in [60, 256, 512, 1514] {
        let of_a_packet =
            |kind| (count(kind, length, 9) - count(kind, length, 1)) / (8 * PACKETS) as f64;
        let write = of_a_packet("nobody");
        let [trusts, copies] = ["trusts", "copies"].map(|kind| of_a_packet(kind) - write);
        println!("{length:5} bytes: in place {trusts:6.1}, copied {copies:6.1} instructions");
        assert!(0.0 < trusts && trusts < copies);
    }
}

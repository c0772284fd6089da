//! Roles of this program when it runs as another process.

use std::env;
use std::io::{self, BufRead};

use burstline_log::{Appended, Ending, Log, LogConfig, Meta, Ruling, VerdictTaker};
use burstline_share::{LosslessReaders, PublishConfig, Publisher};

use crate::common::{append, log, until};

/// Waits until the test sends a line (true) or has exited (false).
fn wait() -> bool {
    io::stdin().lock().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

/// Publishes a number of logs, waits for a reader, writes a number of packets to each, and ends as
/// told.
#[test]
#[ignore = "another process of the tests"]
fn publisher() {
    let arguments = env::var("ROLE_ARGUMENTS").expect("started by a test");
    let words: Vec<&str> = arguments.split('\n').collect();
    let [name, logs, packets] = words[..] else { panic!("{words:?}") };
    let (logs, packets): (usize, u64) = (logs.parse().unwrap(), packets.parse().unwrap());
    let (published, mut writers): (Vec<_>, Vec<_>) = (0..logs).map(|_| log()).unzip();
    let config = PublishConfig { lossless: LosslessReaders::Forever, ..PublishConfig::new(name) };
    let publisher = Publisher::start(&config, published).unwrap();
    println!("say epoch {}", publisher.epoch());
    let readers = || publisher.readers().iter().filter(|reader| reader.is_claimed).count();
    until("a reader of each log has come", || readers() >= logs);
    for writer in &mut writers {
        println!("say ledger {}", append(writer, 0, packets));
    }
    wait();
    writers.into_iter().for_each(|writer| writer.finish(Ending::Final));
}

/// Publishes packets that wait for verdicts; every ninth contains a text. Prints the verdicts.
#[test]
#[ignore = "another process of the tests"]
fn inline_publisher() {
    let arguments = env::var("ROLE_ARGUMENTS").expect("started by a test");
    let (name, packets) = arguments.split_once('\n').unwrap();
    let packets: u64 = packets.parse().unwrap();
    let config = LogConfig { bytes: 8 << 20, takes_verdicts: true, ..LogConfig::default() };
    let (log, mut writer) = Log::create(config).unwrap();
    let mut taker = VerdictTaker::new(&log);
    let publisher = Publisher::start(&PublishConfig::new(name), vec![log]).unwrap();
    println!("say epoch {}", publisher.epoch());
    let is_claimed = || publisher.readers().iter().any(|reader| reader.is_claimed);
    until("a reader gives verdicts", || is_claimed() && (taker.has_changed() || taker.has_giver()));
    let (mut passed, mut dropped, mut other) = (0, 0, 0);
    for number in 0..packets {
        let mut bytes = [0; 100];
        if number % 9 == 0 {
            bytes[50..59].copy_from_slice(b"bad bytes");
        }
        assert_eq!(writer.append(&bytes, &Meta::new(number, 100, 0)), Appended::Whole);
        writer.publish();
        if number % 100 == 99 {
            for number in number - 99..=number {
                until("a verdict", || taker.look(number).is_some());
                let expected = if number % 9 == 0 { Ruling::Drop } else { Ruling::Pass };
                match taker.look(number) {
                    Some(Ruling::Pass) if expected == Ruling::Pass => passed += 1,
                    Some(Ruling::Drop) if expected == Ruling::Drop => dropped += 1,
                    _ => other += 1,
                }
            }
            taker.settle(number + 1);
        }
    }
    println!("say taken passed {passed} dropped {dropped} other {other}");
    wait();
    writer.finish(Ending::Final);
}

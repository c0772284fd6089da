//! What this program does as another process.

use std::env;
use std::io::{self, BufRead};

use burstline_log::Ending;
use burstline_share::{LosslessReaders, PublishConfig, Publisher};

use crate::common::{append, log, until};

/// Until the test says so, which is true, or has gone.
fn wait() -> bool {
    io::stdin().lock().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

/// Publishes this many logs, waits for a reader, writes this many packets to each, and ends as
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

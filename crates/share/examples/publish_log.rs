//! Publishes a log: makes packets, and lets other programs read them.
//!
//! ```text
//!   Writer --> log --> Publisher "numbers"        another program: burstline count log:numbers
//! ```
//!
//! Run it with `cargo run -p burstline-share --example publish_log [NAME] [PACKETS]`. Read the log
//! with the example `read_log` or with `burstline count log:numbers`.

use std::error::Error;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use burstline_log::{Appended, Ending, Log, LogConfig, Meta};
use burstline_share::{PublishConfig, Publisher};

/// Packets between two calls of `publish`: one store makes all of them visible.
const BATCH: u64 = 32;
/// `DLT_EN10MB`: packets start with an Ethernet header.
const LINK_ETHERNET: u32 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "numbers".to_owned());
    let packets: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;

    let (log, mut writer) = Log::create(LogConfig { bytes: 8 << 20, ..LogConfig::default() })?;
    log.name_port(0, LINK_ETHERNET, &name);
    let publisher = Publisher::start(&PublishConfig::new(&name), vec![log])?;
    println!("publishing {packets} packets: {}", publisher.socket_path().display());

    let mut frame = [0x5a_u8; 64];
    for number in 0..packets {
        frame[14..22].copy_from_slice(&number.to_be_bytes());
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        let meta = Meta::new(now_ns, frame.len() as u32, 0);
        // Only a lossless reader can fill up a log; then the writer has to wait.
        while writer.append(&frame, &meta) == Appended::Full {
            thread::sleep(Duration::from_micros(100));
        }
        if number % BATCH == BATCH - 1 {
            writer.publish();
            thread::sleep(Duration::from_micros(300)); // some 100,000 packets a second
        }
    }
    // Publishes the rest and tells the readers that the log is complete.
    writer.finish(Ending::Final);
    // The readers' positions so far: they can still read the published packets to the end.
    let visits = publisher.visits();
    for reader in visits.gone.iter().chain(&visits.there) {
        println!("{}: {} read, {} missed", reader.command, reader.delivered, reader.missed);
    }
    Ok(())
}

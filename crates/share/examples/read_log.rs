//! Reads a published log: counts packets and bytes, and reports missed packets.
//!
//! Start a publisher first: the example `publish_log`, or
//! `burstline capture eth0 --publish numbers`. Then run
//! `cargo run -p burstline-share --example read_log [NAME]`.
//!
//! Packets are copied and checked, so no publisher can harm this program.

use std::error::Error;

use burstline_share::{AttachConfig, Attachment};

/// How long to sleep without new packets before checking that the publisher still lives.
const WAIT_NS: u64 = 50_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "numbers".to_owned());
    let Attachment { mut readers, link, .. } = Attachment::open(&name, &AttachConfig::default())?;
    println!("{} logs of epoch {}", readers.len(), link.epoch());

    let (mut packets, mut bytes) = (0_u64, 0_u64);
    // A publisher that receives on several cores has a log for each; they are read in turn.
    loop {
        let mut is_idle = true;
        for reader in &mut readers {
            while let Some(burst) = reader.next_burst() {
                packets += burst.len() as u64;
                bytes += burst.packets().map(|packet| packet.length() as u64).sum::<u64>();
                is_idle = false;
            }
        }
        if is_idle && readers.iter().all(|reader| reader.is_finished() || link.is_gone()) {
            break;
        }
        if is_idle {
            readers[0].wait(WAIT_NS);
        }
    }
    for (number, reader) in readers.iter().enumerate() {
        let missed = reader.statistics().missed;
        println!("log {number}: offered {}, missed {missed}", reader.offered());
    }
    println!("{packets} packets, {bytes} bytes");
    Ok(())
}

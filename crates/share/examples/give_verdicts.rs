//! Gives verdicts on the packets of an inline bounce: drops those with a text, passes others.
//!
//! Start the bounce first, `burstline bounce eth1 eth2 --both --inline ips`, then
//! `cargo run -p burstline-share --example give_verdicts ips 'no such text'`.
//!
//! If the bounce is restarted, the example continues with the new one. Packets are copied and
//! checked, so no publisher can harm this program.

use std::error::Error;

use burstline_log::Verdict;
use burstline_share::{AttachConfig, Follower, Next};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "ips".to_owned());
    let text = arguments.next().unwrap_or_else(|| "no such text".to_owned());
    let config = AttachConfig { gives_verdicts: true, ..AttachConfig::default() };
    let mut follower = Follower::open(&name, &config, true)?;
    println!("giving verdicts on {} logs", follower.feeds().len());

    let (mut passed, mut dropped) = (0_u64, 0_u64);
    loop {
        let (held, log) = match follower.next(u64::MAX, || false)? {
            Next::Burst { held, log } => (held, log),
            Next::End => break,
            Next::None | Next::Interrupted | Next::WindowFull => continue,
        };
        let verdicts = follower.verdicts(log).ok_or("it takes no verdicts")?;
        let burst = held.burst();
        // A packet's number is its burst's first number plus its index in the burst.
        for (number, packet) in (burst.first_packet()..).zip(burst.packets()) {
            let bytes = packet.bytes();
            let has_text = bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes());
            let (verdict, count) = match has_text {
                true => (Verdict::Drop, &mut dropped),
                false => (Verdict::Pass, &mut passed),
            };
            verdicts.give(number, verdict)?;
            *count += 1;
        }
    }
    println!("passed {passed} packets, dropped {dropped}");
    Ok(())
}

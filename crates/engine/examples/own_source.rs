//! A source of packets that Burstline does not have: implement `Port`, and every job takes it.
//!
//! ```text
//!   Countdown --lend--> count     the packets stay in the buffer of the source
//! ```
//!
//! `cargo run -p burstline-engine --example own_source`

use std::{error::Error, sync::atomic::AtomicBool};

use burstline_engine::{Progress, Run, Source, Threads, count};
use burstline_log::{Meta, Scratch};
use burstline_port::{
    Capabilities, Lent, Port, PortAccount, PortError, PortInfo, PortState, PortTable,
    TimestampSource,
};
use burstline_wire::headers::LinkType;

const FRAME_BYTES: usize = 64;
/// A source of a fixed number of frames, each with its number in it.
struct Countdown {
    info: PortInfo,
    /// Its number in the table of interfaces: every packet names it.
    port: u8,
    left: u64,
    account: PortAccount,
    frames: Vec<u8>,
}

impl Port for Countdown {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        self.frames.clear();
        let first = self.account.offered;
        while !scratch.is_full() && self.left > 0 && (scratch.len() as u64) < budget {
            let offset = self.frames.len() as u32;
            self.frames.extend_from_slice(&[0; FRAME_BYTES - 8]);
            self.frames.extend_from_slice(&self.left.to_be_bytes());
            // The clock is made up: one ns a packet.
            let meta = Meta::new(self.account.offered, FRAME_BYTES as u32, self.port);
            scratch.push(offset, FRAME_BYTES as u32, &meta);
            self.left -= 1;
            self.account.offered += 1;
        }
        let state = if self.left == 0 { PortState::Ended } else { PortState::Busy };
        Ok(Lent { burst: scratch.burst(&self.frames, first), state })
    }

    fn account(&self) -> PortAccount {
        self.account.clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let capabilities = Capabilities { can_lend: true, is_finite: true, ..Default::default() };
    let (name, timestamps) = ("countdown".to_owned(), TimestampSource::Synthetic);
    let port = PortTable::new().add(&name, LinkType::ETHERNET).ok_or("256 interfaces already")?;
    let info = PortInfo { name, capabilities, timestamps };
    let account = PortAccount::default();
    let source = Countdown { info, port, left: 1_000_000, account, frames: Vec::new() };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let sources = vec![Source::of(Box::new(source))];
    let report = count(sources, &Threads::default(), &Run::new(&stop, &progress))?;
    let total = &report.total;
    println!(
        "offered {} = delivered {} + lost {}",
        total.offered, total.delivered, total.lost_total
    );
    assert_eq!((total.offered, total.delivered), (1_000_000, 1_000_000));
    Ok(())
}

//! A source of packets that Burstline does not have: implement `Source`, and every job takes it.
//!
//! ```text
//!   Countdown --lend--> count     the packets stay in the buffer of the source
//! ```
//!
//! `cargo run -p burstline-engine --example own_source`

use std::{error::Error, sync::atomic::AtomicBool};

use burstline_engine::{Inlet, Progress, Run, Threads, count};
use burstline_log::{Meta, Scratch, Writer};
use burstline_port::{
    Capabilities, Copying, Lent, Port, PortAccount, PortError, PortInfo, PortState, PortTable,
    Received, Source, TimestampSource,
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
    /// How jobs get copies that want them in a log.
    copying: Copying,
}

impl Port for Countdown {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        let mut account = self.account.clone();
        self.copying.add_to(&mut account);
        account
    }
}

impl Source for Countdown {
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
        Ok(Lent::new(scratch.burst(&self.frames, first), state))
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        Copying::receive(self, |source| &mut source.copying, writer, budget)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let capabilities = Capabilities { is_finite: true, ..Default::default() };
    let (name, timestamps) = ("countdown".to_owned(), TimestampSource::Synthetic);
    let port = PortTable::new().add(&name, LinkType::ETHERNET).ok_or("256 interfaces already")?;
    let info = PortInfo { name, capabilities, timestamps };
    let account = PortAccount::default();
    let source = Countdown {
        info,
        port,
        left: 1_000_000,
        account,
        frames: Vec::new(),
        copying: Copying::default(),
    };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let sources = vec![Inlet::of(Box::new(source))];
    let report = count(sources, &Threads::default(), &Run::new(&stop, &progress))?;
    let total = &report.total;
    println!(
        "offered {} = delivered {} + lost {}",
        total.offered, total.delivered, total.lost_total
    );
    assert_eq!((total.offered, total.delivered), (1_000_000, 1_000_000));
    Ok(())
}

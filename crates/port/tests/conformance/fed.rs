//! A device whose peer sends it some packets before each call. So a ring of any size delivers all
//! of them, and the suite can test drivers without a file.

use std::time::{Duration, Instant};

use burstline_log::{Burst, Meta, Scratch, Writer};
use burstline_port::{
    Lent, Port, PortAccount, PortError, PortInfo, Received, Sink, Source, leaked_mbufs,
};

use crate::backends::PACKETS;
use crate::common::live::PATIENCE;

/// The maximum number of packets in flight: fewer than the smallest ring can hold.
const AHEAD: u64 = 100;

/// A port, and its sender.
pub(crate) struct Fed {
    from: Box<dyn Source>,
    to: Box<dyn Sink>,
    sent: u64,
    delivered: u64,
    is_finished: bool,
    last: Instant,
}

/// Returns the bytes of packet `number`: of many lengths, all different.
fn packet(number: u64) -> Vec<u8> {
    let length = [60, 61, 64, 350, 999, 1514, 15][number as usize % 7];
    let mut bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
    let to = [2, 0, 0, 0, 0, 1];
    bytes[..6].copy_from_slice(&to);
    // An unused EtherType: no kernel on the way replies to it.
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes
}

impl Fed {
    /// Creates a pair: `from` gets [`PACKETS`] packets from `to`.
    pub(crate) fn new(from: Box<dyn Source>, to: Box<dyn Sink>) -> Self {
        let last = Instant::now();
        Self { from, to, sent: 0, delivered: 0, is_finished: false, last }
    }

    /// Sends as many packets as may be in flight; ends when all have arrived.
    fn feed(&mut self) -> Result<(), PortError> {
        // Start with one: of many, some would be lost if the peer connects in between.
        let ahead = if self.sent == 0 { 1 } else { AHEAD };
        let most = PACKETS.min(self.delivered + ahead);
        let (mut scratch, mut bytes) = (Scratch::new(), Vec::new());
        for number in self.sent..most {
            let packet = packet(number);
            let length = packet.len() as u32;
            scratch.push(bytes.len() as u32, length, &Meta::new(0, length, 0));
            bytes.extend(packet);
        }
        if most > self.sent {
            let taken = self.to.transmit(&scratch.burst(&bytes, 0))?;
            self.to.flush()?;
            self.sent += taken;
            if taken == 0 {
                // The peer is not connected yet: other threads make the connection.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if self.delivered == PACKETS && !self.is_finished {
            self.is_finished = true;
            self.from.finish()?;
            self.check_sink()?;
        }
        let (sent, delivered) = (self.sent, self.delivered);
        let is_patient = self.is_finished || self.last.elapsed() < PATIENCE;
        assert!(is_patient, "{}: {sent} sent, {delivered} came", self.from.info().name);
        Ok(())
    }

    /// Checks that everything sent has arrived, by the sink's account.
    fn check_sink(&mut self) -> Result<(), PortError> {
        self.to.finish()?;
        let account = self.to.account();
        let left = account.offered - account.lost.total();
        assert_eq!((left, account.in_flight), (PACKETS, 0), "{}", self.to.info().name);
        Ok(())
    }
}

fn note(delivered: &mut u64, last: &mut Instant, packets: u64) {
    *delivered += packets;
    if packets > 0 {
        *last = Instant::now();
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        // Of devices closed earlier; for this one it is known once it is closed.
        assert!(leaked_mbufs() == 0 || std::thread::panicking(), "mbufs are missing");
    }
}

impl Port for Fed {
    fn info(&self) -> &PortInfo {
        self.from.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.is_finished = true;
        self.from.finish()
    }

    /// Without notes on the link: that is checked in intervals, even after the end.
    fn account(&self) -> PortAccount {
        PortAccount { notes: Vec::new(), ..self.from.account() }
    }
}

impl Source for Fed {
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        self.feed()?;
        let received = self.from.receive(writer, budget)?;
        note(&mut self.delivered, &mut self.last, received.packets);
        Ok(received)
    }

    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.feed()?;
        let Self { from, delivered, last, .. } = self;
        let lent = from.lend(scratch, budget)?;
        note(delivered, last, lent.burst.len() as u64);
        Ok(lent)
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        self.from.lent(scratch)
    }
}

//! Wraps the closures of pipeline stages as sinks.

use burstline_log::{Burst, Packet};
use burstline_port::{
    Capabilities, Loss, LostPackets, Port, PortAccount, PortError, PortInfo, Sink, TimestampSource,
};

use crate::runtime::logs::lanes::{Given, Lanes};

fn info(name: &str) -> PortInfo {
    let capabilities = Capabilities::default();
    PortInfo { name: name.to_owned(), capabilities, timestamps: TimestampSource::Mixed }
}

/// A working stage: passes each burst to a closure.
pub(super) struct Work<'s, W: ?Sized> {
    info: PortInfo,
    work: &'s mut W,
    offered: u64,
}

impl<'s, W: FnMut(&Burst<'_>) + Send + ?Sized> Work<'s, W> {
    pub(super) fn new(name: &str, work: &'s mut W) -> Self {
        Self { info: info(name), work, offered: 0 }
    }
}

impl<W: FnMut(&Burst<'_>) + Send + ?Sized> Port for Work<'_, W> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.offered, ..PortAccount::default() }
    }
}

impl<W: FnMut(&Burst<'_>) + Send + ?Sized> Sink for Work<'_, W> {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        (self.work)(burst);
        self.offered += burst.len() as u64;
        Ok(burst.len() as u64)
    }

    fn lost(&self) -> LostPackets {
        LostPackets::default()
    }
}

/// A routing stage: copies each packet into one of its lanes, or drops it.
pub(super) struct Route<'s, R: ?Sized> {
    info: PortInfo,
    route: &'s mut R,
    lanes: Lanes<'s>,
    offered: u64,
    lost: LostPackets,
}

impl<'s, R: FnMut(&Packet<'_>) -> Option<usize> + Send + ?Sized> Route<'s, R> {
    pub(super) fn new(name: &str, route: &'s mut R, lanes: Lanes<'s>) -> Self {
        Self { info: info(name), route, lanes, offered: 0, lost: LostPackets::default() }
    }
}

impl<R: FnMut(&Packet<'_>) -> Option<usize> + Send + ?Sized> Port for Route<'_, R> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        let (offered, lost) = (self.offered, self.lost.losses());
        PortAccount { offered, lost, ..PortAccount::default() }
    }
}

impl<R: FnMut(&Packet<'_>) -> Option<usize> + Send + ?Sized> Sink for Route<'_, R> {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let (mut taken, lanes) = (0, self.lanes.refused().len());
        for packet in burst.packets() {
            match (self.route)(&packet).filter(|&lane| lane < lanes) {
                // All lanes of a pipeline have one shape, so longer packets were already truncated,
                // and counted, when they were received.
                Some(lane) => match self.lanes.give(lane, &packet) {
                    Given::Refused => self.lost.add_packet(Loss::LogFull, &packet),
                    _ => taken += 1,
                },
                None => self.lost.add_packet(Loss::Shed, &packet),
            }
        }
        self.lanes.publish();
        self.offered += burst.len() as u64;
        Ok(taken)
    }

    fn lost(&self) -> LostPackets {
        self.lost.clone()
    }
}

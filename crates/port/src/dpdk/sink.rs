//! The sink: copies packets into mbufs and sends them by one queue.

use std::sync::Arc;

use burstline_dpdk::{Device, Sender};
use burstline_log::{Burst, Packet};
use burstline_sys::clock;

use super::outlet::{Fate, Given, held_up_by, last_wait};
use super::settings::Settings;
use super::watch::DeviceWatch;
use crate::live::{SHORTEST, Wait};
use crate::{
    Address, Capabilities, Loss, Port, PortAccount, PortError, PortInfo, Sink, TimestampSource,
};

/// Two VLAN tags, which an MTU does not count.
const TAGS: usize = 8;

/// A device to send by.
pub(super) struct DpdkSink {
    info: PortInfo,
    sender: Sender,
    longest: usize,
    watch: DeviceWatch,
    wait: Wait,
    wait_ns: u64,
    given: Given,
    account: PortAccount,
}

impl DpdkSink {
    pub(super) fn new(
        address: &Address,
        settings: &Settings,
        device: &Arc<Device>,
    ) -> Result<Self, PortError> {
        let capabilities = Capabilities::default();
        let (name, timestamps) = (address.to_string(), TimestampSource::Poll);
        let sender = Sender::new(device)?;
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps },
            longest: sender.longest() + TAGS,
            sender,
            watch: DeviceWatch::new(device),
            wait: Wait::new(settings.wait_ns),
            wait_ns: settings.wait_ns,
            given: Given::default(),
            account: PortAccount::default(),
        })
    }

    fn lose(&mut self, cause: Loss, packets: u64) {
        if packets > 0 {
            self.account.lost.add(cause, packets);
        }
    }

    /// Why a packet cannot be sent, whatever room there is.
    fn misfit(&self, packet: &[u8]) -> Option<Loss> {
        match packet.len() {
            length if length < SHORTEST => Some(Loss::TooShort),
            length if length > self.longest => Some(Loss::TooLong),
            _ => None,
        }
    }

    /// Sends what was pushed, and gives up what the device has not taken for too long.
    fn send(&mut self) -> Result<(), PortError> {
        loop {
            self.given.accepted += self.sender.send();
            if self.sender.unsent() == 0 {
                return Ok(());
            }
            if !self.may_wait(self.given.accepted)? {
                let discarded = self.sender.discard();
                self.lose(held_up_by(self.watch.is_up()), discarded);
                return Ok(());
            }
        }
    }

    /// Pauses, unless the device has done something meanwhile. False: it has stood still for too
    /// long.
    fn may_wait(&mut self, done: u64) -> Result<bool, PortError> {
        self.sender.reclaim();
        let now_ns = clock::monotonic_ns();
        let may_go_on = self.wait.pause(done, now_ns);
        self.look(now_ns)?;
        Ok(may_go_on)
    }

    fn look(&mut self, now_ns: u64) -> Result<(), PortError> {
        if self.watch.look(now_ns, &mut self.account) {
            self.given.remember(self.sender.exit());
        }
        if self.watch.is_gone() { Err(self.watch.gone()) } else { Ok(()) }
    }

    /// Takes one packet, or counts why not.
    #[inline]
    fn take(&mut self, packet: &Packet<'_>) -> Result<(), PortError> {
        let bytes = packet.bytes();
        if let Some(cause) = self.misfit(bytes) {
            self.lose(cause, 1);
            return Ok(());
        }
        if self.sender.push(bytes) || self.push_later(bytes)? {
            self.account.bytes_copied += bytes.len() as u64;
            self.account.truncated += u64::from(bytes.len() < packet.original_length());
        }
        Ok(())
    }

    /// Waits for an mbuf, as long as that may take. False: there was none, and the packet is lost.
    #[cold]
    fn push_later(&mut self, packet: &[u8]) -> Result<bool, PortError> {
        loop {
            self.send()?;
            if self.sender.push(packet) {
                return Ok(true);
            }
            // No mbuf: the device has them all.
            if !self.may_wait(self.given.accepted)? {
                self.lose(held_up_by(self.watch.is_up()), 1);
                return Ok(false);
            }
        }
    }

    fn take_all(&mut self, burst: &Burst<'_>, given: &mut u64) -> Result<(), PortError> {
        self.look(clock::monotonic_ns())?;
        for packet in burst.packets() {
            self.take(&packet)?;
            *given += 1;
        }
        self.send()
    }

    fn fate(&self) -> Fate {
        self.given.fate(self.sender.exit())
    }

    fn drain(&mut self) -> Result<(), PortError> {
        self.send()?;
        loop {
            let fate = self.fate();
            if fate.in_flight == 0 || !self.may_wait(fate.sent)? {
                return Ok(());
            }
        }
    }
}

impl Port for DpdkSink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// As `flush`, but waits for [`last_wait`]; what is in flight after that is lost by name.
    fn finish(&mut self) -> Result<(), PortError> {
        self.wait = last_wait(self.wait_ns);
        let drained = self.drain();
        let fate = self.fate();
        self.given.give_up(&fate);
        drained
    }

    fn account(&self) -> PortAccount {
        let mut account = self.account.clone();
        self.given.enter_into(&self.fate(), self.watch.is_up(), &mut account);
        account
    }
}

impl Sink for DpdkSink {
    /// One copy of each packet, no system call but the driver's.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let offered = burst.len() as u64;
        let (before, mut given) = (self.given.accepted, 0);
        let taken = self.take_all(burst, &mut given);
        self.account.offered += offered;
        // An error leaves some that nobody has looked at, and some that were pushed in vain.
        let discarded = if taken.is_err() { self.sender.discard() } else { 0 };
        self.lose(Loss::LinkDown, offered - given + discarded);
        taken.map(|()| self.given.accepted - before)
    }

    /// Waits until the device has taken and confirmed what it was given, or stands still for
    /// `wait_ms`.
    fn flush(&mut self) -> Result<(), PortError> {
        self.drain()
    }
}

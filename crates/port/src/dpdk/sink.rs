//! The sink: copies packets into mbufs and sends them on one queue.

use std::sync::Arc;

use burstline_dpdk::{Device, Sender};
use burstline_log::{Burst, Packet};
use burstline_sys::clock;

use super::outlet::{Fate, Given, held_up_by, last_wait};
use super::settings::Settings;
use super::watch::DeviceWatch;
use crate::live::{SHORTEST, Wait};
use crate::lost::InHand;
use crate::{
    Address, Capabilities, Loss, LostPackets, Port, PortAccount, PortError, PortInfo, Sink,
    TimestampSource,
};

/// Two VLAN tags, which an MTU does not include.
const TAGS: usize = 8;

/// From this many packets in hand on, ask the device how many it has sent: more than any ring
/// holds.
const IN_HAND_MOST: usize = 1 << 16;

/// A device for sending.
pub(super) struct DpdkSink {
    info: PortInfo,
    sender: Sender,
    longest: usize,
    watch: DeviceWatch,
    wait: Wait,
    wait_ns: u64,
    given: Given,
    /// Pushed, and not known to be sent: the driver's counters are read periodically.
    in_hand: InHand,
    lost: LostPackets,
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
            in_hand: InHand::default(),
            lost: LostPackets::default(),
            account: PortAccount::default(),
        })
    }

    /// Returns why a packet cannot be sent, even if there is room.
    fn misfit(&self, packet: &[u8]) -> Option<Loss> {
        match packet.len() {
            length if length < SHORTEST => Some(Loss::TooShort),
            length if length > self.longest => Some(Loss::TooLong),
            _ => None,
        }
    }

    /// Sends pushed packets, and gives up those that the device has not taken for too long.
    fn send(&mut self) -> Result<(), PortError> {
        loop {
            self.given.accepted += self.sender.send();
            if self.sender.unsent() == 0 {
                return Ok(());
            }
            if !self.may_wait(self.given.accepted)? {
                self.discard(held_up_by(self.watch.is_up()));
                return Ok(());
            }
        }
    }

    /// Discards pushed packets that the driver has not accepted: the newest.
    fn discard(&mut self, cause: Loss) {
        let discarded = self.sender.discard();
        self.in_hand.lose_newest(discarded, cause, &mut self.lost);
    }

    /// Pauses, unless the device has made progress meanwhile. False if it has stalled for too long.
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

    /// Takes a packet, or counts why it cannot.
    #[inline]
    fn take(&mut self, packet: &Packet<'_>) -> Result<(), PortError> {
        let bytes = packet.bytes();
        if let Some(cause) = self.misfit(bytes) {
            self.lost.add_packet(cause, packet);
            return Ok(());
        }
        if self.sender.push(bytes) || self.push_later(packet)? {
            self.in_hand.push(packet);
            self.account.bytes_copied += bytes.len() as u64;
            self.account.truncated += u64::from(bytes.len() < packet.original_length());
        }
        Ok(())
    }

    /// Waits for an mbuf, up to the limit. False if there was none, and the packet is lost.
    #[cold]
    fn push_later(&mut self, packet: &Packet<'_>) -> Result<bool, PortError> {
        loop {
            self.send()?;
            if self.sender.push(packet.bytes()) {
                return Ok(true);
            }
            // No mbuf: the device has them all.
            if !self.may_wait(self.given.accepted)? {
                self.lost.add_packet(held_up_by(self.watch.is_up()), packet);
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

    /// Discards records of sent packets, if there are too many.
    #[cold]
    fn forget_sent(&mut self) {
        let fate = self.fate();
        self.in_hand.keep_newest(self.given.accepted.saturating_sub(fate.sent));
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

    /// As `flush`, but waits for [`last_wait`]; packets still in flight after that are lost by
    /// name.
    fn finish(&mut self) -> Result<(), PortError> {
        self.wait = last_wait(self.wait_ns);
        let drained = self.drain();
        let fate = self.fate();
        self.given.give_up(&fate);
        drained
    }

    fn account(&self) -> PortAccount {
        let (in_flight, lost) = (self.fate().in_flight, self.lost().losses());
        PortAccount { in_flight, lost, ..self.account.clone() }
    }
}

impl Sink for DpdkSink {
    /// Cost: one copy per packet, no system call except the driver's.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let offered = burst.len() as u64;
        let (before, mut given) = (self.given.accepted, 0);
        let taken = self.take_all(burst, &mut given);
        self.account.offered += offered;
        // After an error, some packets were not examined, and some were pushed but not sent.
        if taken.is_err() {
            self.discard(Loss::LinkDown);
            self.lost.add_burst(Loss::LinkDown, &burst.split_at(given as usize).1);
        }
        if self.in_hand.len() > IN_HAND_MOST {
            self.forget_sent();
        }
        taken.map(|()| self.given.accepted - before)
    }

    /// Returns packets lost on the way, and those that the device never took or confirmed.
    fn lost(&self) -> LostPackets {
        let (mut lost, fate) = (self.lost.clone(), self.fate());
        let late = self.given.losses(&fate, self.watch.is_up());
        if late.iter().any(|(_, packets)| *packets > 0) {
            let mut in_hand = self.in_hand.clone();
            let [(refused_by, refused), newest @ ..] = late;
            in_hand.lose_oldest(refused, refused_by, &mut lost);
            for (cause, packets) in newest {
                in_hand.lose_newest(packets, cause, &mut lost);
            }
        }
        lost
    }

    /// Waits until the device has taken and confirmed all packets, or stalls for `wait_ms`.
    fn flush(&mut self) -> Result<(), PortError> {
        self.drain()
    }
}

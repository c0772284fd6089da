//! A simulated card to send by, as a port.

use std::sync::Arc;

use burstline_log::Burst;
use burstline_nicsim::{Card, Mode, Transmit};
use burstline_sys::clock;

use super::bus_notes;
use super::settings::Plug;
use super::wire::FarEnd;
use crate::live::Wait;
use crate::{Address, Capabilities, Loss, Port, PortAccount, PortError, PortInfo, TimestampSource};

/// How long a device that stands still is waited for, in ns: its thread may be without a core.
const WAIT_NS: u64 = 1_000_000_000;

/// The transmit queue.
pub(super) struct Sink {
    info: PortInfo,
    mode: Mode,
    /// Bytes of the longest frame, by its settings.
    mtu: usize,
    transmit: Transmit,
    card: Option<Card>,
    far: Arc<FarEnd>,
    account: PortAccount,
    /// Packets that the device had taken on and did not send: they were given up.
    given_up: u64,
    /// The card's account, once it is gone.
    bus: Vec<String>,
}

impl Sink {
    pub(super) fn new(
        address: &Address,
        plug: &Plug,
        transmit: Transmit,
        card: Card,
        far: Arc<FarEnd>,
    ) -> Self {
        let capabilities = Capabilities { can_transmit: true, ..Capabilities::default() };
        let timestamps = TimestampSource::Mixed;
        let info = PortInfo { name: address.to_string(), capabilities, timestamps };
        let (account, bus) = (PortAccount::default(), Vec::new());
        let (mode, mtu) = (plug.settings.mode, plug.settings.longest);
        Self { info, mode, mtu, transmit, card: Some(card), far, account, given_up: 0, bus }
    }

    /// Packets that the device has yet to send, by the last look.
    fn unsent(&self) -> u64 {
        match &self.transmit {
            Transmit::Nothing => 0,
            Transmit::Ring(ring) => ring.packets_in_flight(),
            Transmit::Log(log) => log.in_flight(),
        }
    }

    /// Fails if the device has died.
    fn check(&self) -> Result<(), PortError> {
        match self.card.as_ref().is_some_and(Card::is_dead) {
            true => Err(PortError::CardDied { port: self.info.name.clone() }),
            false => Ok(()),
        }
    }

    /// Packets, or descriptors, that the device has yet to send.
    fn in_flight(&mut self) -> u64 {
        match &mut self.transmit {
            Transmit::Nothing => 0,
            Transmit::Ring(ring) => {
                ring.reap();
                ring.in_flight().into()
            }
            Transmit::Log(log) => log.in_flight(),
        }
    }

    /// Copies what there is room for now. Returns how many packets, and of how many bytes.
    fn copy(&mut self, burst: &Burst<'_>) -> (u64, u64) {
        match &mut self.transmit {
            Transmit::Nothing => (0, 0),
            Transmit::Log(log) => log.copy(burst),
            Transmit::Ring(ring) => {
                let (mut packets, mut bytes) = (0, 0);
                for packet in burst.packets() {
                    let wanted = ring.descriptors(packet.length()).unwrap_or(0);
                    if ring.room(wanted) < wanted {
                        break;
                    }
                    ring.copy(packet.bytes());
                    packets += 1;
                    bytes += packet.length() as u64;
                }
                ring.ring();
                (packets, bytes)
            }
        }
    }

    fn longest(&self) -> usize {
        let has_room_for = match &self.transmit {
            Transmit::Nothing => 0,
            Transmit::Log(log) => log.longest(),
            Transmit::Ring(ring) => ring.longest(),
        };
        has_room_for.min(self.mtu)
    }
}

impl Port for Sink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// One copy. Waits for the device, as long as that moves.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        self.check()?;
        self.account.offered += burst.len() as u64;
        let (mut taken, mut lost, mut rest, longest) = (0, 0, *burst, self.longest());
        while !rest.is_empty() {
            let fitting = rest.packets().take_while(|packet| packet.length() <= longest).count();
            let (mut now, behind) = rest.split_at(fitting);
            let mut wait = Wait::new(WAIT_NS);
            while !now.is_empty() {
                let (packets, bytes) = self.copy(&now);
                self.account.bytes_copied += bytes;
                taken += packets;
                now = now.split_at(packets as usize).1;
                let left = self.in_flight();
                if !now.is_empty() && !wait.pause(taken ^ left << 32, clock::monotonic_ns()) {
                    lost += now.len() as u64;
                    self.account.lost.add(Loss::TxRingFull, now.len() as u64);
                    break;
                }
            }
            rest = behind;
            if !rest.is_empty() {
                self.account.lost.add(Loss::TooLong, 1);
                lost += 1;
                rest = rest.split_at(1).1;
            }
        }
        debug_assert_eq!(taken + lost, burst.len() as u64);
        Ok(taken)
    }

    /// Waits until the device has sent all. What one that stands still has not sent is lost.
    fn flush(&mut self) -> Result<(), PortError> {
        let mut wait = Wait::new(WAIT_NS);
        loop {
            let left = self.in_flight();
            let is_dead = self.card.as_ref().is_none_or(Card::is_dead);
            if left > 0 && !is_dead && wait.pause(left, clock::monotonic_ns()) {
                continue;
            }
            let missing = self.unsent().saturating_sub(self.given_up);
            if missing > 0 {
                self.account.lost.add(Loss::TxRingFull, missing);
                self.given_up += missing;
            }
            return self.check();
        }
    }

    fn finish(&mut self) -> Result<(), PortError> {
        let flushed = self.flush();
        if let Some(card) = &self.card {
            self.bus = bus_notes(&card.bus_account(), card.bus(), self.mode);
        }
        // Its thread ends, and with it what is plugged in.
        self.card = None;
        flushed
    }

    fn account(&self) -> PortAccount {
        let mut account = self.account.clone();
        account.in_flight = self.unsent().saturating_sub(self.given_up);
        self.far.enter_into(&mut account);
        let now = self.card.as_ref();
        let now = now.map(|card| bus_notes(&card.bus_account(), card.bus(), self.mode));
        for note in now.as_ref().unwrap_or(&self.bus) {
            account.note(|| note.clone());
        }
        account
    }
}

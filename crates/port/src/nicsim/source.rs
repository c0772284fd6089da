//! A receive queue of a simulated card as a port.

use std::ops::Range;
use std::sync::Arc;

use burstline_log::{Burst, Scratch, Writer};
use burstline_nicsim::{Card, Mode, ReceiveCounts, Receiver};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use super::bus_notes;
use super::settings::Plug;
use super::wire::FarEnd;
use crate::filter::UNWANTED_MOST;
use crate::judge::Judge;
use crate::{
    Capabilities, Lent, Loss, OpenOptions, Port, PortAccount, PortError, PortInfo, PortState,
    Received, Source, TimestampSource,
};

/// Packets that a call of `receive` examines before it polls for more.
const CHUNK: u64 = 256;

/// One queue.
pub(super) struct NicsimSource {
    info: PortInfo,
    mode: Mode,
    receiver: Receiver,
    card: Arc<Card>,
    /// The outcome of the cable, if this queue reports it.
    far: Option<Arc<FarEnd>>,
    judge: Judge,
    /// Packets lent or chosen, but not delivered yet.
    left: Range<usize>,
    /// The ones delivered last.
    last: Range<usize>,
    delivered: u64,
    account: PortAccount,
}

/// A queue of a card, and the other end of the card's cable.
pub(super) struct CardEnd {
    pub(super) receiver: Receiver,
    pub(super) card: Arc<Card>,
    /// The outcome of the cable, if this queue reports it.
    pub(super) far: Option<Arc<FarEnd>>,
    /// Whether the source of the cable can wait.
    pub(super) can_wait: bool,
}

impl NicsimSource {
    pub(super) fn new(
        name: String,
        plug: &Plug,
        end: CardEnd,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let (settings, CardEnd { receiver, card, far, can_wait }) = (&plug.settings, end);
        let is_hashed = settings.is_hashing || settings.queues > 1;
        let mut judge = Judge::for_link(options, &name, LinkType::ETHERNET)?;
        if is_hashed && options.hash == HashKind::Rss {
            // The card's own hash is the one that the job wants.
            judge.set_hashing(false);
        }
        let capabilities = Capabilities {
            can_wait: can_wait && settings.line_bits_per_s.is_none(),
            can_drain: true,
            ..Capabilities::default()
        };
        let timestamps = match settings.mode {
            Mode::Contiguous => TimestampSource::Device,
            Mode::Writeback | Mode::Inline => TimestampSource::Poll,
        };
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps },
            mode: settings.mode,
            receiver,
            card,
            far,
            judge,
            left: 0..0,
            last: 0..0,
            delivered: 0,
            account: PortAccount::default(),
        })
    }

    /// Takes more packets from the driver, if none are left. Returns the state if none came.
    #[inline]
    fn fetch(&mut self, budget: u64) -> Result<PortState, PortError> {
        if !self.left.is_empty() {
            return Ok(PortState::Busy);
        }
        let lent = self.receiver.lend(budget).len();
        self.left = 0..lent;
        if lent == 0 {
            return self.state_when_empty();
        }
        if !self.judge.takes_all() || self.judge.is_hashing() {
            self.choose();
        }
        Ok(PortState::Busy)
    }

    #[cold]
    fn state_when_empty(&self) -> Result<PortState, PortError> {
        match self.receiver.is_over() {
            true if self.receiver.is_dead() => {
                Err(PortError::CardDied { port: self.info.name.clone() })
            }
            true => Ok(PortState::Ended),
            false => Ok(PortState::Idle),
        }
    }

    fn choose(&mut self) {
        let Self { receiver, judge, .. } = self;
        let burst = receiver.choose(|packet| {
            let (link, length) = (LinkType::ETHERNET, packet.length() as u32);
            let bytes = packet.bytes();
            judge.wants(link, bytes, length, 0).then(|| {
                let (kept, mut meta) = (judge.keep(length, length), packet.meta());
                judge.describe(link, &mut meta, || &bytes[..kept as usize]);
                (kept, meta)
            })
        });
        self.left = 0..burst.len();
    }
}

/// Returns the device's counts, no older than the packets taken by the driver: the device publishes
/// its counts after its packets.
pub(super) fn counts(receiver: &Receiver) -> ReceiveCounts {
    loop {
        let counts = receiver.counts();
        if counts.in_fifo + counts.delivered >= receiver.taken() || receiver.is_dead() {
            return counts;
        }
        std::thread::yield_now();
    }
}

/// Adds the device's losses by name.
pub(super) fn add_losses(account: &mut PortAccount, counts: &ReceiveCounts) {
    account.lost.add(Loss::FifoOverflow, counts.overflowed);
    let lost = [
        (Loss::DeviceReset, counts.reset),
        (Loss::CardLinkDown, counts.link_down),
        (Loss::CardTooLong, counts.too_long),
    ];
    for (cause, packets) in lost.into_iter().filter(|&(_, packets)| packets > 0) {
        account.lost.add(cause, packets);
    }
}

impl Port for NicsimSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Stops the device's reception on all queues; packets that it holds can still be received,
    /// until `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        self.receiver.stop();
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let (mut account, counts) = (self.account.clone(), counts(&self.receiver));
        account.offered = counts.arrived;
        account.in_flight = self.receiver.in_flight(&counts) + self.left.len() as u64;
        account.bytes_copied += self.receiver.bytes_joined();
        add_losses(&mut account, &counts);
        self.judge.enter_into(&mut account);
        for note in bus_notes(&self.card.bus_account(), self.card.bus(), self.mode) {
            account.note(|| note);
        }
        if let Some(far) = &self.far {
            far.enter_into(&mut account);
        }
        account
    }
}

impl Source for NicsimSource {
    /// No system call. One copy.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        if budget == 0 {
            return Ok(Received { packets: 0, state: PortState::Blocked });
        }
        let (mut packets, filtered) = (0, self.judge.filtered());
        while packets < budget && self.judge.filtered() - filtered <= UNWANTED_MOST {
            let state = match self.fetch((budget - packets).min(CHUNK)) {
                // Appended packets count; the next call fails again.
                Err(_) if packets > 0 => PortState::Idle,
                state => state?,
            };
            if state != PortState::Busy {
                let is_empty = packets == 0 && self.judge.filtered() == filtered;
                let state = if is_empty { state } else { PortState::Busy };
                return Ok(Received { packets, state });
            }
            let left = self.left.clone();
            let wanted = (left.len() as u64).min(budget - packets) as usize;
            // Moved out, because the packets borrow this port.
            let mut account = std::mem::take(&mut self.account);
            let burst = self.receiver.lent().split_at(left.start).1.split_at(wanted).0;
            let mut taken = 0;
            for packet in burst.packets() {
                let (bytes, meta) = (packet.bytes(), packet.meta());
                let appended = writer.append(bytes, &meta);
                if !account.copied(appended, bytes.len(), &meta, writer) {
                    break;
                }
                taken += 1;
            }
            self.account = account;
            self.left.start += taken;
            self.delivered += taken as u64;
            packets += taken as u64;
            if taken < wanted {
                return Ok(Received { packets, state: PortState::Blocked });
            }
        }
        Ok(Received { packets, state: PortState::Busy })
    }

    /// No system call. Packets stay in the card's buffers, or in the segment that it has written.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let first_packet = self.delivered;
        let state = if budget == 0 { PortState::Blocked } else { self.fetch(budget)? };
        let count = self.left.len().min(usize::try_from(budget).unwrap_or(usize::MAX));
        self.last = self.left.start..self.left.start + count;
        self.left.start += count;
        self.delivered += count as u64;
        if count == 0 {
            return Ok(Lent::new(scratch.burst(&[], first_packet), state));
        }
        let burst = self.receiver.lent().split_at(self.last.start).1.split_at(count).0;
        Ok(Lent::new(burst.numbered(first_packet), state))
    }

    fn lent<'a>(&'a self, _scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(self.receiver.lent().split_at(self.last.start).1.split_at(self.last.len()).0)
    }
}

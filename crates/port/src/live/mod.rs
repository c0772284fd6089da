//! The common part of live sinks: those that send by an interface.
//!
//! ```text
//!             fits?         room?                 send            done
//!  transmit ---------> Outlet::push ---> ring ----------> device ------> sent
//!             | no         | no, for wait_ms                |
//!             v            v                                v
//!        too_short     tx_ring_full                    what the outlet names
//!        too_long      link_down
//! ```
//!
//! An [`Outlet`] is a ring of one kind; [`LiveSink`] is the port around it. `LiveSink` decides
//! which packets can be sent at all, waits for room, watches the interface and keeps the account.
//!
//! A full ring blocks the sink's caller for at most `wait_ms`, counted from when the device last
//! took something. After that packets are lost without waiting, until the device takes something
//! again. So a link that is down for seconds costs one wait, not one per burst.
//!
//! Packets are sent unchanged. Only the device may pad those shorter than 60 bytes.
//!
//! Invariants:
//! - L1: offered = sent + every named loss + in flight. Sent and in flight come from the outlet:
//!   the kernel's counters and rings.
//! - L2: packets leave in order, once each.
//! - L3: no call waits longer than `wait_ms` plus the time of its system calls.
//! - L4: after `finish` nothing is in flight. Packets that the device never took are lost to the
//!   cause that blocked them; packets it took and did not confirm are `unconfirmed`.

mod source;
mod wait;

use std::io;

use burstline_log::{Burst, Flags, Packet};
use burstline_sys::clock;
use burstline_sys::interface::LinkState;

use crate::lost::InHand;
use crate::watch::Watch;
use crate::{
    AddressError, Capabilities, Key, Loss, LostPackets, Port, PortAccount, PortError, PortInfo,
    Sink, TimestampSource, Values,
};
pub(crate) use source::{Got, Intake, LiveSource, judge};
pub(crate) use wait::Wait;

/// Bytes of the shortest packet: an Ethernet header.
pub(crate) const SHORTEST: usize = 14;

/// The longest time that a sink may block its caller.
pub(crate) const WAIT: Key = Key::milliseconds(
    "wait_ms",
    0..=60_000,
    "How long to wait for room while the device makes no progress; then packets are counted as \
     lost",
)
.or("100");

/// What happened to the packets that an outlet was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutletCounts {
    /// Accepted by `push`.
    pub(crate) pushed: u64,
    /// Certainly handed on.
    pub(crate) sent: u64,
    /// Certainly lost.
    pub(crate) lost: u64,
    /// Still in our ring: the device has not read them.
    pub(crate) waiting: u64,
}

/// A path out of this process: a ring that a device empties.
pub(crate) trait Outlet: Send {
    /// The cause of [`OutletCounts::lost`].
    const LOST_TO: Loss;

    /// Whether `push` alone delivers a packet, so that a lost packet is always the last one.
    const IS_AT_ONCE: bool = false;

    /// Whether the state of an interface must be checked periodically.
    const IS_WATCHED: bool = true;

    /// Returns the length of the longest packet that `push` takes.
    fn longest(&self) -> usize;

    /// Copies a packet into the ring. False if there is no room; then nothing was done.
    fn push(&mut self, packet: &[u8]) -> bool;

    /// As [`push`](Self::push), for a packet whose offloads a device must finish, according to its
    /// flags. An outlet without offloads sends it unchanged.
    fn push_unfinished(&mut self, packet: &[u8], flags: Flags) -> bool {
        let _ = flags;
        self.push(packet)
    }

    /// Hands on pushed packets, as far as possible now, and reclaims completed ones.
    fn send(&mut self) -> Result<(), PortError>;

    /// Returns the counts as of the last `send`.
    fn counts(&self) -> OutletCounts;

    /// Returns the current state of the interface.
    fn link_state(&self) -> io::Result<LinkState>;

    /// Whether the last packet found the interface down, if its state does not show that.
    fn is_down(&self) -> bool {
        false
    }

    /// Returns events of the peer, in order, if nothing else reports them.
    fn events(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called after each check of an existing interface: verifies that everything else is as it was
    /// on opening.
    fn check(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// A port that sends by an outlet.
pub(crate) struct LiveSink<O> {
    info: PortInfo,
    outlet: O,
    watch: Watch,
    wait: Wait,
    account: PortAccount,
    lost: LostPackets,
    /// Packets pushed, and neither sent nor lost as of the last reading of the outlet's counts.
    in_hand: InHand,
    /// The outlet's losses at that time.
    lost_by_outlet: u64,
    /// Pushed packets that were given up at the end.
    given_up: u64,
}

/// The flags of packets with unfinished offloads.
const UNFINISHED: Flags = Flags::PARTIAL_CHECKSUM.union(Flags::MERGED);

/// Returns the longest time that a sink may block its caller, in ns.
pub(crate) fn wait_ns(values: &Values<'_>) -> Result<u64, AddressError> {
    Ok(values.integer::<u64>(WAIT.name)? * 1_000_000)
}

impl<O: Outlet> LiveSink<O> {
    pub(crate) fn new(values: &Values<'_>, outlet: O, watch: Watch) -> Result<Self, AddressError> {
        let capabilities = Capabilities::default();
        let (name, timestamps) = (values.address().to_string(), TimestampSource::Kernel);
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps },
            outlet,
            watch,
            wait: Wait::new(wait_ns(values)?),
            account: PortAccount::default(),
            lost: LostPackets::default(),
            in_hand: InHand::default(),
            lost_by_outlet: 0,
            given_up: 0,
        })
    }

    /// Sets whether the outlet can pass unfinished offloads to a device.
    pub(crate) fn passing_offloads(mut self, passes_offloads: bool) -> Self {
        self.info.capabilities.passes_offloads = passes_offloads;
        self
    }

    /// Adds a hint about how it was opened.
    pub(crate) fn with_note(mut self, note: Option<String>) -> Self {
        if let Some(note) = note {
            self.account.hint(|| note);
        }
        self
    }

    /// Returns why a packet cannot be sent, even if there is room.
    #[inline]
    fn misfit(&self, packet: &[u8], is_to_be_cut: bool) -> Option<Loss> {
        if packet.len() < SHORTEST {
            return Some(Loss::TooShort);
        }
        let is_within_mtu = is_to_be_cut || self.watch.interface().admits(packet);
        let fits = packet.len() <= self.outlet.longest() && is_within_mtu;
        (!fits).then_some(Loss::TooLong)
    }

    /// Returns the offload flags that the outlet must handle.
    #[inline]
    fn marks(&self, packet: &Packet<'_>) -> Flags {
        let marks = packet.desc().flags();
        match self.info.capabilities.passes_offloads {
            true => marks.without(marks.without(UNFINISHED)),
            false => Flags::NONE,
        }
    }

    #[inline]
    fn push(&mut self, packet: &Packet<'_>, marks: Flags) -> bool {
        let bytes = packet.bytes();
        let is_pushed = match marks == Flags::NONE {
            true => self.outlet.push(bytes),
            false => self.outlet.push_unfinished(bytes, marks),
        };
        if is_pushed {
            self.in_hand.push(packet);
            if O::IS_AT_ONCE {
                self.look_at_counts();
            }
        }
        is_pushed
    }

    /// Updates the account from the outlet's counts. The outlet does not say which packets of a
    /// batch were lost: the oldest are assumed.
    fn look_at_counts(&mut self) {
        let lost = self.outlet.counts().lost;
        let new = lost.saturating_sub(self.lost_by_outlet);
        if new > 0 {
            self.in_hand.lose_oldest(new, O::LOST_TO, &mut self.lost);
            self.lost_by_outlet = lost;
        }
        self.in_hand.keep_newest(self.in_flight());
    }

    /// Returns the cause of loss for packets that found no room.
    fn held_up_by(&self) -> Loss {
        let is_up = self.watch.interface().is_up && !self.outlet.is_down();
        let is_there = is_up && !self.watch.is_gone();
        if is_there { Loss::TxRingFull } else { Loss::LinkDown }
    }

    /// Checks the interface periodically.
    fn look(&mut self) -> Result<(), PortError> {
        if !O::IS_WATCHED {
            return Ok(());
        }
        let (outlet, account) = (&self.outlet, &mut self.account);
        let has_looked = self.watch.look(clock::monotonic_ns(), || outlet.link_state(), account)?;
        if self.watch.is_gone() {
            return Err(self.watch.gone());
        }
        if has_looked { self.outlet.check() } else { Ok(()) }
    }

    /// As the outlet's `send`; on failure also checks whether the interface is gone.
    fn send(&mut self) -> Result<(), PortError> {
        let sent = self.outlet.send();
        self.look_at_counts();
        if sent.is_err() {
            self.watch.look_at_once();
            self.look()?;
        }
        sent
    }

    /// Takes the first packets of the burst, as far as there is room. `given` counts packets
    /// accounted for so far, taken or lost, even on failure.
    fn take(&mut self, burst: &Burst<'_>, given: &mut u64) -> Result<u64, PortError> {
        self.look()?;
        let mut taken = 0;
        for packet in burst.packets() {
            let (bytes, marks) = (packet.bytes(), self.marks(&packet));
            if let Some(cause) = self.misfit(bytes, marks.contains(Flags::MERGED)) {
                self.lost.add_packet(cause, &packet);
                *given += 1;
                continue;
            }
            if !self.push(&packet, marks) && !self.push_later(&packet, marks)? {
                return Ok(taken);
            }
            *given += 1;
            taken += 1;
            self.account.bytes_copied += bytes.len() as u64;
            self.account.truncated += u64::from(bytes.len() < packet.original_length());
        }
        self.send()?;
        Ok(taken)
    }

    /// Waits for room, up to the limit. False if there was none.
    #[cold]
    fn push_later(&mut self, packet: &Packet<'_>, marks: Flags) -> Result<bool, PortError> {
        loop {
            self.send()?;
            if self.push(packet, marks) {
                return Ok(true);
            }
            if !self.may_wait()? {
                return Ok(false);
            }
        }
    }

    /// Pauses, unless the device has made progress meanwhile. False if it has stalled for too long.
    fn may_wait(&mut self) -> Result<bool, PortError> {
        let counts = self.outlet.counts();
        let may_go_on = self.wait.pause(counts.sent + counts.lost, clock::monotonic_ns());
        self.look()?;
        Ok(may_go_on)
    }

    fn in_flight(&self) -> u64 {
        let counts = self.outlet.counts();
        counts.pushed - counts.sent - counts.lost - self.given_up
    }

    fn drain(&mut self) -> Result<(), PortError> {
        loop {
            self.send()?;
            if self.in_flight() == 0 || !self.may_wait()? {
                return Ok(());
            }
        }
    }

    /// Gives up what is in flight, by name: packets that the device has not read are the newest.
    fn give_up(&mut self) {
        self.look_at_counts();
        let waiting = self.outlet.counts().waiting.min(self.in_flight());
        let unconfirmed = self.in_flight() - waiting;
        let held_up_by = self.held_up_by();
        self.in_hand.lose_newest(waiting, held_up_by, &mut self.lost);
        self.in_hand.lose_newest(unconfirmed, Loss::Unconfirmed, &mut self.lost);
        self.given_up += waiting + unconfirmed;
    }
}

impl<O: Outlet> Port for LiveSink<O> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// As `flush`; packets still in flight after that are lost by name.
    fn finish(&mut self) -> Result<(), PortError> {
        let drained = self.drain();
        self.give_up();
        drained
    }

    fn account(&self) -> PortAccount {
        let (in_flight, lost) = (self.in_flight(), self.lost.losses());
        let mut account = PortAccount { in_flight, lost, ..self.account.clone() };
        for event in self.outlet.events() {
            account.event(|| event);
        }
        account
    }
}

impl<O: Outlet> Sink for LiveSink<O> {
    /// Cost: one copy per packet, and one system call per burst, or more if the ring is full.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let offered = burst.len() as u64;
        let mut given = 0;
        let taken = self.take(burst, &mut given);
        self.account.offered += offered;
        if given < offered {
            let rest = burst.split_at(given as usize).1;
            self.lost.add_burst(self.held_up_by(), &rest);
        }
        taken
    }

    fn lost(&self) -> LostPackets {
        self.lost.clone()
    }

    /// Waits until the device has confirmed everything, or stalls for `wait_ms`.
    fn flush(&mut self) -> Result<(), PortError> {
        self.drain()
    }
}

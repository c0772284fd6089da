//! Injects faults, the same ones for the same seed.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use burstline_log::{Burst, Packet, SCRATCH_PACKETS, Scratch, Writer};

use super::{Held, append};
use crate::{
    Lent, Loss, LostPackets, Port, PortAccount, PortError, PortInfo, PortState, Received, Sink,
    Source,
};

/// Which faults to inject, and how often. Probabilities are in `[0, 1]`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The seed of the random generator.
    pub seed: u64,
    /// Probability that a packet is dropped, and counted as [`Loss::Injected`].
    pub drop: f64,
    /// Probability that one byte of a packet is changed.
    pub corrupt: f64,
    /// Probability that a packet loses its end.
    pub truncate: f64,
    /// Probability that a call of `receive` or `lend` finds nothing.
    pub idle: f64,
    /// The number of packets after which the port fails permanently.
    pub fail_after: Option<u64>,
}

impl FaultPlan {
    fn changes_packets(&self) -> bool {
        self.drop > 0.0 || self.corrupt > 0.0 || self.truncate > 0.0 || self.fail_after.is_some()
    }
}

/// A port with faults. With an empty plan, it behaves like the inner port.
pub struct FaultInjector<P: ?Sized> {
    inner: Box<P>,
    plan: FaultPlan,
    chance: Chance,
    scratch: Scratch,
    /// The packets of the last changed burst.
    bytes: Vec<u8>,
    held: Option<Held>,
    /// The packet that was held before and is lent now.
    lent: Option<Held>,
    /// Packets seen, dropped or not.
    seen: u64,
    delivered: u64,
    /// Packets dropped since the last delivered one.
    drops_before: u64,
    has_failed: bool,
    /// Dropped packets that the inner port never saw: those of a sink.
    dropped_before_inner: u64,
    dropped: LostPackets,
    account: PortAccount,
}

impl<P: Port + ?Sized> FaultInjector<P> {
    /// Wraps `inner` with faults.
    pub fn new(inner: Box<P>, plan: FaultPlan) -> Self {
        Self {
            inner,
            plan,
            chance: Chance(plan.seed),
            scratch: Scratch::new(),
            bytes: Vec::new(),
            held: None,
            lent: None,
            seen: 0,
            delivered: 0,
            drops_before: 0,
            has_failed: false,
            dropped_before_inner: 0,
            dropped: LostPackets::default(),
            account: PortAccount::default(),
        }
    }

    /// Returns early, if this call itself has a fault.
    fn fault_of_call(&mut self) -> Result<Option<PortState>, PortError> {
        if self.has_failed {
            return Ok(Some(PortState::Ended));
        }
        if self.plan.fail_after.is_some_and(|packets| self.seen >= packets) {
            self.has_failed = true;
            return Err(self.failure());
        }
        Ok(self.chance.is(self.plan.idle).then_some(PortState::Idle))
    }

    fn failure(&self) -> PortError {
        PortError::Injected { port: self.info().name.clone(), packets: self.delivered }
    }

    /// Limits a budget to the packets left before the port fails.
    fn budget(&self, budget: u64) -> u64 {
        self.plan.fail_after.map_or(budget, |packets| budget.min(packets - self.seen))
    }
}

/// Makes faults. Separate from the injector, so that it can be used while the inner port lends.
struct Faults<'a> {
    plan: &'a FaultPlan,
    chance: &'a mut Chance,
    drops_before: &'a mut u64,
    dropped: &'a mut LostPackets,
    account: &'a mut PortAccount,
}

impl Faults<'_> {
    /// Appends the packet to `bytes`, faulty or not. `None` if it was dropped.
    fn pass(&mut self, packet: &Packet<'_>, bytes: &mut Vec<u8>) -> Option<burstline_log::Meta> {
        if self.chance.is(self.plan.drop) {
            self.dropped.add_packet(Loss::Injected, packet);
            *self.drops_before += 1;
            return None;
        }
        let mut meta = packet.meta();
        meta.drops_before += std::mem::take(self.drops_before);
        let start = bytes.len();
        bytes.extend_from_slice(packet.bytes());
        self.account.bytes_copied += packet.length() as u64;
        if packet.length() > 0 && self.chance.is(self.plan.truncate) {
            bytes.truncate(start + self.chance.below(packet.length()));
            let was_whole = packet.length() == packet.original_length();
            self.account.truncated += u64::from(was_whole);
        }
        let length = bytes.len() - start;
        if length > 0 && self.chance.is(self.plan.corrupt) {
            bytes[start + self.chance.below(length)] ^= 1 + self.chance.below(255) as u8;
        }
        Some(meta)
    }
}

macro_rules! faults {
    ($injector:ident) => {
        Faults {
            plan: &$injector.plan,
            chance: &mut $injector.chance,
            drops_before: &mut $injector.drops_before,
            dropped: &mut $injector.dropped,
            account: &mut $injector.account,
        }
    };
}

impl<P: Port + ?Sized> Port for FaultInjector<P> {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.inner.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.inner.account();
        account.offered += self.dropped_before_inner;
        account.lost.merge(&self.dropped.losses());
        account.truncated += self.account.truncated;
        account.bytes_copied += self.account.bytes_copied;
        account.in_flight += u64::from(self.held.is_some());
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        self.inner.wait(timeout_ns)
    }

    fn may_gather(&self) -> bool {
        self.inner.may_gather()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }
}

impl<P: Source + ?Sized> Source for FaultInjector<P> {
    fn files(&self) -> Vec<PathBuf> {
        self.inner.files()
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let mut packets = 0;
        if let Some(held) = self.held.take_if(|_| budget > 0) {
            if !append(writer, &held.bytes, &held.meta, &mut self.account) {
                self.held = Some(held);
                return Ok(Received { packets, state: PortState::Blocked });
            }
            self.delivered += 1;
            packets = 1;
        } else if let Some(state) = self.fault_of_call()? {
            return Ok(Received { packets, state });
        }
        if !self.plan.changes_packets() {
            let received = self.inner.receive(writer, budget - packets)?;
            return Ok(Received { packets: packets + received.packets, ..received });
        }
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        while packets < budget && self.budget(1) > 0 {
            let lent = match self.inner.lend(&mut self.scratch, 1) {
                Ok(lent) => lent,
                Err(_) if packets > 0 => break,
                Err(error) => return Err(error),
            };
            state = lent.state;
            let Some(packet) = lent.burst.packets().next() else { break };
            self.seen += 1;
            self.bytes.clear();
            if let Some(meta) = faults!(self).pass(&packet, &mut self.bytes) {
                if !append(writer, &self.bytes, &meta, &mut self.account) {
                    self.held = Some(Held::new(&self.bytes, meta));
                    return Ok(Received { packets, state: PortState::Blocked });
                }
                self.delivered += 1;
                packets += 1;
            }
            if state != PortState::Busy {
                break;
            }
        }
        Ok(Received { packets, state })
    }

    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        if let Some(held) = self.held.take_if(|_| budget > 0) {
            self.delivered += 1;
            return Ok(self.lent.insert(held).lend(scratch, self.delivered - 1));
        }
        if let Some(state) = self.fault_of_call()? {
            scratch.clear();
            return Ok(Lent::new(scratch.burst(&[], self.delivered), state));
        }
        if !self.plan.changes_packets() {
            return self.inner.lend(scratch, budget);
        }
        scratch.clear();
        self.bytes.clear();
        let first_packet = self.delivered;
        let budget = self.budget(budget);
        let lent = self.inner.lend(&mut self.scratch, budget)?;
        for packet in lent.burst.packets() {
            self.seen += 1;
            let start = self.bytes.len();
            if let Some(meta) = faults!(self).pass(&packet, &mut self.bytes) {
                scratch.push(start as u32, (self.bytes.len() - start) as u32, &meta);
            }
        }
        self.delivered += scratch.len() as u64;
        Ok(Lent::new(scratch.burst(&self.bytes, first_packet), lent.state))
    }
}

impl<P: Sink + ?Sized> Sink for FaultInjector<P> {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        if !self.plan.changes_packets() {
            return self.inner.transmit(burst);
        }
        let (mut rest, mut taken) = (*burst, 0);
        while !rest.is_empty() {
            if self.plan.fail_after.is_some_and(|packets| self.seen >= packets) {
                self.dropped.add_burst(Loss::Injected, &rest);
                self.dropped_before_inner += rest.len() as u64;
                return Err(self.failure());
            }
            let count = self.budget(rest.len().min(SCRATCH_PACKETS) as u64) as usize;
            let (now, later) = rest.split_at(count);
            rest = later;
            self.scratch.clear();
            self.bytes.clear();
            let before = self.dropped.total().packets;
            for packet in now.packets() {
                let start = self.bytes.len();
                if let Some(meta) = faults!(self).pass(&packet, &mut self.bytes) {
                    let length = (self.bytes.len() - start) as u32;
                    self.scratch.push(start as u32, length, &meta);
                }
            }
            self.seen += count as u64;
            self.dropped_before_inner += self.dropped.total().packets - before;
            let faulty = self.scratch.burst(&self.bytes, now.first_packet());
            let now_taken = match self.inner.transmit(&faulty) {
                Ok(now_taken) => now_taken,
                Err(error) => {
                    // Let the inner port count what it can no longer take.
                    let _ = self.inner.transmit(&rest);
                    return Err(error);
                }
            };
            self.delivered += now_taken;
            taken += now_taken;
        }
        Ok(taken)
    }

    fn lost(&self) -> LostPackets {
        let mut lost = self.inner.lost();
        lost.merge(&self.dropped);
        lost
    }

    forward_sink!();
}

/// A reproducible random generator. Source: Steele et al., SplitMix64, OOPSLA 2014.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Returns true with this probability.
    pub(super) fn is(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.next() >> 11) as f64 / (1_u64 << 53) as f64 <= probability
    }

    /// Returns a number in `[0, limit)`; `limit` is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

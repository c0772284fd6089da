//! Simulates a bad network, reproducible by its seed. It loses, duplicates, delays and damages
//! packets, and counts what it did.
//!
//! ```text
//!  port inside --lend--> each packet: at most one defect --> ready, in the order of delivery
//!                            '-- held, until as many of its flow have passed --^
//! ```
//!
//! Invariant: a packet has at most one defect, so a test of defects can be exact to the packet. A
//! duplicated or delayed packet is intact; a damaged one comes once and in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use burstline_log::{Scratch, Writer};

use super::fault::Chance;
use super::{Held, append};
use crate::{Lent, Loss, Port, PortAccount, PortError, PortInfo, PortState, Received, Source};

/// Packets taken from the inner port at a time.
const BATCH: u64 = 64;

/// The maximum number of packets of its flow that overtake a packet.
const OVERTAKERS: usize = 16;

/// Which impairments, and how often. Probabilities are in `[0, 1]`, with a sum of at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpairmentPlan {
    /// The seed of the random generator.
    pub seed: u64,
    /// Probability that a packet is lost, and counted as [`Loss::Injected`].
    pub lose: f64,
    /// Probability that it is delivered twice.
    pub duplicate: f64,
    /// Probability that it is delivered after up to 16 later packets of its flow, by flow hash.
    pub reorder: f64,
    /// Probability that one of its bytes is changed.
    pub corrupt: f64,
}

/// Counts of the impairments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairmentCounts {
    /// Packets lost.
    pub lost: u64,
    /// Packets delivered twice.
    pub duplicated: u64,
    /// Packets delivered after an intact later one of their flow.
    pub reordered: u64,
    /// Packets with a changed byte.
    pub corrupted: u64,
}

/// Counts that can be read later. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ImpairmentTally(Arc<Mutex<ImpairmentCounts>>);

impl ImpairmentTally {
    /// Returns the counts so far.
    pub fn counts(&self) -> ImpairmentCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delayed packet.
struct Delayed {
    packet: Held,
    /// How many packets of its flow will still overtake it, and how many have.
    left: usize,
    overtaken: usize,
}

/// A source behind a bad network.
pub struct Impairer {
    inner: Box<dyn Source>,
    plan: ImpairmentPlan,
    chance: Chance,
    tally: ImpairmentTally,
    counts: ImpairmentCounts,
    scratch: Scratch,
    ready: VecDeque<Held>,
    delayed: Vec<Delayed>,
    /// Packets lost since the last delivered one.
    drops_before: u64,
    state: PortState,
    /// The packets of the last burst.
    bytes: Vec<u8>,
    delivered: u64,
    account: PortAccount,
}

impl Impairer {
    /// Wraps the source `inner` with a bad network.
    pub fn new(inner: Box<dyn Source>, plan: ImpairmentPlan) -> Self {
        Self {
            inner,
            plan,
            chance: Chance(plan.seed),
            tally: ImpairmentTally::default(),
            counts: ImpairmentCounts::default(),
            scratch: Scratch::new(),
            ready: VecDeque::new(),
            delayed: Vec::new(),
            drops_before: 0,
            state: PortState::Busy,
            bytes: Vec::new(),
            delivered: 0,
            account: PortAccount::default(),
        }
    }

    /// Returns a handle to its counts.
    pub fn tally(&self) -> ImpairmentTally {
        self.tally.clone()
    }

    /// Makes packets ready, if none are.
    fn refill(&mut self) -> Result<(), PortError> {
        if !self.ready.is_empty() || self.state == PortState::Ended {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let lent = self.inner.lend(&mut scratch, BATCH)?;
        self.state = lent.state;
        let packets: Vec<_> = lent.burst.packets().collect();
        let packets: Vec<_> =
            packets.iter().map(|packet| Held::new(packet.bytes(), packet.meta())).collect();
        self.scratch = scratch;
        packets.into_iter().for_each(|packet| self.impair(packet));
        if self.state == PortState::Ended {
            for delayed in std::mem::take(&mut self.delayed) {
                self.release(delayed);
            }
        }
        *self.tally.0.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
        Ok(())
    }

    /// Applies a random impairment to a packet.
    fn impair(&mut self, mut packet: Held) {
        let draw = self.chance.below(1 << 30) as f64 / f64::from(1 << 30);
        let plan = self.plan;
        let [lose, duplicate, reorder] =
            [plan.lose, plan.lose + plan.duplicate, plan.lose + plan.duplicate + plan.reorder];
        if draw < lose {
            self.counts.lost += 1;
            self.drops_before += 1;
            return;
        }
        packet.meta.drops_before += std::mem::take(&mut self.drops_before);
        if draw < duplicate {
            self.counts.duplicated += 1;
            self.ready.push_back(Held::new(&packet.bytes, packet.meta));
            self.pass(packet);
        } else if draw < reorder {
            let left = 1 + self.chance.below(OVERTAKERS);
            self.delayed.push(Delayed { packet, left, overtaken: 0 });
        } else if draw < reorder + plan.corrupt && !packet.bytes.is_empty() {
            self.counts.corrupted += 1;
            let at = self.chance.below(packet.bytes.len());
            packet.bytes[at] ^= 1 + self.chance.below(255) as u8;
            self.ready.push_back(packet);
        } else {
            self.pass(packet);
        }
    }

    /// Delivers an intact packet, and delayed ones that it is the last to overtake.
    fn pass(&mut self, packet: Held) {
        let hash = packet.meta.hash;
        self.ready.push_back(packet);
        for delayed in self.delayed.iter_mut().filter(|it| it.packet.meta.hash == hash) {
            delayed.left -= 1;
            delayed.overtaken += 1;
        }
        let due: Vec<_> = self.delayed.extract_if(.., |delayed| delayed.left == 0).collect();
        due.into_iter().for_each(|delayed| self.release(delayed));
    }

    fn release(&mut self, delayed: Delayed) {
        self.counts.reordered += u64::from(delayed.overtaken > 0);
        self.ready.push_back(delayed.packet);
    }

    fn state(&self) -> PortState {
        if self.ready.is_empty() { self.state } else { PortState::Busy }
    }
}

impl Port for Impairer {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.inner.finish()
    }

    /// A packet that was delivered twice counts as offered twice.
    fn account(&self) -> PortAccount {
        let mut account = self.inner.account();
        account.offered += self.counts.duplicated;
        account.lost.add(Loss::Injected, self.counts.lost);
        account.in_flight += (self.ready.len() + self.delayed.len()) as u64;
        account.truncated += self.account.truncated;
        account.bytes_copied += self.account.bytes_copied;
        account
    }
}

impl Source for Impairer {
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        if budget == 0 {
            return Ok(Received { packets: 0, state: PortState::Blocked });
        }
        self.refill()?;
        let mut packets = 0;
        while packets < budget {
            let Some(packet) = self.ready.pop_front() else { break };
            if !append(writer, &packet.bytes, &packet.meta, &mut self.account) {
                self.ready.push_front(packet);
                return Ok(Received { packets, state: PortState::Blocked });
            }
            self.delivered += 1;
            packets += 1;
        }
        Ok(Received { packets, state: self.state() })
    }

    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        self.bytes.clear();
        let first_packet = self.delivered;
        if budget == 0 {
            return Ok(Lent::new(scratch.burst(&[], first_packet), PortState::Blocked));
        }
        self.refill()?;
        while (scratch.len() as u64) < budget && !scratch.is_full() {
            let Some(packet) = self.ready.pop_front() else { break };
            scratch.push(self.bytes.len() as u32, packet.bytes.len() as u32, &packet.meta);
            self.bytes.extend_from_slice(&packet.bytes);
            self.account.bytes_copied += packet.bytes.len() as u64;
        }
        self.delivered += scratch.len() as u64;
        let state = self.state();
        Ok(Lent::new(scratch.burst(&self.bytes, first_packet), state))
    }
}

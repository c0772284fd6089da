//! The generator itself.

use burstline_log::{Burst, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_sys::direct::AlignedBuffer;
use burstline_wire::ethernet::FCS_BYTES;
use burstline_wire::headers::LinkType;

use super::flows::{Flows, Stamp};
use super::keys::GENERATOR_KEYS;
use super::rate::Pace;
use super::recipe::Recipe;
use super::schedule::Schedule;
use crate::filter::UNWANTED_MOST;
use crate::judge::Judge;
use crate::{
    Address, Capabilities, Lent, Loss, OpenOptions, Pacing, Port, PortAccount, PortError, PortInfo,
    PortState, Received, Source, TimestampSource,
};

/// The buffer of a lent burst: small enough for the L2 cache.
const LENT_BYTES: usize = 256 << 10;

/// A packet built later than this after its due time gets a later time, in ns. If a rate cannot be
/// kept, a time far in the past would make latencies meaningless.
const LATE_MOST_NS: u64 = 1_000_000;

/// Bits of the run number in a mark.
const RUN_BITS: u32 = 12;

/// The random properties of packet `next`.
#[derive(Clone, Copy)]
struct Drawn {
    flow: u32,
    /// Length without FCS.
    length: u32,
}

/// Generates packets.
pub(super) struct Generator {
    info: PortInfo,
    recipe: Recipe,
    pace: Pace,
    flows: Flows,
    schedule: Schedule,
    /// When the first packet was due, by the monotonic clock and in ns since 1970; `None` before
    /// the first poll.
    began_ns: Option<(u64, u64)>,
    /// Whether a packet's time is its creation, instead of the schedule's time.
    is_clocked: bool,
    /// Whether packets depend only on their flow, and all are wanted.
    is_fast: bool,
    /// The minimum time of packets of this call.
    floor_ns: u64,
    lent: Option<AlignedBuffer>,
    /// A buffer for a packet that is judged, or delivered in part.
    whole: Vec<u8>,
    judge: Judge,
    port: u8,
    /// Number of the next packet.
    next: u64,
    /// Packets lost since the last delivered one.
    drops_before: u64,
    account: PortAccount,
}

impl Generator {
    pub(super) fn new(
        address: &Address,
        recipe: Recipe,
        port: u8,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let run = match recipe.start_ns {
            Some(_) => 0,
            None => mix(clock::realtime_ns()) as u16 & ((1 << RUN_BITS) - 1),
        };
        let flows = Flows::new(&recipe, run, options)?;
        let pace = Pace::parse(&address.values(GENERATOR_KEYS)?, flows.mean_frame_bytes(&recipe))?;
        let is_clocked = recipe.start_ns.is_none() && !pace.is_rated && !pace.is_paced;
        let capabilities = Capabilities {
            tells_gaps: true,
            can_wait: !pace.is_paced,
            is_finite: recipe.packets.is_some(),
            ..Capabilities::default()
        };
        let start_ns = recipe.start_ns.unwrap_or_else(clock::realtime_ns);
        let timestamps = TimestampSource::Synthetic;
        let info = PortInfo { name: address.to_string(), capabilities, timestamps };
        let mut judge = Judge::for_link(options, &info.name, LinkType::ETHERNET)?;
        // A flow has one hash, which is computed with the flow.
        judge.set_hashing(false);
        let mut account = PortAccount::default();
        flows.note.iter().for_each(|note| account.note(|| note.clone()));
        let is_fast = is_clocked && flows.are_fixed() && !judge.is_filtering();
        Ok(Self {
            info,
            whole: vec![0; flows.longest()],
            judge,
            flows,
            schedule: Schedule::new(start_ns, &pace),
            pace,
            recipe,
            began_ns: None,
            is_clocked,
            is_fast,
            floor_ns: 0,
            lent: None,
            port,
            next: 0,
            drops_before: 0,
            account,
        })
    }

    /// Returns how many packets can be built now, and the state if there are none.
    fn due(&mut self) -> (u64, PortState) {
        let left = self.recipe.packets.map_or(u64::MAX, |packets| packets - self.next);
        if left == 0 {
            return (0, PortState::Ended);
        }
        if !self.pace.is_paced {
            if self.is_clocked {
                self.floor_ns = clock::realtime_ns();
            }
            return (left, PortState::Busy);
        }
        let now_ns = clock::monotonic_ns();
        let (began_ns, origin_ns) = *self.began_ns.get_or_insert_with(|| {
            if self.recipe.start_ns.is_none() {
                self.schedule.next_ns = clock::realtime_ns();
            }
            (now_ns, self.schedule.next_ns)
        });
        let elapsed_ns = now_ns - began_ns;
        if self.recipe.start_ns.is_none() {
            self.floor_ns = (origin_ns + elapsed_ns).saturating_sub(LATE_MOST_NS);
        }
        let due = self.schedule.due(elapsed_ns).min(self.next.saturating_add(left));
        self.account.offered = due;
        (due - self.next, PortState::Idle)
    }

    /// Returns the number up to which a call may examine packets, if `due` are due. With a filter
    /// that is limited, because none may be wanted.
    fn last_of_call(&self, due: u64) -> u64 {
        let most = if self.judge.is_filtering() { UNWANTED_MOST } else { u64::MAX };
        self.next.saturating_add(due.min(most))
    }

    /// Skips the next packet if the filter rejects it.
    fn skip_unwanted(&mut self, drawn: Drawn) -> bool {
        let time_ns = self.time_ns();
        let packet = &mut self.whole[..drawn.length as usize];
        self.flows.build(drawn.flow, &mut &mut *packet, drawn.length as usize, time_ns);
        let is_wanted = self.judge.wants(LinkType::ETHERNET, packet, drawn.length, 0);
        if !is_wanted {
            self.pass(drawn);
        }
        !is_wanted
    }

    /// Draws flow and size of the next packet.
    #[inline]
    fn draw(&self) -> Drawn {
        let (flow, chance) = draw(self.recipe.seed, self.next, self.turns());
        let length = self.flows.flow(flow).length().unwrap_or_else(|| {
            let size = self.recipe.sizes.draw((chance >> 32) as u32);
            (size - FCS_BYTES).max(self.flows.flow(flow).shortest())
        });
        Drawn { flow, length }
    }

    /// Returns the number of flows, and whether they take turns.
    fn turns(&self) -> Turns {
        Turns { flows: self.flows.len() as u64, are_taken: self.recipe.is_cycled }
    }

    /// The fast path of `receive`: whole packets of flows with fixed lengths, without a filter, all
    /// with the current time.
    fn receive_fast(&mut self, writer: &mut Writer, budget: u64, left: u64) -> Received {
        let (first, seed, turns) = (self.next, self.recipe.seed, self.turns());
        let count = budget.min(left);
        let now = Stamp { time_ns: self.floor_ns, port: self.port };
        let filled = match turns.flows {
            1 => self.flows.fill(writer, count, now, |_| 0),
            _ => self.flows.fill(writer, count, now, |more| draw(seed, first + more, turns).0),
        };
        self.next += filled.packets;
        self.account.offered = self.next;
        self.account.bytes_copied += filled.bytes;
        let state = if filled.packets < count { PortState::Blocked } else { PortState::Busy };
        Received { packets: filled.packets, state: self.state_after(state) }
    }

    /// Returns the time of the next packet.
    #[inline]
    fn time_ns(&self) -> u64 {
        if self.is_clocked { self.floor_ns } else { self.schedule.next_ns.max(self.floor_ns) }
    }

    #[inline]
    fn meta(&self, drawn: Drawn) -> Meta {
        let mut meta = Meta::new(self.time_ns(), drawn.length, self.port);
        meta.hash = self.flows.flow(drawn.flow).hash;
        meta.drops_before = self.drops_before;
        meta
    }

    /// Advances to the next packet; `captured` bytes of this one were delivered.
    #[inline]
    fn advance(&mut self, drawn: Drawn, captured: usize) {
        self.pass(drawn);
        self.drops_before = 0;
        self.account.truncated += u64::from(captured < drawn.length as usize);
    }

    /// Advances to the next packet, delivered or not.
    #[inline]
    fn pass(&mut self, drawn: Drawn) {
        self.next += 1;
        self.flows.advance(drawn.flow, drawn.length);
        self.schedule.advance();
        if !self.pace.is_paced {
            self.account.offered = self.next;
        }
    }

    /// Counts the next `packets` packets as lost.
    fn lose(&mut self, packets: u64) {
        for _ in 0..packets {
            self.pass(self.draw());
        }
        self.drops_before += packets;
        self.account.lost.add(Loss::LogFull, packets);
    }

    fn state_after(&self, state: PortState) -> PortState {
        let is_over = self.recipe.packets == Some(self.next);
        if is_over { PortState::Ended } else { state }
    }

    /// Returns the start of a packet that is delivered in part.
    #[cold]
    fn start_of(&mut self, drawn: Drawn, captured: usize, time_ns: u64) -> &[u8] {
        let whole = &mut self.whole[..drawn.length as usize];
        self.flows.build(drawn.flow, &mut &mut *whole, drawn.length as usize, time_ns);
        &whole[..captured]
    }
}

impl Port for Generator {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        let in_flight = self.account.offered - self.next.min(self.account.offered);
        let mut account = PortAccount { in_flight, ..self.account.clone() };
        self.judge.enter_into(&mut account);
        account
    }
}

impl Source for Generator {
    /// Cost: one reading of the clock, and no other system call.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let (due, mut state) = self.due();
        if budget == 0 && due > 0 {
            return Ok(Received { packets: 0, state: PortState::Blocked });
        }
        let longest = (self.judge.snapshot_bytes() as usize).min(writer.max_packet_bytes());
        if self.is_fast && longest >= self.flows.longest() {
            return Ok(self.receive_fast(writer, budget, due));
        }
        let (all, last) = (self.next.saturating_add(due), self.last_of_call(due));
        let (mut packets, mut is_full) = (0, false);
        while packets < budget && self.next < last {
            let drawn = self.draw();
            if self.judge.is_filtering() && self.skip_unwanted(drawn) {
                continue;
            }
            let meta = self.meta(drawn);
            let captured = (drawn.length as usize).min(longest);
            let Some(mut slot) = writer.reserve(captured) else {
                is_full = true;
                if self.judge.is_filtering() && self.pace.is_paced {
                    // Whether the others are wanted is not yet known.
                    self.lose(1);
                    continue;
                }
                if self.pace.is_paced {
                    self.lose((budget - packets).min(last - self.next));
                } else {
                    state = PortState::Blocked;
                }
                break;
            };
            match captured == drawn.length as usize {
                true => self.flows.build(drawn.flow, &mut slot, captured, meta.time_ns),
                false => slot.write(0, self.start_of(drawn, captured, meta.time_ns)),
            }
            slot.commit(&meta);
            self.account.bytes_copied += captured as u64;
            self.advance(drawn, captured);
            packets += 1;
        }
        if !is_full && self.next < all {
            state = PortState::Busy;
        }
        Ok(Received { packets, state: self.state_after(state) })
    }

    /// Builds the packets in the port's own buffer.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let first_packet = self.next - self.account.lost.total() - self.judge.filtered();
        let (due, mut state) = self.due();
        if budget == 0 && due > 0 {
            return Ok(Lent::new(scratch.burst(&[], first_packet), PortState::Blocked));
        }
        let mut buffer = match self.lent.take() {
            Some(buffer) => buffer,
            None => {
                let action = "make a buffer for";
                let fail = |error| PortError::Io { action, path: "gen:".into(), error };
                AlignedBuffer::new(LENT_BYTES.max(self.flows.longest())).map_err(fail)?
            }
        };
        let wanted = budget.min(SCRATCH_PACKETS as u64);
        let (all, last) = (self.next.saturating_add(due), self.last_of_call(due));
        let mut end = 0;
        while (scratch.len() as u64) < wanted && self.next < last {
            let drawn = self.draw();
            if self.judge.is_filtering() && self.skip_unwanted(drawn) {
                continue;
            }
            let captured = drawn.length.min(self.judge.snapshot_bytes()) as usize;
            let Some(mut place) = buffer.get_mut(end..end + captured) else { break };
            let meta = self.meta(drawn);
            match captured == drawn.length as usize {
                true => self.flows.build(drawn.flow, &mut place, captured, meta.time_ns),
                false => place.copy_from_slice(self.start_of(drawn, captured, meta.time_ns)),
            }
            scratch.push(end as u32, captured as u32, &meta);
            end += captured.next_multiple_of(16);
            self.advance(drawn, captured);
        }
        if self.next < all {
            state = PortState::Busy;
        }
        let state = self.state_after(state);
        let buffer = &*self.lent.insert(buffer);
        Ok(Lent::new(scratch.burst(buffer, first_packet), state))
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(self.lent.as_deref().unwrap_or(&[]), 0))
    }

    /// Returns when the next packet is due.
    fn low_time_ns(&self) -> Option<u64> {
        self.began_ns.map(|_| self.time_ns())
    }

    fn pacing(&self) -> Option<Pacing> {
        if !self.pace.is_paced {
            return None;
        }
        // Before the first poll, the first packet is due immediately.
        let next_ns = self.schedule.next_ns;
        let (began_ns, first_ns) = self.began_ns.unwrap_or((0, next_ns));
        Some(Pacing {
            packets_per_s: self.pace.rate_milli as f64 / 1e3,
            next_ns: began_ns.saturating_add(next_ns - first_ns),
            origin_ns: first_ns.wrapping_sub(began_ns),
        })
    }
}

/// The number of flows, and whether they take turns.
#[derive(Clone, Copy)]
struct Turns {
    flows: u64,
    are_taken: bool,
}

/// Draws the flow of a packet, and returns the remaining random bits.
#[inline]
fn draw(seed: u64, packet: u64, Turns { flows, are_taken }: Turns) -> (u32, u64) {
    let chance = mix(seed.wrapping_add(packet.wrapping_mul(GOLDEN)));
    let flow = match are_taken {
        true => packet % flows,
        false => ((chance & 0xffff_ffff) * flows) >> 32,
    };
    (flow as u32, chance)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes all bits into all. Source: Steele et al., SplitMix64, OOPSLA 2014.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

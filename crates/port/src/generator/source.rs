//! The generator itself.

use burstline_log::{MAX_PACKET_BYTES, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_sys::direct::AlignedBuffer;
use burstline_wire::filter::Program;
use burstline_wire::hash::FlowHasher;
use burstline_wire::headers::LinkType;

use super::recipe::Recipe;
use super::template::{MAX_START, Template};
use crate::filter::UNWANTED_MOST;
use crate::{
    Address, Capabilities, Lent, Loss, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortState, Received, TimestampSource,
};

/// Bytes of the frame check sequence, which sizes include and packets do not.
const FCS_BYTES: u32 = 4;

/// Room for one lent burst: it should stay in the second cache level.
const LENT_BYTES: usize = 256 << 10;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
const _: () = assert!(ZEROS.len() <= MAX_PACKET_BYTES);

/// A flow and its hash.
struct Flow {
    template: Template,
    hash: u32,
}

/// The times of packets: `start`, and one step of `1 / rate` s each, without drift.
struct Schedule {
    next_ns: u64,
    step_ns: u64,
    /// What a step has beyond whole nanoseconds, in `1 / rate` ns.
    rest: u64,
    carried: u64,
    rate: u64,
}

impl Schedule {
    fn new(start_ns: u64, rate: u64) -> Self {
        let (step_ns, rest) = (1_000_000_000 / rate, 1_000_000_000 % rate);
        Self { next_ns: start_ns, step_ns, rest, carried: 0, rate }
    }

    #[inline]
    fn advance(&mut self) {
        self.next_ns += self.step_ns;
        self.carried += self.rest;
        if self.carried >= self.rate {
            self.carried -= self.rate;
            self.next_ns += 1;
        }
    }
}

/// What packet `next` will be.
#[derive(Clone, Copy)]
struct Drawn {
    flow: u32,
    /// Bytes without FCS.
    length: u32,
}

/// What a filter needs: its program, and room for a packet to show it.
struct Judge {
    program: Program,
    packet: Vec<u8>,
    /// Packets that it did not want.
    filtered: u64,
}

/// Makes packets.
pub(super) struct Generator {
    info: PortInfo,
    recipe: Recipe,
    flows: Vec<Flow>,
    schedule: Schedule,
    /// When the first packet is due, by the monotonic clock; once it was polled.
    began_ns: Option<u64>,
    lent: Option<AlignedBuffer>,
    judge: Option<Judge>,
    port: u8,
    snapshot_bytes: u32,
    /// Number of the next packet.
    next: u64,
    /// Packets lost since the last one that was delivered.
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
        let capabilities = Capabilities {
            can_receive: true,
            can_lend: true,
            can_wait: !recipe.is_paced,
            is_finite: recipe.packets.is_some(),
            ..Capabilities::default()
        };
        let mut hasher = FlowHasher::new(options.hash);
        let flows = (0..recipe.flows).map(|flow| Flow::new(&recipe, flow, &mut hasher)).collect();
        let start_ns = recipe.start_ns.unwrap_or_else(clock::realtime_ns);
        let info = PortInfo {
            name: address.to_string(),
            capabilities,
            timestamps: TimestampSource::Synthetic,
        };
        let program = options.filter.compile(&info.name, LinkType::ETHERNET)?;
        let longest = recipe.sizes.longest() as usize + MAX_START;
        let judge = program.map(|program| Judge { program, packet: vec![0; longest], filtered: 0 });
        Ok(Self {
            info,
            flows,
            schedule: Schedule::new(start_ns, recipe.rate),
            recipe,
            began_ns: None,
            lent: None,
            judge,
            port,
            snapshot_bytes: options.snapshot_bytes.unwrap_or(u32::MAX),
            next: 0,
            drops_before: 0,
            account: PortAccount::default(),
        })
    }

    /// How many packets there can be now, and the state when there are none.
    fn due(&mut self) -> (u64, PortState) {
        let left = self.recipe.packets.map_or(u64::MAX, |packets| packets - self.next);
        if left == 0 {
            return (0, PortState::Ended);
        }
        if !self.recipe.is_paced {
            return (left, PortState::Busy);
        }
        let now_ns = clock::monotonic_ns();
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let elapsed_ns = u128::from(now_ns - began_ns);
        let due = elapsed_ns * u128::from(self.recipe.rate) / 1_000_000_000 + 1;
        let due = u64::try_from(due).unwrap_or(u64::MAX).min(self.next.saturating_add(left));
        self.account.offered = due;
        (due - self.next, PortState::Idle)
    }

    /// The number up to which a call may look at packets, of which so many are due: with a filter
    /// not all, since none may be wanted.
    fn last_of_call(&self, due: u64) -> u64 {
        let most = if self.judge.is_some() { UNWANTED_MOST } else { u64::MAX };
        self.next.saturating_add(due.min(most))
    }

    /// Passes over the next packet if the filter does not want it.
    fn skip_unwanted(&mut self, drawn: Drawn) -> bool {
        let Some(judge) = &mut self.judge else { return false };
        let (length, mut start) = (drawn.length as usize, [0; MAX_START]);
        let template = &self.flows[drawn.flow as usize].template;
        let written = template.build(&mut start, length, self.next);
        // What is behind the start is zeros in every packet.
        judge.packet[..written].copy_from_slice(&start[..written]);
        judge.packet[written..MAX_START].fill(0);
        if judge.program.run(&judge.packet[..length], drawn.length) > 0 {
            return false;
        }
        judge.filtered += 1;
        self.pass();
        true
    }

    /// Flow and size of the next packet.
    #[inline]
    fn draw(&self) -> Drawn {
        let chance = mix(self.recipe.seed.wrapping_add(self.next.wrapping_mul(GOLDEN)));
        let flow = ((chance & 0xffff_ffff) * u64::from(self.recipe.flows)) >> 32;
        let size = self.recipe.sizes.draw((chance >> 32) as u32);
        let shortest = self.flows[flow as usize].template.shortest() as u32;
        Drawn { flow: flow as u32, length: (size - FCS_BYTES).max(shortest) }
    }

    #[inline]
    fn meta(&self, drawn: Drawn) -> Meta {
        let mut meta = Meta::new(self.schedule.next_ns, drawn.length, self.port);
        meta.hash = self.flows[drawn.flow as usize].hash;
        meta.drops_before = self.drops_before;
        meta
    }

    /// Goes on to the next packet. `captured` bytes of this one were delivered.
    #[inline]
    fn advance(&mut self, drawn: Drawn, captured: usize) {
        self.pass();
        self.drops_before = 0;
        self.account.truncated += u64::from(captured < drawn.length as usize);
    }

    /// Goes on to the next packet, whatever became of this one.
    #[inline]
    fn pass(&mut self) {
        self.next += 1;
        self.schedule.advance();
        if !self.recipe.is_paced {
            self.account.offered = self.next;
        }
    }

    fn filtered(&self) -> u64 {
        self.judge.as_ref().map_or(0, |judge| judge.filtered)
    }

    /// Loses the next `packets` packets.
    fn lose(&mut self, packets: u64) {
        for _ in 0..packets {
            self.schedule.advance();
        }
        self.next += packets;
        self.drops_before += packets;
        self.account.lost.add(Loss::LogFull, packets);
    }

    fn state_after(&self, state: PortState) -> PortState {
        let is_over = self.recipe.packets == Some(self.next);
        if is_over { PortState::Ended } else { state }
    }
}

impl Flow {
    fn new(recipe: &Recipe, flow: u32, hasher: &mut FlowHasher) -> Self {
        let template = Template::new(recipe, flow);
        let (mut start, length) = ([0; MAX_START], template.shortest());
        template.build(&mut start, length, 0);
        let hash = hasher.hash(LinkType::ETHERNET, &start[..length]);
        Self { template, hash }
    }
}

impl Port for Generator {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// No system call, unless it is paced: then it reads the clock once.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let (due, mut state) = self.due();
        if budget == 0 && due > 0 {
            return Ok(Received { packets: 0, state: PortState::Blocked });
        }
        let (all, last) = (self.next.saturating_add(due), self.last_of_call(due));
        let (mut packets, mut is_full) = (0, false);
        while packets < budget && self.next < last {
            let drawn = self.draw();
            if self.judge.is_some() && self.skip_unwanted(drawn) {
                continue;
            }
            let meta = self.meta(drawn);
            let captured =
                (drawn.length.min(self.snapshot_bytes) as usize).min(writer.max_packet_bytes());
            let Some(mut slot) = writer.reserve(captured) else {
                is_full = true;
                if self.judge.is_some() && self.recipe.is_paced {
                    // Whether the others are wanted is not known yet.
                    self.lose(1);
                    continue;
                }
                if self.recipe.is_paced {
                    self.lose((budget - packets).min(last - self.next));
                } else {
                    state = PortState::Blocked;
                }
                break;
            };
            let mut start = [0; MAX_START];
            let flow = &self.flows[drawn.flow as usize];
            let written = flow.template.build(&mut start, drawn.length as usize, self.next);
            let written = written.min(captured);
            slot.write(0, &start[..written]);
            slot.write(written, &ZEROS[..captured - written]);
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

    /// The packets are made in a buffer of the port's own.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let first_packet = self.next - self.account.lost.total() - self.filtered();
        let (due, mut state) = self.due();
        if budget == 0 && due > 0 {
            return Ok(Lent { burst: scratch.burst(&[], first_packet), state: PortState::Blocked });
        }
        let mut buffer = match self.lent.take() {
            Some(buffer) => buffer,
            None => {
                let longest = self.recipe.sizes.longest() as usize + MAX_START;
                let action = "make a buffer for";
                let fail = |error| PortError::Io { action, path: "gen:".into(), error };
                AlignedBuffer::new(LENT_BYTES.max(longest)).map_err(fail)?
            }
        };
        let wanted = budget.min(SCRATCH_PACKETS as u64);
        let (all, last) = (self.next.saturating_add(due), self.last_of_call(due));
        let mut end = 0;
        while (scratch.len() as u64) < wanted && self.next < last {
            let drawn = self.draw();
            if self.judge.is_some() && self.skip_unwanted(drawn) {
                continue;
            }
            let captured = drawn.length.min(self.snapshot_bytes) as usize;
            let Some(place) = buffer.get_mut(end..end + captured) else { break };
            let mut start = [0; MAX_START];
            let flow = &self.flows[drawn.flow as usize];
            let written = flow.template.build(&mut start, drawn.length as usize, self.next);
            let (head, rest) = place.split_at_mut(written.min(captured));
            head.copy_from_slice(&start[..head.len()]);
            rest.fill(0);
            scratch.push(end as u32, captured as u32, &self.meta(drawn));
            end += captured.next_multiple_of(16);
            self.advance(drawn, captured);
        }
        if self.next < all {
            state = PortState::Busy;
        }
        let state = self.state_after(state);
        let buffer = &*self.lent.insert(buffer);
        Ok(Lent { burst: scratch.burst(buffer, first_packet), state })
    }

    fn account(&self) -> PortAccount {
        let in_flight = self.account.offered - self.next.min(self.account.offered);
        let mut account = PortAccount { in_flight, ..self.account.clone() };
        if let Some(judge) = &self.judge {
            account.lost.add(Loss::Filtered, judge.filtered);
        }
        account
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes all bits into all. Source: Steele et al., SplitMix64, OOPSLA 2014.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_do_not_drift() {
        let mut schedule = Schedule::new(100, 3);
        for _ in 0..3_000 {
            schedule.advance();
        }
        assert_eq!(schedule.next_ns, 100 + 1_000_000_000_000);
    }
}

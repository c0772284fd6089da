//! The open conversations of one source.
//!
//! ```text
//! 32 packets:  parse each, prefetch its index line
//!              find each slot, prefetch its two lines
//!              count each packet
//! then:        check some slots for finished conversations
//! ```
//!
//! A flow's state is two lines that each packet touches (`Ends`, `Counts`), and a third part that
//! only handshakes and ends touch (`Rare`). Its entry in the index (`index`) is also part of its
//! state.
//!
//! A record is over if a packet arrives after the idle timeout, or once it has been open for the
//! active timeout; the packet begins the next record. A closed connection stays for [`LINGER_NS`],
//! so that late ACKs belong to it; a new SYN ends it immediately. The sweep finds finished records
//! that see no packet. It uses the packets' own times.
//!
//! Invariants:
//! - T1: packets in returned records, in open ones and without one are the packets seen.
//! - T2: a slot is in the index and counts a packet, or is in `free`, or was never used.
//! - T3: the contents of a record do not depend on the sweep, as long as times do not go back.

mod account;
mod counts;
mod index;
mod rare;
mod sight;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};

use burstline_log::Burst;
use burstline_sys::memory::ask_for_large_pages;
use burstline_sys::prefetch;
use burstline_wire::headers::LinkType;

use crate::record::{EndReason, Place, Record};
pub use account::{NoFlow, TableCounts};
use counts::{ACK, Counts, SHOOK, SYN};
use index::Index;
use rare::{First, NO_RTT, Rare};
use sight::{Key, Sight};

/// The most bytes of state per flow of a table's capacity.
pub const STATE_BYTES_MAX: usize = 200;

/// Packets processed in one group.
const GROUP: usize = 32;

/// How long a closed connection stays for late packets.
const LINGER_NS: u64 = 1_000_000_000;

/// Most slots that the sweep checks after a group.
const SWEEP_MAX: usize = 128;

/// Slots that are checked for a free one when the table is full.
const SEARCH: usize = 16;

/// Size and timeouts of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Most open conversations, in `[1, 2^30]`.
    pub flows: usize,
    /// Idle timeout of a conversation in ns.
    pub idle_ns: u64,
    /// Active timeout in ns: then the record ends and the next one begins.
    pub active_ns: u64,
    /// Number of the source.
    pub port: u16,
    /// Whether packets have the losses before them; otherwise [`FlowTable::set_losses`] sets them.
    pub tells_gaps: bool,
}

/// The conversation of a slot; the first of the lines that every packet touches.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Ends {
    key: Key,
    macs: [u8; 12],
    /// The end that sent the first packet, and whether there are MAC addresses.
    origin: u8,
    has_macs: bool,
    icmp: [u8; 2],
}

/// A table of conversations: see the module.
pub struct FlowTable {
    config: TableConfig,
    secret: u64,
    index: Index,
    ends: Vec<Ends>,
    counts: Vec<Counts>,
    rare: Vec<Rare>,
    free: Vec<u32>,
    /// Slots below this were used.
    used: usize,
    sweep: Sweep,
    /// Packets that the port has lost so far.
    losses: u64,
    done: TableCounts,
    group: Box<[Sight; GROUP]>,
}

/// Progress of the search for finished records.
#[derive(Clone, Copy, Default)]
struct Sweep {
    hand: usize,
    /// The time up to which slots were checked.
    now_ns: u64,
}

impl FlowTable {
    /// Creates a table without conversations.
    ///
    /// Cost: the system provides memory when a slot is first used.
    #[must_use]
    pub fn new(config: TableConfig) -> Self {
        let flows = config.flows.clamp(1, 1 << 30);
        let (ends, counts) = (Vec::with_capacity(flows), Vec::with_capacity(flows));
        // Every packet touches two random lines in these: with small pages, most address
        // translations would also miss the TLB.
        ask_for_large_pages::<Ends>(ends.as_ptr(), flows);
        ask_for_large_pages::<Counts>(counts.as_ptr(), flows);
        Self {
            config: TableConfig { flows, ..config },
            secret: RandomState::new().hash_one(0),
            index: Index::new(flows),
            ends,
            counts,
            rare: Vec::with_capacity(flows),
            free: Vec::with_capacity(flows),
            used: 0,
            sweep: Sweep::default(),
            losses: 0,
            done: TableCounts::default(),
            group: Box::new([Sight::default(); GROUP]),
        }
    }

    /// Sets the losses of the source so far, if packets do not have them.
    pub fn set_losses(&mut self, packets: u64) {
        self.losses = packets;
    }

    /// Returns the bytes of state at full capacity.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let flow = size_of::<Ends>() + size_of::<Counts>() + size_of::<Rare>() + size_of::<u32>();
        self.index.bytes() + self.config.flows * flow
    }

    /// Returns the most conversations it can hold.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.config.flows
    }

    /// Returns its counts.
    #[must_use]
    pub fn counts(&self) -> TableCounts {
        self.done
    }

    /// Returns the number of open conversations.
    #[must_use]
    pub fn open(&self) -> usize {
        self.used - self.free.len()
    }

    /// Adds the packets of a burst, and passes finished records to `out`.
    ///
    /// `link_of` returns the link type of a port of the burst. `place_of` returns the location of a
    /// packet by its index in the burst; called when a record begins.
    pub fn see(
        &mut self,
        burst: &Burst<'_>,
        mut link_of: impl FnMut(u8) -> LinkType,
        place_of: impl Fn(usize) -> Place,
        out: &mut impl FnMut(&Record),
    ) {
        let mut packets = burst.packets();
        while packets.len() > 0 {
            let mut seen = [0_u8; GROUP];
            let (mut count, mut taken) = (0, 0);
            for packet in packets.by_ref().take(GROUP) {
                let link = link_of(packet.port());
                if self.config.tells_gaps {
                    self.losses += packet.drops_before();
                }
                match Sight::new(&packet, link, self.secret) {
                    Ok(sight) => {
                        self.index.ask(sight.hash);
                        self.group[count] = sight;
                        seen[count] = taken as u8;
                        count += 1;
                    }
                    Err(reason) => self.done.without_flow[reason as usize] += 1,
                }
                taken += 1;
            }
            self.done.packets += taken;
            if count == 0 {
                continue;
            }
            self.ask_for_slots(count);
            let start = burst.len() - packets.len() - taken as usize;
            for (at, nth) in seen.into_iter().enumerate().take(count) {
                let sight = self.group[at];
                let index = start + usize::from(nth);
                let first = || {
                    let packet = burst.packet(index);
                    let is_ethernet = link_of(packet.port()) == LinkType::ETHERNET;
                    let macs = is_ethernet.then(|| packet.bytes().first_chunk().copied()).flatten();
                    First { macs, place: place_of(index) }
                };
                self.enter(&sight, first, out);
            }
            let now_ns = self.group[count - 1].time_ns;
            self.sweep_at(now_ns, SWEEP_MAX, out);
        }
    }

    /// Passes records to `out` that are finished after `idle_ns` without a packet, by the machine's
    /// clock.
    pub fn rest(&mut self, last_ns: u64, idle_ns: u64, out: &mut impl FnMut(&Record)) {
        self.sweep_at(last_ns.saturating_add(idle_ns), self.used, out);
    }

    /// Returns the time of the last packet, in ns since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.sweep.now_ns
    }

    /// Ends all conversations.
    pub fn end(&mut self, out: &mut impl FnMut(&Record)) {
        for slot in 0..self.used {
            if self.counts[slot].packets() > 0 {
                let reason = self.counts[slot].closed().unwrap_or(EndReason::End);
                self.emit(slot, reason, out);
                self.release(slot);
            }
        }
    }

    /// Prefetches the lines of each packet's probable slot.
    #[inline]
    fn ask_for_slots(&self, count: usize) {
        for sight in &self.group[..count] {
            if let Some(slot) = self.index.find(sight.hash, |_| true) {
                prefetch::to_read(self.ends.as_ptr().wrapping_add(slot as usize));
                prefetch::to_write(self.counts.as_ptr().wrapping_add(slot as usize));
            }
        }
    }

    #[inline(always)]
    fn enter(
        &mut self,
        sight: &Sight,
        first: impl FnOnce() -> First,
        out: &mut impl FnMut(&Record),
    ) {
        let ends = &self.ends;
        let found = self.index.find(sight.hash, |slot| ends[slot as usize].key == sight.key);
        let slot = match found {
            Some(slot) => {
                let slot = slot as usize;
                if let Some(reason) = self.over(&self.counts[slot], sight) {
                    self.emit(slot, reason, out);
                    self.begin(slot, sight, first());
                    self.counts[slot] = self.counts[slot].continued(reason);
                }
                slot
            }
            None => {
                let Some(slot) = self.room(out) else {
                    self.done.without_flow[NoFlow::TableFull as usize] += 1;
                    return;
                };
                self.begin(slot, sight, first());
                self.counts[slot] = Counts::default();
                self.index.insert(sight.hash, slot as u32);
                slot
            }
        };
        let counts = &mut self.counts[slot];
        if counts.packets() == 0 {
            (counts.first_ns, counts.last_ns) = (sight.time_ns, sight.time_ns);
        }
        counts.first_ns = counts.first_ns.min(sight.time_ns);
        counts.last_ns = counts.last_ns.max(sight.time_ns);
        counts.packets[sight.from] += 1;
        counts.bytes[sight.from] += u64::from(sight.bytes);
        if let Some(segment) = sight.segment {
            counts.flags[sight.from] |= segment.flags;
            counts.follow(&segment, sight.from);
            if counts.state & SHOOK == 0 && segment.flags & (SYN | ACK) != 0 {
                counts.shake(&segment, sight, &mut self.rare[slot].rtt_ns);
            }
        }
    }

    /// Returns why the record in this slot does not take this packet.
    #[inline(always)]
    fn over(&self, counts: &Counts, sight: &Sight) -> Option<EndReason> {
        if let Some(reason) = counts.closed() {
            let is_new = sight.segment.is_some_and(|segment| segment.flags & (SYN | ACK) == SYN);
            let is_late = counts.gap(sight.time_ns) > LINGER_NS;
            return (is_new || is_late).then_some(reason);
        }
        if counts.gap(sight.time_ns) > self.config.idle_ns {
            return Some(EndReason::Idle);
        }
        let age = sight.time_ns.saturating_sub(counts.first_ns);
        (age >= self.config.active_ns).then_some(EndReason::Active)
    }

    /// Returns a slot for a new conversation.
    fn room(&mut self, out: &mut impl FnMut(&Record)) -> Option<usize> {
        if self.free.is_empty() && self.used == self.config.flows {
            self.look_at_slots(SEARCH, out);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None if self.used < self.config.flows => {
                self.used += 1;
                // `new` reserved their capacity: nothing is moved.
                self.ends.push(Ends::default());
                self.counts.push(Counts::default());
                self.rare.push(Rare::default());
                self.used - 1
            }
            None => return None,
        };
        self.done.open_most = self.done.open_most.max(self.open() as u64);
        Some(slot)
    }

    fn begin(&mut self, slot: usize, sight: &Sight, First { macs, place }: First) {
        self.ends[slot] = Ends {
            key: sight.key,
            macs: macs.unwrap_or_default(),
            origin: sight.from as u8,
            has_macs: macs.is_some(),
            icmp: sight.icmp,
        };
        self.rare[slot] = Rare::new(sight.hash, self.losses, place);
    }

    fn release(&mut self, slot: usize) {
        self.index.remove(self.rare[slot].hash, slot as u32);
        self.counts[slot] = Counts::default();
        self.free.push(slot as u32);
    }

    /// Advances the sweep to this time: it checks every slot twice per idle timeout.
    #[inline]
    fn sweep_at(&mut self, now_ns: u64, most: usize, out: &mut impl FnMut(&Record)) {
        let passed = now_ns.saturating_sub(self.sweep.now_ns).min(self.config.idle_ns);
        let period = (self.config.idle_ns / 2).max(1);
        let due = (u128::from(passed) * self.used as u128).div_ceil(u128::from(period)) as usize;
        self.sweep.now_ns = now_ns;
        if due > 0 {
            self.look_at_slots(due.min(most), out);
        }
    }

    fn look_at_slots(&mut self, count: usize, out: &mut impl FnMut(&Record)) {
        let now_ns = self.sweep.now_ns;
        for _ in 0..count.min(self.used) {
            let slot = self.sweep.hand % self.used;
            self.sweep.hand = slot + 1;
            let counts = &self.counts[slot];
            if counts.packets() == 0 {
                continue;
            }
            let closed = counts.closed();
            let most_ns = closed.map_or(self.config.idle_ns, |_| LINGER_NS);
            if counts.gap(now_ns) > most_ns {
                self.emit(slot, closed.unwrap_or(EndReason::Idle), out);
                self.release(slot);
            }
        }
    }

    #[inline(never)]
    fn emit(&mut self, slot: usize, end: EndReason, out: &mut impl FnMut(&Record)) {
        let (ends, counts, rare) = (&self.ends[slot], &self.counts[slot], &self.rare[slot]);
        let from = usize::from(ends.origin);
        let back = 1 - from;
        let record = Record {
            key: ends.key.flow(from),
            icmp: ends.key.has_icmp().then_some(ends.icmp),
            vlan: ends.key.vlan(),
            tunnel: ends.key.tunnel(),
            macs: ends.has_macs.then_some(ends.macs),
            port: self.config.port,
            first_ns: counts.first_ns,
            last_ns: counts.last_ns,
            packets: counts.packets(),
            packets_back: counts.packets[back],
            bytes: counts.bytes[0] + counts.bytes[1],
            bytes_back: counts.bytes[back],
            tcp_flags: counts.flags[from],
            tcp_flags_back: counts.flags[back],
            rtt_ns: (rare.rtt_ns != NO_RTT).then_some(rare.rtt_ns),
            retransmissions: counts.retransmissions,
            end,
            losses: self.losses.saturating_sub(rare.losses),
            place: rare.place(),
        };
        self.done.records += 1;
        self.done.packets_in_records += record.packets;
        out(&record);
    }
}

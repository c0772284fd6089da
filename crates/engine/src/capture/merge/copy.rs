//! Copies packets into the log in the order that was determined, or names them there.
//!
//! Most packets are plain and in time. They are *gathered*: the loop looks only at the input of
//! each. If a packet has facts, or is late, or no segment holds the longest, the chunk's packets
//! are appended one by one, and counted.

use burstline_log::{Appended, Burst, Flags, Meta, Strand, Writer};

use crate::merge::chunk::{self, Row};
use crate::merge::order::{Lane, Order, Picks, input_of};

/// Counts of one input's copied packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) copied: u64,
    /// Their bytes, as stored in the log.
    pub(super) bytes: u64,
    /// Packets that were whole before, but that no segment could hold whole.
    pub(super) cut: u64,
    pub(super) late: u64,
    pub(super) late_most_ns: u64,
}

/// All packets copied so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    pub(super) packets: u64,
    /// The latest time of these packets.
    pub(super) newest_ns: u64,
}

/// The packets of an input in the order: a range of a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) burst: Burst<'a>,
    pub(super) from: usize,
    pub(super) count: usize,
    /// Added to their times, in ns.
    pub(super) offset_ns: i64,
}

/// The order to copy by, and the state that copying changes; one lane and one count for each input.
pub(super) struct Goods<'a> {
    pub(super) order: &'a Order,
    pub(super) lanes: &'a mut [Lane],
    pub(super) counts: &'a mut [Counts],
}

impl Sequence {
    /// Copies the packets of an order until the log is full, and returns how many. Each input that
    /// is in the order has a part. `strands` is an empty buffer.
    pub(super) fn copy<'a>(
        &mut self,
        goods: Goods<'_>,
        parts: &[Option<Part<'a>>],
        strands: &mut Vec<Strand<'a>>,
        writer: &mut Writer,
    ) -> usize {
        let is_ready = self.prepare(&goods, parts, strands, writer.max_packet_bytes());
        let copied = match is_ready {
            Some(()) => self.gather(goods, strands, writer),
            None => self.append(goods, parts, writer),
        };
        self.packets += copied as u64;
        copied
    }

    /// Appends a chunk that names the packets of an order, and returns how many: all, or none if
    /// the log of chunks is full. `chunk` is a buffer. Cost: some three instructions a packet.
    pub(super) fn name(
        &mut self,
        mut goods: Goods<'_>,
        parts: &[Option<Part<'_>>],
        chunk: &mut Vec<u8>,
        writer: &mut Writer,
    ) -> usize {
        let row = |part: &Option<Part<'_>>| match part {
            None => Row::default(),
            Some(part) => Row {
                first_packet: part.burst.first_packet() + part.from as u64,
                packets: part.count as u32,
            },
        };
        chunk::write(chunk, parts.iter().map(row), &goods.order.picks());
        let meta = Meta::new(self.newest_ns, chunk.len() as u32, 0);
        if writer.append(chunk, &meta) == Appended::Full {
            return 0;
        }
        let named = goods.order.len();
        self.packets += named as u64;
        self.pass(&mut goods);
        named
    }

    /// Removes the packets of an order from their lanes, and counts those that are late.
    fn pass(&mut self, goods: &mut Goods<'_>) {
        let order = goods.order;
        let in_time = |(index, lane): (usize, &Lane)| {
            order.part(index) == 0 || (lane.is_in_order() && lane.head_ns() >= self.newest_ns)
        };
        if goods.lanes.iter().enumerate().all(in_time) {
            for (index, lane) in goods.lanes.iter_mut().enumerate() {
                lane.take(order.part(index));
                if order.part(index) > 0 {
                    self.newest_ns = self.newest_ns.max(lane.time_ns(lane.next() - 1));
                }
            }
            return;
        }
        let mut next = |input: usize| {
            let lane = &mut goods.lanes[input];
            let time_ns = lane.time_ns(lane.next());
            lane.take(1);
            if time_ns < self.newest_ns {
                goods.counts[input].note_late(self.newest_ns - time_ns);
            }
            self.newest_ns = self.newest_ns.max(time_ns);
        };
        match order.picks() {
            Picks::Keys(keys) => keys.iter().for_each(|key| next(input_of(*key))),
            Picks::Runs(runs) => {
                runs.iter().for_each(|run| (0..run.count).for_each(|_| next(run.input)))
            }
        }
    }

    /// Makes the strands, if all packets can be gathered.
    fn prepare<'a>(
        &self,
        goods: &Goods<'_>,
        parts: &[Option<Part<'a>>],
        strands: &mut Vec<Strand<'a>>,
        longest: usize,
    ) -> Option<()> {
        for (part, lane) in parts.iter().zip(&*goods.lanes) {
            let Some(part) = part else {
                strands.push(Strand::empty());
                continue;
            };
            let is_in_time = lane.is_in_order() && lane.head_ns() >= self.newest_ns;
            let strand = Strand::new(&part.burst, part.from, part.count, part.offset_ns)?;
            if !is_in_time || strand.longest() > longest {
                return None;
            }
            strands.push(strand);
        }
        Some(())
    }

    /// Gathers packets. Cost: some sixty instructions a packet; some thirty if they come in runs.
    fn gather(
        &mut self,
        goods: Goods<'_>,
        strands: &mut [Strand<'_>],
        writer: &mut Writer,
    ) -> usize {
        let copied = match goods.order.picks() {
            Picks::Keys(keys) => writer.gather(strands, keys),
            Picks::Runs(runs) => {
                let mut copied = 0;
                for run in runs {
                    let count = writer.gather_run(&mut strands[run.input], run.count);
                    copied += count;
                    if count < run.count {
                        break;
                    }
                }
                copied
            }
        };
        let inputs = goods.lanes.iter_mut().zip(goods.counts).zip(strands).enumerate();
        for (index, ((lane, counts), strand)) in inputs {
            let taken = goods.order.part(index) - strand.left();
            lane.take(taken);
            counts.copied += taken as u64;
            counts.bytes += strand.taken_bytes();
            if taken > 0 {
                self.newest_ns = self.newest_ns.max(lane.time_ns(lane.next() - 1));
            }
        }
        copied
    }

    /// Appends packets one by one. Cost: a copy and some hundred instructions a packet.
    fn append(
        &mut self,
        mut goods: Goods<'_>,
        parts: &[Option<Part<'_>>],
        writer: &mut Writer,
    ) -> usize {
        let (mut copied, order) = (0, goods.order);
        let mut next = |input: usize| {
            let is_in = self.append_next(input, &mut goods, parts, writer);
            copied += usize::from(is_in);
            is_in
        };
        let _ = match order.picks() {
            Picks::Keys(keys) => keys.iter().all(|key| next(input_of(*key))),
            Picks::Runs(runs) => runs.iter().all(|run| (0..run.count).all(|_| next(run.input))),
        };
        copied
    }

    /// Appends the next packet of an input. Returns false if the log has no room.
    fn append_next(
        &mut self,
        input: usize,
        goods: &mut Goods<'_>,
        parts: &[Option<Part<'_>>],
        writer: &mut Writer,
    ) -> bool {
        let Some(part) = &parts[input] else { return false };
        let (lane, counts) = (&mut goods.lanes[input], &mut goods.counts[input]);
        let time_ns = lane.time_ns(lane.next());
        match append(&part.burst, lane.next(), time_ns, writer) {
            Appended::Whole => {}
            Appended::Truncated => counts.cut += 1,
            Appended::Full => return false,
        }
        let packet = part.burst.packet(lane.next());
        counts.bytes += packet.length().min(writer.max_packet_bytes()) as u64;
        counts.copied += 1;
        lane.take(1);
        if time_ns < self.newest_ns {
            counts.note_late(self.newest_ns - time_ns);
        }
        self.newest_ns = self.newest_ns.max(time_ns);
        true
    }
}

impl Counts {
    #[cold]
    fn note_late(&mut self, by_ns: u64) {
        self.late += 1;
        self.late_most_ns = self.late_most_ns.max(by_ns);
    }
}

/// Appends packet `index` of a burst, with the time `time_ns`.
fn append(view: &Burst<'_>, index: usize, time_ns: u64, writer: &mut Writer) -> Appended {
    let packet = view.packet(index);
    let desc = packet.desc();
    let meta = Meta {
        time_ns,
        drops_before: packet.drops_before(),
        original_length: packet.original_length() as u32,
        hash: desc.hash(),
        port: desc.port(),
        flags: desc.flags().without(Flags::FACTS),
    };
    let appended = writer.append(packet.bytes(), &meta);
    // A packet truncated earlier is counted already.
    let was_whole = packet.length() == packet.original_length();
    if appended == Appended::Truncated && !was_whole { Appended::Whole } else { appended }
}

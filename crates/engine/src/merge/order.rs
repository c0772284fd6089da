//! Puts the packets in hand in order: finds which packet of which input comes next.
//!
//! ```text
//!  input 0   times | 10 | 14 | 15 |            order   0.0  1.0  1.1  0.1 ...
//!  input 1   times | 11 | 12 | 20 |    --->            up to the first input that has no packet
//!  input 2   idle, promises 16                         in hand and may yet bring the next: 2
//! ```
//!
//! This module compares only times, in one array per input; the caller copies the packets later.
//! The *horizon* is the earliest point at which an input may deliver more packets. It is computed
//! first: everything before it can be ordered. The rest is a merge of sorted rows of known lengths.
//! There are two ways to merge:
//!
//! - *By packet* ([`rows`]): two rows at a time, without a branch on which comes next. Packets of
//!   different inputs interleave arbitrarily, so such a branch cannot be predicted.
//! - *By run*: if many packets of one input come before the next packet of another, one comparison
//!   with that packet finds the whole run.
//!
//! Invariant O1: times in a lane ascend. A packet older than its predecessor of the same input gets
//! the predecessor's time here. So it goes next as soon as it is its input's first packet.

mod rows;

use std::ops::Range;

use rows::Rows;

/// A time that no packet has. As a promise it means that the merge does not wait for the input.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// Packets put in order at a time. Their times, and the copied bytes, stay in the L1 cache.
pub(crate) const CHUNK: usize = 512;

/// The most inputs with packets for which the order is searched by run.
const RUNS_INPUTS_MOST: usize = 16;

/// The average number of packets in a run from which ordering by run pays off.
const RUN_PACKETS: usize = 6;

/// Packets of an order by packet that are sampled to estimate the length of runs.
const SAMPLE: usize = 64;

/// A time and the number of its input, so equal times keep the inputs' order.
///
/// It is one word, so that a comparison is one instruction. The time counts from a [`Base`], and
/// ranges from 19 hours before to 58 hours after. No key is 0 or `u64::MAX`.
pub(crate) type Key = u64;

const INPUT_BITS: u32 = 16;
/// The first time that a key cannot represent, counted from the base.
const FAR_NS: u64 = (1 << (64 - INPUT_BITS)) - 2;
/// How far a base is before the time it is created for, in ns.
const BACK_NS: u64 = 1 << 46;

/// The time from which the times of keys count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Base(u64);

impl Base {
    /// Returns a base for keys around `time_ns`.
    fn around(time_ns: u64) -> Self {
        Self(time_ns.saturating_sub(BACK_NS))
    }

    /// Returns the last time that a key can represent.
    fn last_ns(self) -> u64 {
        self.0.saturating_add(FAR_NS - 1)
    }

    #[inline(always)]
    fn key(self, time_ns: u64, input: usize) -> Key {
        (time_ns.wrapping_sub(self.0) + 1) << INPUT_BITS | input as u64
    }
}

/// Returns the input of a key.
#[inline(always)]
pub(crate) fn input_of(key: Key) -> usize {
    usize::from(key as u16)
}

/// The packets that one input has in hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The times of its burst's packets, below [`NEVER_NS`] and ascending (O1).
    times_ns: Vec<u64>,
    /// The original times, if they differ; else empty.
    own_ns: Vec<u64>,
    /// The time that the input promises for packets after this burst.
    low_ns: u64,
    /// The first packet not yet taken.
    next: usize,
}

impl Lane {
    /// Creates the lane of an input that has no packets and promises nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Starts a new burst, after all packets of the last one were taken. Cost: a few instructions
    /// per packet.
    pub(crate) fn refill(&mut self, times_ns: impl Iterator<Item = u64>, low_ns: u64) {
        self.times_ns.clear();
        self.times_ns.extend(times_ns.map(|time_ns| time_ns.min(NEVER_NS - 1)));
        self.own_ns.clear();
        (self.low_ns, self.next) = (low_ns, 0);
        if !is_ascending(&self.times_ns) {
            self.raise();
        }
    }

    /// Restores O1 by raising times that are too low.
    #[cold]
    fn raise(&mut self) {
        self.own_ns.extend_from_slice(&self.times_ns);
        let mut newest_ns = 0;
        for time_ns in &mut self.times_ns {
            newest_ns = newest_ns.max(*time_ns);
            *time_ns = newest_ns;
        }
    }

    /// Sets the time that the input promises for packets after its burst.
    pub(crate) fn promise(&mut self, low_ns: u64) {
        self.low_ns = low_ns;
    }

    /// Returns the number of packets not yet taken.
    pub(crate) fn left(&self) -> usize {
        self.times_ns.len() - self.next
    }

    /// Returns the index of the first packet not yet taken.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Returns whether all packets of the burst are in order of their times.
    pub(crate) fn is_in_order(&self) -> bool {
        self.own_ns.is_empty()
    }

    /// Returns the original time of packet `index` of the burst.
    pub(crate) fn time_ns(&self, index: usize) -> u64 {
        if self.is_in_order() { self.times_ns[index] } else { self.own_ns[index] }
    }

    /// Returns the time of the burst's last packet, if it has one.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.times_ns.len().checked_sub(1).map(|at| self.time_ns(at))
    }

    /// Returns the next packet's time, or the promise if no packet is left.
    pub(crate) fn head_ns(&self) -> u64 {
        self.times_ns.get(self.next).copied().unwrap_or(self.low_ns)
    }

    /// Removes the next `count` packets.
    pub(crate) fn take(&mut self, count: usize) {
        self.next += count;
    }

    /// Returns the time up to which this lane can be put in order, `most` packets at a time. That
    /// is its last packet's time or its promise.
    fn end(&self, input: usize, most: usize) -> Option<Horizon> {
        let left = &self.times_ns[self.next..];
        let end = |time_ns, stop| Some(Horizon { time_ns, input, stop });
        if left.len() > most {
            return end(left[most - 1], Stop::Long);
        }
        let last_ns = left.last().copied().unwrap_or_default();
        match self.low_ns {
            NEVER_NS => None,
            low_ns => end(low_ns.max(last_ns), Stop::Empty(input)),
        }
    }

    /// Returns how many packets come before a horizon. For the horizon's own input, these are the
    /// packets before its end.
    fn before(&self, input: usize, horizon: &Horizon, most: usize) -> usize {
        let left = &self.times_ns[self.next..];
        if input == horizon.input {
            return left.len().min(most);
        }
        // Packets with equal times are in the order of the inputs.
        let end_ns = horizon.time_ns.saturating_add(u64::from(input < horizon.input));
        left.partition_point(|&time_ns| time_ns < end_ns)
    }
}

/// Returns whether the times ascend. Checks all pairs, because a loop without early exit is faster.
fn is_ascending(times_ns: &[u64]) -> bool {
    let pairs = times_ns.iter().zip(times_ns.get(1..).unwrap_or_default());
    pairs.fold(true, |is_so, (one, next)| is_so & (one <= next))
}

/// Why an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The order has the requested length, or the next times are too far from the first.
    Long,
    /// This input has no packet in hand, and may deliver one that comes before all others.
    Empty(usize),
    /// No input has packets, and none is waited for.
    Over,
}

/// The end of the order: only packets before this time of this input are in it.
#[derive(Clone, Copy, Debug)]
struct Horizon {
    time_ns: u64,
    input: usize,
    stop: Stop,
}

/// Consecutive packets of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) input: usize,
    pub(crate) count: usize,
}

/// The packets that come next.
#[derive(Debug)]
pub(crate) enum Picks<'a> {
    /// One key per packet; its low 16 bits are the input.
    Keys(&'a [Key]),
    Runs(&'a [Run]),
}

/// Puts packets in order, a chunk at a time.
#[derive(Debug, Default)]
pub(crate) struct Order {
    rows: Rows,
    runs: Vec<Run>,
    /// Which packets of each lane are in the order.
    parts: Vec<Range<usize>>,
    /// Whether this chunk was put in order by run.
    is_by_run: bool,
    /// Whether the next one will be, because traffic so far came in runs.
    are_runs: bool,
    count: usize,
}

impl Order {
    /// Puts up to `most` packets of all lanes in order, about [`CHUNK`] at a time. Lanes have fewer
    /// than 2^16 packets.
    ///
    /// Packets of a lane stay in its order, whatever their times. A packet older than its
    /// predecessor comes as soon as it is its lane's first.
    ///
    /// Cost: ordering by packet takes about ten instructions a packet for each doubling of the
    /// number of lanes. Ordering by run looks at each lane once per run.
    pub(crate) fn find(&mut self, lanes: &[Lane], most: usize) -> Stop {
        let first_ns = lanes.iter().map(Lane::head_ns).min().unwrap_or(NEVER_NS);
        let active = lanes.iter().filter(|lane| lane.left() > 0).count();
        let share = (CHUNK / active.max(1)).max(1);
        let base = Base::around(first_ns);
        let horizon = self.find_horizon(lanes, base, share);
        let parts = lanes.iter().enumerate().map(|(input, lane)| {
            let count = horizon.map_or(lane.left(), |end| lane.before(input, &end, share));
            lane.next..lane.next + count
        });
        self.parts.clear();
        self.parts.extend(parts);
        let all = self.parts.iter().map(Range::len).sum::<usize>();
        self.count = all.min(most);
        if self.count == 0 && all > 0 {
            return Stop::Long;
        }
        self.is_by_run = self.are_runs && active <= RUNS_INPUTS_MOST;
        match self.is_by_run {
            true => self.find_runs(lanes),
            false => self.find_keys(lanes, base),
        }
        match horizon {
            _ if all > most => Stop::Long,
            Some(horizon) => horizon.stop,
            None => Stop::Over,
        }
    }

    /// Returns the earliest end of all lanes, at most the last time the base can represent.
    fn find_horizon(&self, lanes: &[Lane], base: Base, share: usize) -> Option<Horizon> {
        let ends = lanes.iter().enumerate().filter_map(|(input, lane)| lane.end(input, share));
        let first = ends.min_by_key(|end| (end.time_ns, end.input));
        let last_ns = base.last_ns();
        let is_beyond = |lane: &Lane| lane.times_ns[lane.next..].last() > Some(&last_ns);
        match first {
            Some(end) if end.time_ns <= last_ns => Some(end),
            None if !lanes.iter().any(is_beyond) => None,
            // Only a key of another base can tell which input comes after that.
            _ => Some(Horizon { time_ns: last_ns, input: usize::MAX, stop: Stop::Long }),
        }
    }

    /// Returns the packets in order, no more than were requested.
    pub(crate) fn picks(&self) -> Picks<'_> {
        match self.is_by_run {
            true => Picks::Runs(&self.runs),
            false => Picks::Keys(&self.rows.keys()[..self.count]),
        }
    }

    /// Returns how many packets are in order.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns how many packets of an input are in the order, if it has no more than requested.
    pub(crate) fn part(&self, input: usize) -> usize {
        self.parts[input].len()
    }

    fn find_keys(&mut self, lanes: &[Lane], base: Base) {
        self.rows.clear();
        for (input, (lane, part)) in lanes.iter().zip(&self.parts).enumerate() {
            let times_ns = &lane.times_ns[part.clone()];
            self.rows.add(times_ns.iter().map(|&time_ns| base.key(time_ns, input)));
        }
        self.rows.merge();
        let sample = &self.rows.keys()[..self.count.min(SAMPLE)];
        let changes = sample.windows(2).filter(|pair| input_of(pair[0]) != input_of(pair[1]));
        let is_enough = sample.len() == SAMPLE;
        self.are_runs = is_enough && (1 + changes.count()) * RUN_PACKETS <= sample.len();
    }

    fn find_runs(&mut self, lanes: &[Lane]) {
        self.runs.clear();
        let mut left = self.count;
        let mut parts = std::mem::take(&mut self.parts);
        while left > 0 {
            let Some(run) = next_run(lanes, &parts) else { break };
            let count = run.count.min(left);
            parts[run.input].start += count;
            left -= count;
            self.runs.push(Run { count, ..run });
        }
        for (part, lane) in parts.iter_mut().zip(lanes) {
            part.start = lane.next;
        }
        self.parts = parts;
        self.are_runs = self.count < SAMPLE || self.runs.len() * RUN_PACKETS <= 2 * self.count;
    }
}

/// Returns the next input's packets, up to the next packet of another input.
fn next_run(lanes: &[Lane], parts: &[Range<usize>]) -> Option<Run> {
    let (mut first, mut second) = ((NEVER_NS, usize::MAX), (NEVER_NS, usize::MAX));
    for (input, (lane, part)) in lanes.iter().zip(parts).enumerate() {
        if part.is_empty() {
            continue;
        }
        let head = (lane.times_ns[part.start], input);
        if head < first {
            (first, second) = (head, first);
        } else if head < second {
            second = head;
        }
    }
    let input = first.1;
    let times_ns = lanes.get(input)?.times_ns.get(parts[input].clone())?;
    let end_ns = second.0.saturating_add(u64::from(input < second.1));
    let count = match second.1 {
        usize::MAX => times_ns.len(),
        _ => gallop(times_ns, end_ns),
    };
    Some(Run { input, count })
}

/// Returns how many leading times are before `end_ns`: at least one. Cost: logarithmic in that.
fn gallop(times_ns: &[u64], end_ns: u64) -> usize {
    let mut step = 1;
    while step < times_ns.len() && times_ns[step] < end_ns {
        step *= 2;
    }
    let (from, to) = (step / 2, (step + 1).min(times_ns.len()));
    from + times_ns[from..to].partition_point(|&time_ns| time_ns < end_ns)
}

#[cfg(test)]
mod tests;

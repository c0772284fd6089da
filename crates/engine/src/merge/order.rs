//! The order of packets that are in hand: which input is next, and which packet of it.
//!
//! ```text
//!  input 0   times | 10 | 14 | 15 |            order   0.0  1.0  1.1  0.1 ...
//!  input 1   times | 11 | 12 | 20 |    --->            up to the first input that has no packet
//!  input 2   idle, promises 16                         in hand and may yet bring the next: 2
//! ```
//!
//! Only times are looked at here, in an array for each input; packets are copied afterwards, when
//! it is known where the next ones lie. What may go is known before anything is put in order: all
//! that comes before the first input that may then bring more, the *horizon*. What is left to do is
//! to bring together rows that are sorted, of known lengths. There are two ways to do that:
//!
//! - *By packet* ([`rows`]): two rows at a time, without a branch on what comes next. Any packet
//!   may lie between two of another input, so that branch cannot be predicted.
//! - *By run*: where many packets of an input come before the next one of another, one comparison
//!   with that finds them all.
//!
//! Invariant O1: times in a lane ascend. A packet older than the one before it of its own input
//! gets that one's time here: it always comes as soon as it is its input's next.

mod rows;

use std::ops::Range;

use rows::Rows;

/// A time that no packet has: an input that is not waited for.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// Packets put in order at a time: their times, and what is copied of them, stay in the first cache
/// level.
pub(crate) const CHUNK: usize = 512;

/// With more inputs than this that have packets, runs are not looked for.
const RUNS_INPUTS_MOST: usize = 16;

/// Runs are worth looking for where they have this many packets on the average.
const RUN_PACKETS: usize = 6;

/// Packets of an order by packet that are looked at to tell.
const SAMPLE: usize = 64;

/// A time and the number of the input that has it: equal times keep the inputs' order.
///
/// One word, so that a comparison is one instruction: the time counts from a [`Base`], 19 hours
/// back and 58 ahead. None is 0, and none is `u64::MAX`.
pub(crate) type Key = u64;

const INPUT_BITS: u32 = 16;
/// The first time that a key cannot tell, counted from the base.
const FAR_NS: u64 = (1 << (64 - INPUT_BITS)) - 2;
/// How far a base is before the time that it is made for, in ns.
const BACK_NS: u64 = 1 << 46;

/// What the times of some keys count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Base(u64);

impl Base {
    /// For keys around `time_ns`.
    fn around(time_ns: u64) -> Self {
        Self(time_ns.saturating_sub(BACK_NS))
    }

    /// The last time that a key can tell.
    fn last_ns(self) -> u64 {
        self.0.saturating_add(FAR_NS - 1)
    }

    #[inline(always)]
    fn key(self, time_ns: u64, input: usize) -> Key {
        (time_ns.wrapping_sub(self.0) + 1) << INPUT_BITS | input as u64
    }
}

/// The input that a key is of.
#[inline(always)]
pub(crate) fn input_of(key: Key) -> usize {
    usize::from(key as u16)
}

/// What one input has in hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The times of its burst's packets, below [`NEVER_NS`], as they are here (O1).
    times_ns: Vec<u64>,
    /// As they are, where those differ.
    own_ns: Vec<u64>,
    /// What the input promises when those are gone.
    low_ns: u64,
    /// The first packet that has not gone yet.
    next: usize,
}

impl Lane {
    /// An input that has nothing, and promises nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Begins another burst; none is in hand any more. Cost: some instructions a packet.
    pub(crate) fn refill(&mut self, times_ns: impl Iterator<Item = u64>, low_ns: u64) {
        self.times_ns.clear();
        self.times_ns.extend(times_ns.map(|time_ns| time_ns.min(NEVER_NS - 1)));
        self.own_ns.clear();
        (self.low_ns, self.next) = (low_ns, 0);
        if !is_ascending(&self.times_ns) {
            self.raise();
        }
    }

    /// Keeps O1.
    #[cold]
    fn raise(&mut self) {
        self.own_ns.extend_from_slice(&self.times_ns);
        let mut newest_ns = 0;
        for time_ns in &mut self.times_ns {
            newest_ns = newest_ns.max(*time_ns);
            *time_ns = newest_ns;
        }
    }

    /// What the input promises once its burst is gone.
    pub(crate) fn promise(&mut self, low_ns: u64) {
        self.low_ns = low_ns;
    }

    /// Packets that have not gone yet.
    pub(crate) fn left(&self) -> usize {
        self.times_ns.len() - self.next
    }

    /// The first of them.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Whether all packets of the burst come in order of their times.
    pub(crate) fn is_in_order(&self) -> bool {
        self.own_ns.is_empty()
    }

    /// The time of packet `index` of the burst.
    pub(crate) fn time_ns(&self, index: usize) -> u64 {
        if self.is_in_order() { self.times_ns[index] } else { self.own_ns[index] }
    }

    /// The time of the burst's last packet, if there is one.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.times_ns.len().checked_sub(1).map(|at| self.time_ns(at))
    }

    /// What comes next: a packet's time, or the promise.
    pub(crate) fn head_ns(&self) -> u64 {
        self.times_ns.get(self.next).copied().unwrap_or(self.low_ns)
    }

    /// The next `count` packets have gone.
    pub(crate) fn take(&mut self, count: usize) {
        self.next += count;
    }

    /// The time up to which this lane can be put in order, `most` packets at a time, if it has one:
    /// its last packet's time, or its promise.
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

    /// How many packets come before a horizon. Its own input's are those before its end.
    fn before(&self, input: usize, horizon: &Horizon, most: usize) -> usize {
        let left = &self.times_ns[self.next..];
        if input == horizon.input {
            return left.len().min(most);
        }
        // What is as old comes in the order of the inputs.
        let end_ns = horizon.time_ns.saturating_add(u64::from(input < horizon.input));
        left.partition_point(|&time_ns| time_ns < end_ns)
    }
}

/// Whether none is greater than the next one. Looks at all, as a processor does that best.
fn is_ascending(times_ns: &[u64]) -> bool {
    let pairs = times_ns.iter().zip(times_ns.get(1..).unwrap_or_default());
    pairs.fold(true, |is_so, (one, next)| is_so & (one <= next))
}

/// Why an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is as long as was asked for, or the next times are too far from the first one's.
    Long,
    /// This input has no packet in hand, and may bring one that comes before all others.
    Empty(usize),
    /// Nobody has a packet, and nobody is waited for.
    Over,
}

/// Up to where packets are put in order: what comes before this time of this input.
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

/// What is to go next.
#[derive(Debug)]
pub(crate) enum Picks<'a> {
    /// A key a packet, whose low 16 bits are its input.
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
    /// Whether the next one is, as far as traffic was seen to come in runs.
    are_runs: bool,
    count: usize,
}

impl Order {
    /// Puts up to `most` packets of all lanes in order, and some [`CHUNK`] at a time. Lanes have
    /// fewer than 2^16 packets.
    ///
    /// Packets of a lane stay in its order, whatever their times. One older than the one before it
    /// comes as soon as it is its lane's first.
    ///
    /// Cost by packet: some ten instructions for each doubling of the number of lanes. By run: a
    /// look at each lane.
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

    /// The first end of all lanes', not later than the base can tell.
    fn find_horizon(&self, lanes: &[Lane], base: Base, share: usize) -> Option<Horizon> {
        let ends = lanes.iter().enumerate().filter_map(|(input, lane)| lane.end(input, share));
        let first = ends.min_by_key(|end| (end.time_ns, end.input));
        let last_ns = base.last_ns();
        let is_beyond = |lane: &Lane| lane.times_ns[lane.next..].last() > Some(&last_ns);
        match first {
            Some(end) if end.time_ns <= last_ns => Some(end),
            None if !lanes.iter().any(is_beyond) => None,
            // A key of another base is needed to see whose turn it is then.
            _ => Some(Horizon { time_ns: last_ns, input: usize::MAX, stop: Stop::Long }),
        }
    }

    /// What was found; no more than was asked for.
    pub(crate) fn picks(&self) -> Picks<'_> {
        match self.is_by_run {
            true => Picks::Runs(&self.runs),
            false => Picks::Keys(&self.rows.keys()[..self.count]),
        }
    }

    /// How many packets are in order.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many packets of an input are in the order, if there are no more than was asked for.
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

/// The packets of the input that is next, up to the next one of another.
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

/// How many times at the start are before `end_ns`: at least one. Cost: its logarithm.
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

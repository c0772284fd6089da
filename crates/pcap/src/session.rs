//! An activated handle's packets: the burst that is held, and where in it the program is.
//!
//! ```text
//! Follower --next--> Held burst:  p p p p p p p p
//!                                       ^ index    filter, snaplen --> header, bytes in the burst
//! ```
//!
//! Who owns what when: a burst is held until its last packet was passed over. After `pcap_next_ex`
//! it is held until the next call, so that the bytes that it gave stay where they are.
//! Packets lie in memory of this process that was checked, unless `?trust=` vouches for the
//! publisher.

use std::ffi::c_uchar;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::Packet;
use burstline_share::{Feed, Follower, Held, Next, ShareError};
use burstline_wire::filter::Program;

use crate::abi::{PacketHeader, Timeval};
use crate::counts::Counts;
use crate::verdicts::Verdicts;

const NS_PER_S: u64 = 1_000_000_000;

/// How often a call at the end of a log looks whether it is interrupted.
const AT_END: Duration = Duration::from_millis(5);

/// A reader that is this many packets behind does not begin to wait for more.
const GATHERED: u64 = 1024;

/// One that waits looks how many there are as often as packets fill half of its log if they come
/// at 8 Gbit/s: so a burst after a quiet time finds room. Of 64 MiB that is each 34 ms.
const FASTEST_BYTES_PER_NS: u64 = 1;

/// Where the log is small, it looks as often as this. A look costs as much as a hundred packets.
const TICK: Duration = Duration::from_millis(10);

/// With this many one that waits goes on: more make a packet hardly cheaper.
const MANY: u64 = 64 * GATHERED;

/// In a small log it goes on sooner: when this much of it was written.
const FILLED_PERCENT: u64 = 100 / 8;

/// What is fixed when a handle is activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The DLT_ value of its packets.
    pub(crate) datalink: i32,
    /// The most bytes of a packet that the program gets.
    pub(crate) snaplen: u32,
    /// Whether times are in nanoseconds.
    pub(crate) is_nano: bool,
}

/// What [`Session::fetch`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Packets.
    Some,
    /// None within the time.
    None,
    /// There will never be more.
    End,
    /// `is_interrupted` said so.
    Interrupted,
}

/// The reading half of a handle.
pub(crate) struct Session {
    pub(crate) follower: Follower,
    shape: Shape,
    held: Option<Held>,
    /// Which log of the name the burst is of.
    log: u32,
    /// Packets of the burst that were passed over.
    index: usize,
    /// Whether the log has ended for good.
    has_ended: bool,
    /// Whether the last call found packets: more are likely to come soon.
    is_flowing: bool,
    /// Packets were missed this many times since the handle was activated; each time, half as
    /// long is left for packets to gather.
    halvings: u32,
    missed: u64,
    /// The header that `pcap_next_ex` lends.
    pub(crate) header: PacketHeader,
    pub(crate) filter: Option<Arc<Program>>,
}

impl Session {
    pub(crate) fn new(follower: Follower, shape: Shape) -> Self {
        Self {
            follower,
            shape,
            held: None,
            log: 0,
            index: 0,
            has_ended: false,
            is_flowing: false,
            halvings: 0,
            missed: 0,
            header: PacketHeader::default(),
            filter: None,
        }
    }

    /// Whether packets of a burst are left.
    pub(crate) fn has_rest(&self) -> bool {
        self.held.as_ref().is_some_and(|held| self.index < held.burst().len())
    }

    /// Whether more packets are there than it would wait for, by the word of the publisher.
    pub(crate) fn is_behind(&self) -> bool {
        self.has_rest() || self.follower.lag() >= GATHERED
    }

    /// Lets go of an exhausted burst, so its segment may be reused.
    pub(crate) fn let_go(&mut self) {
        if !self.has_rest() {
            self.held = None;
        }
    }

    /// Whether there will never be more: the log was ended for good, and is read to its end.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Makes sure that there are packets, waiting for them at most `timeout`. While packets flow,
    /// some may gather for `gathering`: to be woken costs more than hundreds of packets. A log's
    /// end is said at once the first time. Later calls wait first: a program that asks again would
    /// spin.
    pub(crate) fn fetch(
        &mut self,
        timeout: Option<Duration>,
        gathering: Duration,
        counts: &Counts,
        verdicts: &Verdicts,
        is_interrupted: impl Fn() -> bool,
    ) -> Result<Fetched, ShareError> {
        if self.has_rest() {
            return Ok(Fetched::Some);
        }
        self.held = None;
        if self.has_ended {
            let began = Instant::now();
            while timeout.is_some_and(|time| began.elapsed() < time) && !is_interrupted() {
                thread::sleep(AT_END);
            }
            return Ok(Fetched::End);
        }
        if self.is_flowing && !self.is_behind() {
            self.gather(gathering / 2_u32.saturating_pow(self.halvings.min(31)), &is_interrupted);
        }
        let timeout_ns = timeout.map_or(u64::MAX, |time| time.as_nanos().min(1 << 62) as u64);
        let next = self.follower.next(timeout_ns, is_interrupted);
        let sums = self.follower.sums();
        if sums.missed > self.missed {
            (self.missed, self.halvings) = (sums.missed, self.halvings + 1);
        }
        counts.read(&sums);
        let next = next?;
        self.is_flowing = matches!(next, Next::Burst { .. });
        Ok(match next {
            Next::Burst { held, log } => {
                verdicts.turn_to(self.follower.verdicts(log));
                (self.held, self.log, self.index) = (Some(held), log, 0);
                Fetched::Some
            }
            Next::End => {
                self.has_ended = true;
                Fetched::End
            }
            Next::Interrupted => Fetched::Interrupted,
            // Nothing is held here but what was just let go of.
            Next::None | Next::WindowFull => Fetched::None,
        })
    }

    /// Sleeps for `time` at most, unless there are packets enough, or the writer has said that it
    /// writes no more.
    fn gather(&self, time: Duration, is_interrupted: impl Fn() -> bool) {
        let began = Instant::now();
        let feeds = self.follower.feeds();
        let smallest = feeds.iter().map(Feed::capacity_bytes).min().unwrap_or(0);
        let tick = Duration::from_nanos(smallest / 2 / FASTEST_BYTES_PER_NS).max(TICK);
        while let Some(left) = time.checked_sub(began.elapsed())
            && !left.is_zero()
            && self.follower.lag() < MANY
            && self.follower.filled_percent() < FILLED_PERCENT
            && !feeds.iter().all(|feed| feed.ending().is_some())
            && !is_interrupted()
        {
            thread::sleep(left.min(tick));
        }
    }

    /// Gives the rest of the burst's packets that pass the filter to `each`, until there are `most`
    /// or `each` returns that it is enough. Returns how many it gave. A packet that waits for a
    /// verdict is the program's until [`Verdicts::go_on`].
    pub(crate) fn give(
        &mut self,
        most: usize,
        counts: &Counts,
        verdicts: &Verdicts,
        mut each: impl FnMut(&PacketHeader, *const c_uchar) -> bool,
    ) -> usize {
        let Self { follower, shape, held, log, index, filter, .. } = self;
        let Some(held) = held.as_ref() else { return 0 };
        let (burst, mut given) = (held.burst(), 0);
        // Ports take turns in runs, and a port's name is a look into the log: one for each run.
        let mut last_port = None;
        while given < most && *index < burst.len() {
            let packet = burst.packet(*index);
            let number = burst.first_packet() + *index as u64;
            *index += 1;
            let before = packet.drops_before();
            if before > 0 {
                counts.lose_before(before);
            }
            let is_ours = match last_port {
                Some((port, is_ours)) if port == packet.port() => is_ours,
                _ => shape.is_of(link_of(follower, *log, packet.port())),
            };
            last_port = Some((packet.port(), is_ours));
            if !is_ours {
                counts.skip_other_link();
                verdicts.pass_over(number);
                continue;
            }
            let Some(header) = shape.header(&packet, filter.as_deref()) else {
                verdicts.pass_over(number);
                continue;
            };
            given += 1;
            verdicts.lend(number);
            if !each(&header, packet.bytes().as_ptr()) {
                break;
            }
        }
        counts.pass(given as u64);
        given
    }
}

/// The link type of a port; Ethernet where its publisher has not said.
fn link_of(follower: &Follower, log: u32, port: u8) -> u32 {
    follower.port_name(log, port).map_or(1, |(link, _)| link)
}

/// The DLT_ value of a LINKTYPE_: most are the same. Source: `pcap-common.c` of libpcap.
pub(crate) fn datalink_of(link_type: u32) -> i32 {
    match link_type {
        100 => 11, // ATM, RFC 1483
        101 => 12, // raw IP
        same => same as i32,
    }
}

impl Shape {
    fn is_of(self, link_type: u32) -> bool {
        datalink_of(link_type) == self.datalink
    }

    /// The header of a packet, unless the filter rejects it.
    #[inline(always)]
    fn header(self, packet: &Packet<'_>, filter: Option<&Program>) -> Option<PacketHeader> {
        let (bytes, length) = (packet.bytes(), packet.original_length() as u32);
        let mut captured = (bytes.len() as u32).min(self.snaplen);
        if let Some(filter) = filter {
            match filter.run(bytes, length) {
                0 => return None,
                kept => captured = captured.min(kept),
            }
        }
        let (seconds, rest_ns) = (packet.time_ns() / NS_PER_S, packet.time_ns() % NS_PER_S);
        let rest = if self.is_nano { rest_ns } else { rest_ns / 1000 };
        let time = Timeval { seconds: seconds as _, rest: rest as _ };
        Some(PacketHeader { time, captured, length })
    }
}

//! An activated handle's packets: the held burst, and the program's position in it.
//!
//! ```text
//! Follower --next--> Held burst:  p p p p p p p p
//!                                       ^ index    filter, snaplen --> header, bytes in the burst
//! ```
//!
//! Ownership: a burst is held until its last packet was passed. After `pcap_next_ex` it is held
//! until the next call, so that the returned bytes stay valid. The packets are in memory of this
//! process and were checked, unless `?trust=` vouches for the publisher.

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

/// How often a call at the end of a log checks for an interruption.
const AT_END: Duration = Duration::from_millis(5);

/// A reader that is at least this number of packets behind does not wait for more.
const GATHERED: u64 = 1024;

/// While waiting, the packets are counted as often as they fill half of the log at 8 Gbit/s. So a
/// burst after a quiet time finds room. For 64 MiB that is every 34 ms.
const FASTEST_BYTES_PER_NS: u64 = 1;

/// The shortest interval of these counts, in a small log; one costs as much as 100 packets.
const TICK: Duration = Duration::from_millis(10);

/// Waiting ends at this number of packets: more make a packet hardly cheaper.
const MANY: u64 = 64 * GATHERED;

/// In a small log it ends earlier: when this share of it was written.
const FILLED_PERCENT: u64 = 100 / 8;

/// Properties that are fixed when a handle is activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The DLT_ value of its packets.
    pub(crate) datalink: i32,
    /// The most bytes of a packet that the program gets.
    pub(crate) snaplen: u32,
    /// Whether times are in nanoseconds.
    pub(crate) is_nano: bool,
}

/// The result of [`Session::fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Packets.
    Some,
    /// None within the time.
    None,
    /// No more packets will come.
    End,
    /// `is_interrupted` returned true.
    Interrupted,
}

/// The reading half of a handle.
pub(crate) struct Session {
    pub(crate) follower: Follower,
    shape: Shape,
    held: Option<Held>,
    /// The number of the held burst's log within the name.
    log: u32,
    /// The number of packets of the burst that were passed.
    index: usize,
    /// Whether the log has reached its final end.
    has_ended: bool,
    /// Whether the last call found packets: more are likely to come soon.
    is_flowing: bool,
    /// Number of times that packets were missed since the handle was activated; each time halves
    /// the time for packets to gather.
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

    /// Returns whether packets of the held burst are left.
    pub(crate) fn has_rest(&self) -> bool {
        self.held.as_ref().is_some_and(|held| self.index < held.burst().len())
    }

    /// Returns whether there are more packets than it would wait for, according to the publisher.
    pub(crate) fn is_behind(&self) -> bool {
        self.has_rest() || self.follower.lag() >= GATHERED
    }

    /// Drops an exhausted burst, so that its segment may be reused.
    pub(crate) fn let_go(&mut self) {
        if !self.has_rest() {
            self.held = None;
        }
    }

    /// Returns whether no more packets will come: the log was read to its final end.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Makes sure that there are packets; waits for them at most `timeout`. While packets flow,
    /// some may gather for `gathering`: a wake-up costs more than hundreds of packets. The end of a
    /// log is reported immediately the first time. Later calls wait first: a program that asks
    /// again would spin.
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
            // Held bursts cannot fill the window: the only one was just dropped.
            Next::None | Next::WindowFull => Fetched::None,
        })
    }

    /// Sleeps for at most `time`, unless there are enough packets or the writer has ended the log.
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

    /// Gives the rest of the burst's packets that pass the filter to `each`, until there were
    /// `most` or `each` returns false. Returns the number given. A packet that waits for a verdict
    /// belongs to the program until [`Verdicts::go_on`].
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
        // Packets of a port come in runs, and a port's name is looked up in the log: once per run.
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
                _ => datalink_of(link_of(follower, *log, packet.port())) == shape.datalink,
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

/// Returns the link type of a port; Ethernet if its publisher has not named it.
fn link_of(follower: &Follower, log: u32, port: u8) -> u32 {
    follower.port_name(log, port).map_or(1, |(link, _)| link)
}

/// Returns the DLT_ value of a LINKTYPE_: most are equal. Source: `pcap-common.c` of libpcap.
pub(crate) fn datalink_of(link_type: u32) -> i32 {
    match link_type {
        100 => 11, // ATM, RFC 1483
        101 => 12, // raw IP
        same => same as i32,
    }
}

impl Shape {
    /// Returns the header of a packet, unless the filter rejects it.
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

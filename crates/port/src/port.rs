//! The traits that every port of a job implements.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use burstline_log::{Burst, Scratch, Writer};

use crate::{LostPackets, PortAccount, PortError};

/// The clock that packet timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampSource {
    /// File timestamps, written by any program.
    File,
    /// The network card.
    Hardware,
    /// The kernel.
    Kernel,
    /// The XDP program, at the time it took the packet.
    Program,
    /// One timestamp for all packets of a poll.
    Poll,
    /// Invented by a generator.
    Synthetic,
    /// A simulated card or another software device.
    Device,
    /// Several of these, or unknown.
    Mixed,
}

impl TimestampSource {
    /// The name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Hardware => "hardware",
            Self::Kernel => "kernel",
            Self::Program => "program",
            Self::Poll => "poll",
            Self::Synthetic => "synthetic",
            Self::Device => "device",
            Self::Mixed => "mixed",
        }
    }

    /// The number that represents it in a log: `clock_kind` of [`burstline_log::LogConfig`].
    pub fn code(self) -> u32 {
        match self {
            Self::Mixed => 0,
            Self::File => 1,
            Self::Hardware => 2,
            Self::Kernel => 3,
            Self::Program => 4,
            Self::Poll => 5,
            Self::Synthetic => 6,
            Self::Device => 7,
        }
    }

    /// Returns the source with this number, or [`Mixed`](Self::Mixed) if the number is unknown.
    pub fn from_code(code: u32) -> Self {
        use TimestampSource::{Device, File, Hardware, Kernel, Poll, Program, Synthetic};
        let all = [File, Hardware, Kernel, Program, Poll, Synthetic, Device];
        all.into_iter().find(|source| source.code() == code).unwrap_or(Self::Mixed)
    }
}

/// What a port can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the source loses nothing when it is not polled, so that a full log may block it.
    pub can_wait: bool,
    /// Whether the source has a natural end.
    pub is_finite: bool,
    /// Whether the source holds packets when it is stopped. After `finish` no new packets arrive,
    /// and the held ones can be taken until `Ended`.
    pub can_drain: bool,
    /// Whether the source's own queue is as large as requested
    /// ([`OpenOptions::queue_bytes`](crate::OpenOptions::queue_bytes)): packets may wait there.
    pub is_deep: bool,
    /// Whether packets carry the number lost just before them (`Meta::drops_before`), for every
    /// missing packet in the account. For other sources, a job tells sinks of gaps from the
    /// account.
    pub tells_gaps: bool,
    /// Whether packets may have unfinished offloads, left for a device. A source delivers such
    /// packets marked; a sink has them finished.
    pub passes_offloads: bool,
}

/// Properties of an open port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its address, as typed.
    pub name: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The clock of its packets' timestamps.
    pub timestamps: TimestampSource,
}

/// Whether to call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// More packets may be ready now.
    Busy,
    /// No packets now: wait for `readiness`, or poll again later.
    Idle,
    /// The log or the budget is full: nothing was lost; call again when there is room.
    Blocked,
    /// No more packets will come.
    Ended,
}

impl PortState {
    /// Returns the state of an unfinished source that took `taken` packets of a budget of `budget`.
    pub(crate) fn after(taken: u64, budget: u64) -> Self {
        match taken {
            0 if budget == 0 => Self::Blocked,
            0 => Self::Idle,
            _ => Self::Busy,
        }
    }
}

/// The outcome of [`Source::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Packets appended to the log.
    pub packets: u64,
    /// Whether to call again.
    pub state: PortState,
}

/// The outcome of [`Source::lend`].
#[derive(Debug)]
pub struct Lent<'a> {
    /// The packets, in place; may be empty.
    pub burst: Burst<'a>,
    /// Whether to call again.
    pub state: PortState,
    /// Where the packets are stored, if they are in a file or a log.
    pub places: Option<Places<'a>>,
}

impl<'a> Lent<'a> {
    /// Lends packets that are in no file and no log.
    #[inline]
    pub fn new(burst: Burst<'a>, state: PortState) -> Self {
        Self { burst, state, places: None }
    }
}

/// Where the packets of a burst are stored: in one segment of one file, or in one published log.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The index of the file in [`Source::files`]; `None` if the packets are in a log.
    pub file: Option<usize>,
    /// The number of the segment; `None` if the file has no segments.
    pub segment: Option<u64>,
    /// The first packet's number, from 1.
    pub first: u64,
    /// The number of each packet, if some in between were left out; otherwise empty.
    pub numbers: &'a [u64],
}

impl Places<'_> {
    /// The number of packet `index` of the burst in its file or log, from 1.
    #[inline]
    pub fn number(&self, index: usize) -> u64 {
        self.numbers.get(index).copied().unwrap_or(self.first + index as u64)
    }
}

/// The pacing of a source that generates packets on its own schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// Packets a second, as asked for.
    pub packets_per_s: f64,
    /// When the next packet is due, in ns on the monotonic clock.
    pub next_ns: u64,
    /// What to add to that clock, modulo 2^64, to get packet timestamps.
    pub origin_ns: u64,
}

/// Final counts for the packets of one interface, for sinks that write them down. All counts are
/// since the job began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceTotals {
    /// Its number in the [`PortTable`](crate::PortTable).
    pub port: u8,
    /// Packets that reached the interface, if known, without those still in flight.
    pub received: Option<u64>,
    /// Packets lost at [`LossPlace::Interface`](crate::LossPlace::Interface).
    pub missed: u64,
    /// Packets lost between there and this sink: at [`LossPlace::Host`](crate::LossPlace::Host).
    pub lost: u64,
    /// Packets that the user did not request.
    pub unwanted: u64,
}

/// An endpoint of a job. It is a [`Source`], a [`Sink`], or both in one memory: a
/// [`Crossing`](crate::Crossing).
pub trait Port: Send {
    /// Returns its properties.
    fn info(&self) -> &PortInfo;

    /// Returns what it has seen and lost so far. Cost: a small allocation; not for hot paths.
    fn account(&self) -> PortAccount;

    /// Ends the port's work: a file gets its closing blocks, a sink sends what it holds, a live
    /// source takes no more packets. Called once, before the port is dropped.
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Sleeps until packets may be ready, at most `timeout_ns`, and returns whether they are. For a
    /// source without a file descriptor to wait on. `None` if it cannot wait.
    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        let _ = timeout_ns;
        None
    }

    /// Whether packets may gather in its queues while nobody polls it. Not if they wait in the
    /// device until a poll, or if its account does not give the size of each queue.
    fn may_gather(&self) -> bool {
        true
    }

    /// Returns a descriptor that is readable when packets are ready; `None` if it must be polled.
    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A port that packets come from.
pub trait Source: Port {
    /// Lends up to `budget` packets in place; they stay there while the burst lives.
    fn lend<'a>(&'a mut self, scratch: &'a mut Scratch, budget: u64)
    -> Result<Lent<'a>, PortError>;

    /// Copies up to `budget` packets into a log and does not publish them: the caller does, once
    /// per poll. A packet that does not fit into the log is kept for the next call. If the source
    /// cannot wait, the packet is counted as [`Loss::LogFull`](crate::Loss::LogFull) instead. A
    /// source without a faster way uses [`Copying`](crate::Copying)'s.
    ///
    /// Cost: one copy per packet; system calls as documented by each port.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError>;

    /// Returns the files that its packets are in, indexed by [`Places::file`]. Empty if there are
    /// no files, or if packets come through a pipe.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Lends the burst of the last `lend` call again. Its packets stay in place until the next call
    /// of `lend` or `receive`. `scratch` must be the one passed to that `lend`. So a caller can
    /// hold bursts of several sources and continue with one of them. `None` if this source cannot;
    /// wrappers cannot.
    ///
    /// Cost: none per packet, except that `xdp:` checks whether each frame is held.
    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        let _ = scratch;
        None
    }

    /// Returns a lower bound, in ns since 1970: no packet that this source has yet to deliver is
    /// older. It is as of the last poll that found the source idle. `None` if it makes no promise,
    /// other than its usual order of time.
    ///
    /// A promise can be broken: by a clock that is set back, or by a kernel that is delayed.
    fn low_time_ns(&self) -> Option<u64> {
        None
    }

    /// Returns its pacing; `None` if it is not paced, as for most sources.
    fn pacing(&self) -> Option<Pacing> {
        None
    }
}

/// A port that packets go to.
pub trait Sink: Port {
    /// Sends the packets of a burst. Returns how many were taken; the others were lost and are
    /// named in [`account`](Port::account). Packets stay in order; a sink without room for all
    /// takes the first ones. An error is permanent: later bursts fail too. The account is exact
    /// even then.
    ///
    /// Packets taken may be in flight until the next [`flush`](Self::flush), and may be lost then.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError>;

    /// Returns which packets it has lost: the losses of its account, by interface. Cost: as for
    /// [`account`](Port::account).
    fn lost(&self) -> LostPackets;

    /// Makes everything transmitted so far durable or visible. Call it when there is nothing to
    /// send for a moment.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// As [`flush`](Self::flush), but a sink may leave it for later, within the time that its user
    /// has set, if a flush is costly. Returns whether all is flushed; if not, call it again within
    /// 100 ms or so.
    fn flush_when_due(&mut self) -> Result<bool, PortError> {
        self.flush().map(|()| true)
    }

    /// Reports that `packets` packets of interface number `port` were lost before its next packet.
    /// They are not included in any packet's `drops_before`.
    fn tell_gap(&mut self, port: u8, packets: u64) {
        let _ = (port, packets);
    }

    /// As [`tell_gap`](Self::tell_gap), for packets that the job's own reader of a log has missed.
    fn tell_overrun(&mut self, port: u8, packets: u64) {
        self.tell_gap(port, packets);
    }

    /// Does what is due by the clock, also while no packets come: a file whose time is over ends.
    /// To be called a few times a second. An error is permanent, as one of
    /// [`transmit`](Self::transmit).
    fn look_at_clock(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Passes on what the job's sources counted; to be called before [`finish`](Port::finish).
    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        let _ = totals;
    }
}

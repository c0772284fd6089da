//! The traits: what a job asks of the ends that packets come from and go to.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use burstline_log::{Burst, Scratch, Writer};

use crate::{LostPackets, PortAccount, PortError};

/// Whose clock the packets' times are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampSource {
    /// The times in a file, written by any program.
    File,
    /// The network card.
    Hardware,
    /// The kernel.
    Kernel,
    /// The XDP program, when it took the packet.
    Program,
    /// One time for all packets of a poll.
    Poll,
    /// Made up by a generator.
    Synthetic,
    /// A simulated card, or another device made of software.
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

    /// The number that stands for it in a log: `clock_kind` of [`burstline_log::LogConfig`].
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

    /// What a number stands for; [`Mixed`](Self::Mixed) where it is none of ours.
    pub fn from_code(code: u32) -> Self {
        use TimestampSource::{Device, File, Hardware, Kernel, Poll, Program, Synthetic};
        let all = [File, Hardware, Kernel, Program, Poll, Synthetic, Device];
        all.into_iter().find(|source| source.code() == code).unwrap_or(Self::Mixed)
    }
}

/// What a port can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// A source that loses nothing when it is not polled, so that a full log may hold it up.
    pub can_wait: bool,
    /// A source that ends by itself.
    pub is_finite: bool,
    /// A source that has packets in hand when it is stopped: after `finish` nothing new comes, and
    /// those can still be taken, until `Ended`.
    pub can_drain: bool,
    /// A source whose own queue has as much room as it was asked to have
    /// ([`OpenOptions::queue_bytes`](crate::OpenOptions::queue_bytes)): packets may wait there.
    pub is_deep: bool,
    /// A source whose packets say how many it lost just before them (`Meta::drops_before`): all
    /// that its account has and that are missing. Of others a job tells sinks by the account.
    pub tells_gaps: bool,
    /// Packets may be unfinished, left for a device to finish. A source delivers them marked; a
    /// sink has them finished.
    pub passes_offloads: bool,
}

/// What is known of a port once it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its address, as typed.
    pub name: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Where its packets' times come from.
    pub timestamps: TimestampSource,
}

/// Whether to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// There may be more at once.
    Busy,
    /// There is nothing now: wait for `readiness`, or look again later.
    Idle,
    /// The log or the budget is full: nothing was lost, call again when there is room.
    Blocked,
    /// There will never be more.
    Ended,
}

impl PortState {
    /// That of a source that is not over and took `taken` packets where `budget` were wanted.
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
    /// Whether to come back.
    pub state: PortState,
}

/// The outcome of [`Source::lend`].
#[derive(Debug)]
pub struct Lent<'a> {
    /// The packets, in place; may be empty.
    pub burst: Burst<'a>,
    /// Whether to come back.
    pub state: PortState,
    /// Where the packets are kept, if they are.
    pub places: Option<Places<'a>>,
}

impl<'a> Lent<'a> {
    /// Packets that are kept nowhere.
    #[inline]
    pub fn new(burst: Burst<'a>, state: PortState) -> Self {
        Self { burst, state, places: None }
    }
}

/// Where the packets of a burst are kept: in one segment of one file, or in one published log.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The number of the file in [`Source::files`]; `None`: they are in a log.
    pub file: Option<usize>,
    /// The number of the segment; `None` where a file has none.
    pub segment: Option<u64>,
    /// The first packet's number, from 1.
    pub first: u64,
    /// The number of each, where some between them were left out; else empty.
    pub numbers: &'a [u64],
}

impl Places<'_> {
    /// The number of packet `index` of the burst in its file or log, from 1.
    #[inline]
    pub fn number(&self, index: usize) -> u64 {
        self.numbers.get(index).copied().unwrap_or(self.first + index as u64)
    }
}

/// How a source is paced that makes packets at its own times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// Packets a second, as asked for.
    pub packets_per_s: f64,
    /// When the next packet is due, in ns by the monotonic clock.
    pub next_ns: u64,
    /// What has to be added to that clock, modulo 2^64, to get the times of packets.
    pub origin_ns: u64,
}

/// What is known at the end about the packets of one interface, for sinks that write it down. All
/// counts are since the job began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceTotals {
    /// Its number in the [`PortTable`](crate::PortTable).
    pub port: u8,
    /// Packets that reached the interface, where that is known.
    pub received: Option<u64>,
    /// Packets lost at [`LossPlace::Interface`](crate::LossPlace::Interface).
    pub missed: u64,
    /// Packets lost between that and this sink: at [`LossPlace::Host`](crate::LossPlace::Host).
    pub lost: u64,
    /// Packets that the user did not ask for.
    pub unwanted: u64,
}

/// An end of a job, whichever way packets go. A [`Source`], a [`Sink`], or both in one memory: a
/// [`Crossing`](crate::Crossing).
pub trait Port: Send {
    /// What is known of it.
    fn info(&self) -> &PortInfo;

    /// What it has seen and lost so far. Cost: a small allocation; not for hot paths.
    fn account(&self) -> PortAccount;

    /// Ends the port's work: a file gets its closing blocks, a sink sends what it has, a live
    /// source takes no more packets. Called once, before it is dropped.
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Sleeps until there may be something to receive, at most `timeout_ns`, and returns whether
    /// there is. For a source without a descriptor to wait on. `None`: it cannot do that.
    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        let _ = timeout_ns;
        None
    }

    /// Readable when there is something to receive. `None`: poll.
    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Where packets come from.
pub trait Source: Port {
    /// Lends up to `budget` packets where they lie; they stay there while the burst lives.
    fn lend<'a>(&'a mut self, scratch: &'a mut Scratch, budget: u64)
    -> Result<Lent<'a>, PortError>;

    /// Copies up to `budget` packets into a log and does not publish them: the caller does, once a
    /// poll. A packet that the log has no room for is kept for the next call. Where the source
    /// cannot wait, the packet is counted as lost instead, [`Loss::LogFull`](crate::Loss::LogFull).
    /// A source that has no faster way takes [`Copying`](crate::Copying)'s.
    ///
    /// Cost: one copy of each packet; system calls as the port says.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError>;

    /// The files that its packets lie in, by the number that [`Places`] have. Empty: none, or they
    /// come through a pipe.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The burst that the last call of `lend` lent, once more: its packets lie where they lay until
    /// the next call of `lend` or `receive`. `scratch` is the one that they were described in. So a
    /// caller can hold bursts of several sources and go on with one of them. `None`: this source
    /// cannot, as wrappers do not.
    ///
    /// Cost: none a packet, but for `xdp:` a look at whether each frame is held.
    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        let _ = scratch;
        None
    }

    /// A time, in ns since 1970: no packet that this source has yet to deliver is older. It is as
    /// of the last poll that found the source idle. `None`: it promises nothing, but that its
    /// packets come in order of time, as far as they do.
    ///
    /// A promise can be broken: by a clock that is set back, by a kernel that is held up.
    fn low_time_ns(&self) -> Option<u64> {
        None
    }

    /// How it is paced; `None` where it is not, as most are not.
    fn pacing(&self) -> Option<Pacing> {
        None
    }
}

/// Where packets go.
pub trait Sink: Port {
    /// Sends the packets of a burst. Returns how many were taken; the others were lost and are
    /// named in [`account`](Port::account). Packets stay in order; a sink that has no room for
    /// more takes the first of them. An error is one that no later burst can get past; the
    /// account is exact then, too.
    ///
    /// What was taken may be in flight until the next [`flush`](Self::flush), and lost then.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError>;

    /// Which packets it has lost: the losses of its account, by interface. Cost: as of
    /// [`account`](Port::account).
    fn lost(&self) -> LostPackets;

    /// Makes what was transmitted so far safe or visible. Call it when there is nothing to send for
    /// a moment.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Tells it that `packets` packets of interface number `port` were lost before the next
    /// packet of it. They are not among any packet's own `drops_before`.
    fn tell_gap(&mut self, port: u8, packets: u64) {
        let _ = (port, packets);
    }

    /// Tells it what the job's sources counted; to be called before [`finish`](Port::finish).
    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        let _ = totals;
    }
}

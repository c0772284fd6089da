//! The source: takes packets of one queue, and lends or appends them.

use std::os::fd::{AsFd, BorrowedFd};

use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_wire::headers::LinkType;
use burstline_xdp::{Received as Frame, Socket, SocketStatistics, XdpError};

use super::intake::{Counts, KernelWord, QueueLedger};
use super::settings::Settings;
use crate::afpacket::link_type;
use crate::judge::Judge;
use crate::table::Seat;
use crate::watch::{LINK_HEADER_MAX, Watch};
use crate::{
    Capabilities, Lent, Loss, OpenOptions, Port, PortAccount, PortError, PortInfo, PortState,
    Received, RingFill, Source, TimestampSource,
};

/// How long before an empty poll a packet may have got its timestamp, in ns: one round of a
/// softirq, and the clock readings.
const UNDER_WAY_NS: u64 = 2_000_000;

/// A packet that is taken and held.
#[derive(Clone, Copy)]
struct Taken {
    offset: u32,
    length: u32,
    meta: Meta,
}

/// One receive queue of a live interface.
pub(super) struct XdpSource {
    info: PortInfo,
    socket: Socket,
    kernel: KernelWord,
    intake: QueueLedger,
    watch: Watch,
    judge: Judge,
    port: Seat,
    /// The link type of its frames.
    link_type: LinkType,
    /// When this poll began, in ns since 1970.
    poll_time_ns: u64,
    /// The difference between time of day and monotonic clock at the last check: this saves a
    /// second clock reading per poll.
    since_1970_ns: u64,
    tai_offset_ns: i64,
    /// Taken from the ring, but did not fit into the log.
    pending: Option<Taken>,
    /// A fatal error of the socket.
    failure: Option<XdpError>,
    /// False if the driver takes packets only when it is polled.
    may_gather: bool,
    delivered: u64,
    merged: u64,
    without_time: u64,
    account: PortAccount,
}

/// The state of the packets that the program has seen.
struct Reckoning {
    counts: Counts,
    kernel: SocketStatistics,
    in_flight: u64,
    /// Delivered, filtered, in flight, lost or passed to the host.
    accounted: u64,
}

impl XdpSource {
    pub(super) fn new(
        socket: Socket,
        intake: QueueLedger,
        is_alone: bool,
        settings: &Settings,
        judge: Judge,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let link = &socket.interface().link;
        let place = format!("{}@{}", link.name, socket.queue());
        let name = if is_alone { &link.name } else { &place };
        let link_type = link_type(link)?;
        let port = options.table.seat_for(&place, name, link_type)?;
        let capabilities = Capabilities { can_drain: true, ..Capabilities::default() };
        let ring_bytes = settings.socket.frames as u64 * settings.socket.frame_bytes as u64;
        let mut account = PortAccount { ring_bytes, ..PortAccount::default() };
        intake.attached().notes().iter().for_each(|note| account.hint(|| note.clone()));
        let info = PortInfo {
            name: format!("xdp:{place}"),
            capabilities,
            timestamps: settings.timestamps,
        };
        Ok(Self {
            info,
            watch: Watch::new(link),
            intake,
            socket,
            kernel: KernelWord::default(),
            judge,
            port,
            link_type,
            poll_time_ns: 0,
            since_1970_ns: since_1970_ns(),
            tai_offset_ns: clock::tai_offset_ns(),
            pending: None,
            failure: None,
            may_gather: settings.socket.busy_poll_packets.is_none(),
            delivered: 0,
            merged: 0,
            without_time: 0,
            account,
        })
    }

    /// Adds warnings to report immediately.
    pub(super) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { account: PortAccount { warnings, ..self.account }, ..self }
    }

    /// Begins a poll: returns lent frames, reads a clock, checks the interface.
    fn begin(&mut self) -> Result<(), PortError> {
        if self.pending.is_none() {
            self.socket.release();
        }
        let now_ns = clock::monotonic_ns();
        self.poll_time_ns = now_ns + self.since_1970_ns;
        let (socket, account) = (&self.socket, &mut self.account);
        if self.watch.look(now_ns, || socket.link_state(), account)? {
            self.intake.look();
            self.tai_offset_ns = clock::tai_offset_ns();
            self.since_1970_ns = since_1970_ns();
        }
        Ok(())
    }

    /// Returns the next packet. An error is returned by the call after the last one with packets.
    ///
    /// Always inlined: returned through memory, a packet's few words would cost two delays.
    #[inline(always)]
    fn take(&mut self) -> Option<Taken> {
        if self.pending.is_some() {
            return self.pending.take();
        }
        // This loop is short: no frame returns before the next poll.
        while self.failure.is_none() {
            match self.socket.take() {
                Ok(None) => return None,
                Ok(Some(frame)) if self.wants(&frame) => return Some(self.describe(&frame)),
                Ok(Some(frame)) => {
                    // Clear the timestamp so that the frame's next packet does not find it.
                    self.socket.take_word_before(&frame);
                }
                Err(error) => self.failure = Some(error),
            }
        }
        None
    }

    /// Describes the next packets, up to the first that needs more than its position. It does the
    /// work of [`take`](Self::take) with a third of the instructions.
    #[inline]
    fn take_plain(&mut self, scratch: &mut Scratch, budget: usize) -> usize {
        let is_more = self.judge.is_hashing()
            || self.judge.is_filtering()
            || self.info.timestamps == TimestampSource::Program
            || self.pending.is_some()
            || self.failure.is_some();
        if is_more {
            return 0;
        }
        let whole = self.watch.mtu().saturating_add(LINK_HEADER_MAX);
        let longest = whole.min(self.judge.snapshot_bytes());
        let meta = Meta::new(self.poll_time_ns, 0, self.port.number());
        scratch.take_plain(&mut self.socket, budget, longest, &meta)
    }

    #[inline]
    fn wants(&mut self, frame: &Frame) -> bool {
        if !self.judge.is_filtering() {
            return true;
        }
        let bytes = self.socket.umem().bytes(frame.offset, frame.length).unwrap_or(&[]);
        self.judge.wants(self.link_type, bytes, frame.original_length, 0)
    }

    #[inline(always)]
    fn describe(&mut self, frame: &Frame) -> Taken {
        let length = self.judge.keep(frame.length, frame.original_length);
        let time_ns = self.time_of(frame);
        let mut meta = Meta::new(time_ns, frame.original_length, self.port.number());
        if frame.original_length > self.watch.mtu().saturating_add(LINK_HEADER_MAX) {
            meta.flags = meta.flags.union(Flags::MERGED);
            self.merged += 1;
        }
        if frame.is_gathered {
            self.account.bytes_copied += u64::from(frame.length);
        }
        let frames = self.socket.umem();
        let bytes = || frames.bytes(frame.offset, length).unwrap_or(&[]);
        self.judge.describe(self.link_type, &mut meta, bytes);
        Taken { offset: frame.offset, length, meta }
    }

    #[inline]
    fn time_of(&mut self, frame: &Frame) -> u64 {
        if self.info.timestamps != TimestampSource::Program {
            return self.poll_time_ns;
        }
        match self.socket.take_word_before(frame) {
            0 => {
                self.without_time += 1;
                self.poll_time_ns
            }
            tai_ns => tai_ns.wrapping_add_signed(-self.tai_offset_ns),
        }
    }

    /// Returns the state if nothing was delivered; `filtered` is the count before this call.
    #[cold]
    fn state_when_empty(&mut self, filtered: u64) -> Result<PortState, PortError> {
        if self.judge.filtered() > filtered {
            return Ok(PortState::Busy);
        }
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        self.socket.wake_kernel();
        let is_gone = self.watch.is_gone();
        let ending = match is_gone {
            true => Some(self.intake.counts()),
            false => self.intake.settled(|| {
                let now = self.reckon();
                (now.accounted, now.counts)
            }),
        };
        if let Some(counts) = ending.filter(|_| !self.intake.is_over())
            && self.socket.in_ring() == 0
        {
            self.intake.end(counts);
            if is_gone {
                return Err(self.watch.gone());
            }
        }
        Ok(if self.intake.is_over() { PortState::Ended } else { PortState::Idle })
    }

    fn reckon(&self) -> Reckoning {
        let in_flight = self.socket.in_ring() + u64::from(self.pending.is_some());
        let kernel = self.kernel.see(self.socket.statistics());
        let counts = self.intake.counts();
        let lost = kernel.dropped + kernel.ring_full + counts.to_host();
        let accounted = self.delivered + self.judge.filtered() + in_flight + lost;
        Reckoning { counts, kernel, in_flight, accounted }
    }

    fn note_oddities(&self, account: &mut PortAccount) {
        if self.merged > 0 {
            let packets = self.merged;
            account.hint(|| format!("{packets} packets are GSO/GRO aggregates"));
        }
        let elsewhere = self.intake.elsewhere();
        if elsewhere > 0 {
            account.hint(|| {
                format!("{elsewhere} packets arrived on its other queues and went to the host")
            });
        }
        if self.without_time > 0 {
            let packets = self.without_time;
            account.hint(|| {
                format!(
                    "{packets} packets have the time of their poll: the driver leaves no room \
                         for one"
                )
            });
        }
    }
}

/// Returns the difference between time of day and monotonic clock, in ns. The thread may lose its
/// core between two clocks, so it is that of the quickest of a few readings.
fn since_1970_ns() -> u64 {
    let reading = |_| {
        let before_ns = clock::monotonic_ns();
        let realtime_ns = clock::realtime_ns();
        let spent_ns = clock::monotonic_ns() - before_ns;
        (spent_ns, realtime_ns.saturating_sub(before_ns + spent_ns / 2))
    };
    (0..4).map(reading).min().map_or(0, |(_, since_ns)| since_ns)
}

impl Port for XdpSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Leaves later packets to the host; those in the ring can still be received, until `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        let Self { intake, socket, kernel, delivered, judge, pending, .. } = self;
        let held = *delivered + judge.filtered() + u64::from(pending.is_some());
        intake.leave(|| {
            let kernel = kernel.see(socket.statistics());
            held + socket.in_ring() + kernel.dropped + kernel.ring_full
        });
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let Reckoning { counts, kernel, in_flight, accounted } = self.reckon();
        let offered = self.intake.offered(accounted);
        let mut account = PortAccount { offered, in_flight, ..self.account.clone() };
        account.rings = RingFill::of_queue(self.socket.rings());
        let no_frame = match self.socket.is_multi_buffer() {
            // No packet is too long: every dropped packet lacked frames.
            true => kernel.dropped,
            false => kernel.fill_empty.min(kernel.dropped),
        };
        account.lost.add(Loss::RxRingFull, kernel.ring_full);
        account.lost.add(Loss::FillRingEmpty, no_frame);
        account.lost.add(Loss::FrameTooSmall, kernel.dropped - no_frame);
        account.lost.add(Loss::QueueAdded, counts.added);
        account.lost.add(Loss::Passed, counts.passed);
        self.judge.enter_into(&mut account);
        self.note_oddities(&mut account);
        account
    }

    fn may_gather(&self) -> bool {
        self.may_gather
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

impl Source for XdpSource {
    /// No system call while packets are available; every 50 ms a few, to check the interface.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        self.begin()?;
        let filtered = self.judge.filtered();
        let mut packets = 0;
        while packets < budget {
            let Some(taken) = self.take() else {
                self.socket.release();
                let state = match packets {
                    0 => self.state_when_empty(filtered)?,
                    _ => PortState::Busy,
                };
                return Ok(Received { packets, state });
            };
            let bytes = self.socket.umem().bytes(taken.offset, taken.length).unwrap_or(&[]);
            let appended = writer.append(bytes, &taken.meta);
            if !self.account.copied(appended, bytes.len(), &taken.meta, writer) {
                self.pending = Some(taken);
                return Ok(Received { packets, state: PortState::Blocked });
            }
            packets += 1;
            self.delivered += 1;
        }
        self.socket.release();
        let state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        Ok(Received { packets, state })
    }

    /// As `receive`, but the packets stay in their frames.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.begin()?;
        scratch.clear();
        let filtered = self.judge.filtered();
        let first_packet = self.delivered;
        let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
        if self.take_plain(scratch, budget) == 0 {
            while scratch.len() < budget {
                let Some(taken) = self.take() else { break };
                scratch.push(taken.offset, taken.length, &taken.meta);
            }
        }
        self.delivered += scratch.len() as u64;
        let state = match scratch.is_empty() {
            false => PortState::Busy,
            true if budget == 0 => PortState::Blocked,
            true => self.state_when_empty(filtered)?,
        };
        Ok(Lent::new(scratch.burst_in_frames(self.socket.umem(), first_packet), state))
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst_in_frames(self.socket.umem(), 0))
    }

    /// Packets that the program stamped before the poll were in the ring by then, except those in
    /// progress in a softirq.
    fn low_time_ns(&self) -> Option<u64> {
        Some(self.poll_time_ns.saturating_sub(UNDER_WAY_NS))
    }
}

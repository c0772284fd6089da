//! The source of one log: lends a reader's packets, and follows the writers of its name.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Burst, Ending, Policy, SCRATCH_PACKETS, Scratch, Writer};
use burstline_share::{Feed, Trust, WriterLink};
use burstline_sys::clock;

use super::account::{Past, consumed};
use super::interfaces::{Interfaces, named};
use super::judge::LogJudge;
use super::name::{Name, Next, Taken};
use super::settings::LogSettings;
use crate::{
    Capabilities, Lent, Loss, OpenOptions, Places, Port, PortAccount, PortError, PortInfo,
    PortState, Received, Source, TimestampSource,
};

/// Time between two checks whether the writer still lives, in ns.
const LOOK_EVERY_NS: u64 = 10_000_000;

/// Length of one sleep while waiting for the next writer.
const WAIT_EVERY: Duration = Duration::from_millis(50);

/// The state of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is a writer, or one whose log is not drained yet.
    Reading,
    /// Without a publisher since this time.
    Waiting(Instant),
    /// No more packets will come.
    Ended,
}

/// One log of a name.
pub(super) struct LogSource {
    info: PortInfo,
    /// Its index among the name's ports.
    index: usize,
    name: Arc<Name>,
    is_following: bool,
    /// Whether to read packets in place if this program publishes them.
    is_of_program: bool,
    phase: Phase,
    feed: Feed,
    link: Arc<WriterLink>,
    interfaces: Interfaces,
    judge: LogJudge,
    /// Packets delivered, over all writers.
    delivered: u64,
    /// Numbers, in the log from 1, of the packets lent last, if some may have been left out.
    numbers: Vec<u64>,
    /// Whether the last burst was lent with the writer's own descs.
    is_lent_as_is: bool,
    past: Past,
    /// Packets published since the reader's start when the port was asked to finish.
    stop: Option<u64>,
    /// Missed packets of this writer already reported in a packet's `drops_before`.
    told: u64,
    /// Whether the writer was found gone; after that its log was checked once more.
    is_gone: bool,
    looked_ns: u64,
    account: PortAccount,
    refusal: Option<String>,
}

impl LogSource {
    pub(super) fn new(
        shown: String,
        index: usize,
        name: &Arc<Name>,
        taken: Taken,
        settings: &LogSettings,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let Taken { feed, link, .. } = taken;
        let capabilities = Capabilities {
            tells_gaps: true,
            can_wait: settings.policy == Policy::Lossless,
            can_drain: true,
            is_deep: options.queue_bytes.is_some(),
            ..Capabilities::default()
        };
        let timestamps = TimestampSource::from_code(feed.clock_kind());
        let mut source = Self {
            info: PortInfo { name: shown, capabilities, timestamps },
            index,
            name: Arc::clone(name),
            is_following: settings.is_following,
            is_of_program: settings.trust == Trust::PROGRAM,
            phase: Phase::Reading,
            feed,
            link,
            interfaces: Interfaces::new(options),
            judge: LogJudge::new(options),
            delivered: 0,
            numbers: Vec::new(),
            is_lent_as_is: true,
            past: Past::default(),
            stop: None,
            told: 0,
            is_gone: false,
            looked_ns: 0,
            account: PortAccount::default(),
            refusal: None,
        };
        source.judge.meet(&source.feed);
        source.say_whether_copied();
        // Compile the filter now, so that an unsuitable one fails before anything is written.
        let known = (0..=u8::MAX).filter(|&port| source.feed.port_name(port).is_some());
        for port in known {
            source.judge.wishes.add_link(&source.info.name, named(&source.feed, port).0)?;
        }
        Ok(source)
    }

    /// Adds a hint if the publisher is another program than expected: reading it costs more.
    fn say_whether_copied(&mut self) {
        if self.is_of_program && self.feed.is_wary() && self.index == 0 {
            let (name, pid) = (&self.info.name, self.link.pid());
            self.account.hint(|| {
                format!(
                    "{name}: its writer, process {pid}, does not run this program file: packets \
                     are copied and checked, unless trust=own vouches for it"
                )
            });
        }
    }

    /// Takes up to `most` packets from the reader, or returns the state if there are none.
    #[inline]
    fn take(&mut self, most: u64) -> Result<u64, PortState> {
        if most == 0 {
            return Err(PortState::Blocked);
        }
        let most = match self.stop {
            Some(stop) => most.min(stop.saturating_sub(consumed(&self.feed))),
            None => most,
        };
        let taken = match self.phase {
            Phase::Reading => self.feed.take_up_to(most),
            Phase::Waiting(_) | Phase::Ended => 0,
        };
        if taken == 0 { Err(self.state_when_empty()) } else { Ok(taken) }
    }

    /// Registers the interfaces of the taken packets. Returns whether they can be lent unchanged.
    fn learn(&mut self) -> Result<bool, PortError> {
        let missed = self.feed.statistics().missed;
        let news = missed.saturating_sub(std::mem::replace(&mut self.told, missed));
        self.judge.drops_before = self.judge.drops_before.saturating_add(news);
        let Self { info, feed, interfaces, judge, .. } = self;
        let Some(burst) = feed.taken() else { return Ok(true) };
        let taken = burst.len() as u64;
        let learned = interfaces.learn(&info.name, &burst, feed, &mut judge.wishes);
        if learned.is_err() {
            feed.put_back(taken); // they are in flight when the job ends
        }
        Ok(learned? && judge.is_indifferent())
    }

    #[cold]
    fn state_when_empty(&mut self) -> PortState {
        match self.phase {
            Phase::Ended => PortState::Ended,
            Phase::Waiting(since) => self.look_for_next(since),
            Phase::Reading => self.look_at_writer(),
        }
    }

    /// Decides whether more packets of this writer can come, when nothing is left to read.
    fn look_at_writer(&mut self) -> PortState {
        if self.stop.is_some_and(|stop| consumed(&self.feed) >= stop) {
            self.phase = Phase::Ended;
            return PortState::Ended;
        }
        if self.feed.is_finished() {
            return self.writer_ended(self.feed.ending());
        }
        if self.is_gone && self.feed.has_more() {
            return PortState::Busy; // a partial check may meet only other readers' packets
        }
        if self.is_gone {
            // The writer was gone before the last check, so that was the last packet.
            return self.writer_ended(self.feed.ending());
        }
        let now_ns = clock::monotonic_ns();
        if now_ns - self.looked_ns >= LOOK_EVERY_NS {
            self.looked_ns = now_ns;
            self.is_gone = self.link.is_gone();
        }
        if self.is_gone { PortState::Busy } else { PortState::Idle }
    }

    /// Handles the end of a writer whose last packet was read.
    fn writer_ended(&mut self, ending: Option<Ending>) -> PortState {
        let (name, pid, epoch) = (&self.info.name, self.link.pid(), self.link.epoch());
        let how = match ending {
            Some(Ending::Final) => {
                self.phase = Phase::Ended;
                return PortState::Ended;
            }
            Some(Ending::Stopped) => "was stopped",
            None => "died",
        };
        self.account.writer_down += 1;
        let goes_on = self.is_following && self.stop.is_none();
        let then = if goes_on { "; waiting for the next" } else { "" };
        let note = format!("{name}: its writer, process {pid}, epoch {epoch}, {how}{then}");
        self.account.event(|| note);
        self.phase = if goes_on { Phase::Waiting(Instant::now()) } else { Phase::Ended };
        if goes_on { PortState::Idle } else { PortState::Ended }
    }

    fn look_for_next(&mut self, since: Instant) -> PortState {
        if self.stop.is_some() {
            self.phase = Phase::Ended;
            return PortState::Ended;
        }
        match self.name.next(self.index, self.link.epoch()) {
            Next::Nobody => PortState::Idle,
            Next::Refused(why) => {
                // Report each refusal once, however often it is retried.
                if self.refusal.as_ref() != Some(&why) {
                    self.account.note(|| format!("{}: {why}", self.info.name));
                    self.refusal = Some(why);
                }
                PortState::Idle
            }
            Next::Taken(taken) => {
                self.take_up(*taken, since);
                PortState::Busy
            }
        }
    }

    /// Continues with another writer.
    fn take_up(&mut self, taken: Taken, since: Instant) {
        self.past.add(&self.feed);
        let unread_logs = taken.unread_logs;
        Taken { feed: self.feed, link: self.link, .. } = taken;
        (self.told, self.is_gone, self.refusal) = (0, false, None);
        self.interfaces.forget_numbers();
        self.judge.meet(&self.feed);
        self.phase = Phase::Reading;
        self.say_whether_copied();
        let (name, pid, epoch) = (&self.info.name, self.link.pid(), self.link.epoch());
        let seconds = since.elapsed().as_secs_f64();
        let behind = match self.feed.passed_before() {
            0 => String::new(),
            packets => {
                format!(", after its first {packets} packets, which are no longer in memory")
            }
        };
        self.account.event(|| {
            format!("{name}: process {pid}, epoch {epoch}, attached after {seconds:.1} s{behind}")
        });
        if unread_logs > 0 && self.index == 0 {
            self.account.event(|| {
                format!(
                    "{name}: process {pid}, epoch {epoch}, publishes {unread_logs} more logs than \
                     the first writer: they are not read; restart this job"
                )
            });
        }
    }
}

impl Port for LogSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes no packets published from now on; those already published can still be received, until
    /// `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        self.stop.get_or_insert(self.feed.offered());
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let sums = self.past.with(&self.feed, self.stop);
        let mut account = self.account.clone();
        account.offered = sums.offered;
        account.truncated += self.judge.truncated;
        self.judge.wishes.enter_into(&mut account);
        account.lost.add(Loss::ReaderOverrun, sums.missed);
        // Nothing is in flight once a log is drained, even if packets are then unaccounted for.
        if self.phase == Phase::Reading {
            account.in_flight = sums.offered.saturating_sub(sums.consumed);
        }
        if self.feed.is_wary() && (sums.torn > 0 || self.phase == Phase::Ended) {
            contradictions(&mut account, sums.consumed, sums.torn, &self.info.name);
        }
        // A publisher that ends marks all its readers this way; they lose nothing by it.
        if self.feed.is_demoted() && self.feed.statistics().missed > 0 {
            let name = &self.info.name;
            account.note(|| {
                format!("{name}: its writer stopped waiting for this reader: lossy since then")
            });
        }
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        match self.phase {
            Phase::Reading => {
                self.feed.wait(timeout_ns);
                Some(self.feed.lag() > 0)
            }
            Phase::Waiting(_) => {
                thread::sleep(WAIT_EVERY.min(Duration::from_nanos(timeout_ns)));
                Some(false)
            }
            Phase::Ended => None,
        }
    }
}

impl Source for LogSource {
    /// No system call while packets are available.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let taken = match self.take(budget) {
            Ok(taken) => taken,
            Err(state) => return Ok(Received { packets: 0, state }),
        };
        self.learn()?;
        let Self { feed, interfaces, judge, account, .. } = self;
        let (mut packets, mut seen) = (0, 0);
        for packet in feed.taken().iter().flat_map(|burst| burst.packets()) {
            if judge.wants(&packet, interfaces) {
                let (kept, meta) = judge.describe(&packet, interfaces);
                let bytes = packet.bytes();
                let bytes = bytes.get(..kept as usize).unwrap_or(bytes);
                let appended = writer.append(bytes, &meta);
                if !account.copied(appended, bytes.len(), &meta, writer) {
                    break;
                }
                judge.deliver(kept, meta.original_length);
                packets += 1;
            }
            seen += 1;
        }
        self.delivered += packets;
        feed.put_back(taken - seen);
        let state = if seen < taken { PortState::Blocked } else { PortState::Busy };
        Ok(Received { packets, state })
    }

    /// No system call while packets are available. The packets stay where the writer has put them.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let state = self.take(budget.min(SCRATCH_PACKETS as u64)).err();
        let is_plain = state.is_some() || self.learn()?;
        let first_packet = self.delivered;
        let Self { feed, interfaces, judge, delivered, numbers, .. } = self;
        numbers.clear();
        let Some(burst) = feed.taken().filter(|_| state.is_none()) else {
            let state = state.unwrap_or(PortState::Idle);
            return Ok(Lent::new(scratch.burst(&[], first_packet), state));
        };
        // Numbers in a log count from 0.
        let first = burst.first_packet() + 1;
        let mut all = first..;
        let burst = match is_plain {
            true => {
                let cut = burst.packets().filter(|packet| packet.facts().is_some());
                let cut = cut.filter(|packet| packet.length() < packet.original_length());
                judge.truncated += cut.count() as u64;
                burst.numbered(first_packet)
            }
            false => scratch.select(&burst, first_packet, |packet| {
                let number = all.next();
                judge.wants(packet, interfaces).then(|| {
                    numbers.extend(number);
                    let (kept, meta) = judge.describe(packet, interfaces);
                    judge.deliver(kept, meta.original_length);
                    (kept, meta)
                })
            }),
        };
        *delivered += burst.len() as u64;
        self.is_lent_as_is = is_plain;
        let places = Some(Places { file: None, segment: None, first, numbers: &*numbers });
        Ok(Lent { burst, state: PortState::Busy, places })
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        match self.feed.taken() {
            Some(burst) if self.is_lent_as_is => Some(burst),
            Some(burst) => Some(scratch.selected(&burst)),
            None => Some(scratch.burst(&[], 0)),
        }
    }
}

/// Compares an untrusted writer's count with the packets read.
fn contradictions(account: &mut PortAccount, consumed: u64, torn: u64, name: &str) {
    if torn > 0 {
        account.is_damaged = true;
        account.note(|| format!("{name}: {torn} packets were overwritten or inconsistent"));
    }
    if account.in_flight == 0 && account.offered != consumed {
        account.is_damaged = true;
        let said = std::mem::replace(&mut account.offered, consumed);
        account.note(|| format!("{name}: its writer reports {said} packets, {consumed} were read"));
    }
}

//! The source: takes packets of one queue, lends or appends them.

use std::sync::Arc;

use burstline_dpdk::{Device, Marks, Offloads, Plain, Receiver, Spreading};
use burstline_log::{Appended, Burst, Flags, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_wire::headers::LinkType;

use super::intake::TakenQueue;
use super::settings::{Settings, hash_kind};
use super::watch::DeviceWatch;
use crate::filter::UNWANTED_MOST;
use crate::judge::Judge;
use crate::table::Seat;
use crate::{
    Address, Capabilities, Lent, OpenOptions, Port, PortAccount, PortError, PortInfo, PortState,
    Received, Source, TimestampSource,
};

/// Bursts of one call that share the time of the first: reading the clock for each took a tenth of
/// a short packet's reception. That makes times early by less than 20 us in bursts of 64.
const BURSTS_A_TIME: u32 = 4;

/// One receive queue of a device.
pub(super) struct DpdkSource {
    info: PortInfo,
    intake: TakenQueue,
    burst: usize,
    /// Bursts since the last reading of the clock.
    bursts: u32,
    /// Whether bursts of several calls may share a time.
    shares_times: bool,
    watch: DeviceWatch,
    describer: Describer,
    /// For bursts that are copied whole.
    scratch: Scratch,
    delivered: u64,
    /// Whether the device is gone, and that was reported.
    is_lost: bool,
    account: PortAccount,
}

/// Describes packets.
struct Describer {
    judge: Judge,
    /// Whether the device's hash is the one that the job wants.
    takes_hash: bool,
    /// The device, if its timestamps are wanted.
    clock: Option<Offloads>,
    port: Seat,
    /// When this poll began, in ns since 1970.
    time_ns: u64,
    /// The next packet, which did not fit into the log.
    pending: Option<(u32, Meta)>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    partial_checksums: u64,
    bad_checksums: u64,
    merged: u64,
    hashed_by_device: u64,
    /// Packets with the time of the poll, although the device's was wanted.
    untimed: u64,
    /// Bytes of packets that were gathered from several mbufs.
    gathered_bytes: u64,
}

impl DpdkSource {
    pub(super) fn new(
        address: &Address,
        settings: &Settings,
        device: &Arc<Device>,
        queue: u16,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let link = LinkType::ETHERNET;
        let judge = Judge::for_link(options, &address.to_string(), link)?;
        let name = match settings.device.queues {
            1 => address.to_string(),
            _ => format!("dpdk:{}@{queue}", device.devargs()),
        };
        let interface = name.strip_prefix("dpdk:").unwrap_or(&name);
        let interface = interface.split(['?', ',']).next().unwrap_or(interface);
        let port = options.table.seat_for(&name, interface, link)?;
        let capabilities = Capabilities { can_drain: true, ..Capabilities::default() };
        let receiver = Receiver::new(device, queue, settings.burst)?;
        let facts = device.facts();
        let clock = facts.offloads.times.then(|| facts.offloads.clone());
        let timestamps = match clock {
            Some(_) if facts.is_hardware => TimestampSource::Hardware,
            Some(_) => TimestampSource::Device,
            None => TimestampSource::Poll,
        };
        let tells_hash = facts.offloads.rss.as_ref().is_some_and(Spreading::tells_our_hash);
        let is_wanted = hash_kind(settings.device.rss) == Some(options.hash);
        let mut account = PortAccount::default();
        if queue == 0 {
            account.hint(|| format!("offloads of {}: {}", facts.driver, facts.offloads));
        }
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps },
            intake: TakenQueue::new(receiver, queue),
            burst: usize::from(settings.burst),
            bursts: 0,
            shares_times: options.may_share_times,
            watch: DeviceWatch::new(device),
            describer: Describer {
                judge,
                takes_hash: tells_hash && is_wanted,
                clock,
                port,
                time_ns: 0,
                pending: None,
                counts: Counts::default(),
            },
            scratch: Scratch::new(),
            delivered: 0,
            is_lost: false,
            account,
        })
    }

    /// Polls for packets, unless some are left. Returns how many there are.
    #[inline]
    fn poll(&mut self) -> usize {
        if self.intake.receiver.undelivered() == 0 {
            if self.bursts.is_multiple_of(BURSTS_A_TIME) {
                self.describer.time_ns = clock::realtime_ns();
            }
            self.bursts += 1;
        }
        let found = self.intake.poll(self.burst);
        if found == 0 {
            self.bursts = 0;
        }
        found
    }

    fn look(&mut self) {
        self.watch.look(clock::monotonic_ns(), &mut self.account);
    }

    /// Returns the state if nothing was delivered.
    #[cold]
    fn state_when_empty(&mut self) -> Result<PortState, PortError> {
        let is_gone = self.watch.is_gone();
        let is_over = self.intake.is_over(is_gone);
        if is_gone && !std::mem::replace(&mut self.is_lost, true) {
            return Err(self.watch.gone());
        }
        Ok(if is_over { PortState::Ended } else { PortState::Idle })
    }

    /// Copies packets of the current burst, up to `budget`, or until the log is full.
    fn copy(&mut self, writer: &mut Writer, budget: u64) -> Received {
        let mut packets = self.copy_plain(writer, budget);
        let Self { intake, describer, account, .. } = self;
        while packets < budget {
            let Some((bytes, marks)) = intake.receiver.peek() else { break };
            if let Some((kept, meta)) = describer.describe(bytes, marks) {
                let bytes = &bytes[..bytes.len().min(kept as usize)];
                let appended = writer.append(bytes, &meta);
                if !account.copied(appended, bytes.len(), &meta, writer) {
                    describer.pending = Some((kept, meta));
                    return Received { packets, state: PortState::Blocked };
                }
                packets += 1;
            }
            intake.receiver.advance();
        }
        Received { packets, state: PortState::Busy }
    }

    /// As [`copy`](Self::copy), for a new burst without marks; otherwise 0. Packets that do not fit
    /// into the log are left.
    #[inline]
    fn copy_plain(&mut self, writer: &mut Writer, budget: u64) -> u64 {
        let Self { intake, describer, account, scratch, .. } = self;
        let Some(plain) = describer.plain() else { return 0 };
        let (most_bytes, mut bytes_copied) = (writer.max_packet_bytes(), 0);
        let most = budget.min(SCRATCH_PACKETS as u64) as usize;
        let mut batch = writer.batch();
        let taken = intake.receiver.copy_plain(scratch, most, plain, |bytes| {
            let length = bytes.len();
            let meta = Meta::new(plain.time_ns, length as u32, plain.port);
            // A packet too long for a segment is truncated and counted by the general path.
            let is_in = length <= most_bytes && batch.append(bytes, &meta) == Appended::Whole;
            bytes_copied += if is_in { length as u64 } else { 0 };
            is_in
        });
        account.bytes_copied += bytes_copied;
        taken.unwrap_or(0) as u64
    }
}

impl Describer {
    /// Returns the properties of all packets without marks, if all are wanted unchanged.
    #[inline]
    fn plain(&self) -> Option<Plain> {
        let is_unmarked = !self.judge.is_hashing() && self.clock.is_none();
        let is_plain = self.judge.takes_all() && is_unmarked && self.pending.is_none();
        is_plain.then_some(Plain { port: self.port.number(), time_ns: self.time_ns })
    }

    #[inline]
    fn describe(&mut self, bytes: &[u8], marks: Marks) -> Option<(u32, Meta)> {
        if self.pending.is_some() {
            return self.pending.take();
        }
        let length = bytes.len() as u32;
        if !self.judge.wants(LinkType::ETHERNET, bytes, length, 0) {
            return None;
        }
        let kept = self.judge.keep(length, length);
        let mut meta = Meta::new(self.time_of(marks), length, self.port.number());
        if marks.is_odd() {
            self.mark(&mut meta, length, marks);
        }
        match marks.hash() {
            Some(hash) if self.takes_hash => {
                self.counts.hashed_by_device += 1;
                meta.hash = hash;
            }
            _ => self.judge.describe(LinkType::ETHERNET, &mut meta, || &bytes[..kept as usize]),
        }
        Some((kept, meta))
    }

    #[inline]
    fn time_of(&mut self, marks: Marks) -> u64 {
        let Some(clock) = &self.clock else { return self.time_ns };
        let told = marks.time();
        self.counts.untimed += u64::from(told.is_none());
        told.map_or(self.time_ns, |time| clock.time_ns(time))
    }

    #[cold]
    fn mark(&mut self, meta: &mut Meta, length: u32, marks: Marks) {
        let counts = &mut self.counts;
        if marks.has_partial_checksum() {
            meta.flags = meta.flags.union(Flags::PARTIAL_CHECKSUM);
            counts.partial_checksums += 1;
        }
        if marks.is_merged() {
            meta.flags = meta.flags.union(Flags::MERGED);
            counts.merged += 1;
        }
        counts.bad_checksums += u64::from(marks.has_bad_checksum());
        if marks.is_chained() {
            counts.gathered_bytes += u64::from(length);
        }
    }
}

impl Counts {
    fn note(&self, account: &mut PortAccount) {
        for (packets, what) in [
            (self.partial_checksums, "packets whose checksum a device still has to fill in"),
            (self.bad_checksums, "packets have a wrong checksum, according to the device"),
            (self.merged, "packets are GSO/GRO aggregates"),
            (self.hashed_by_device, "packets have the device's hash"),
            (self.untimed, "packets have the time of their poll: the device gave none"),
        ] {
            if packets > 0 {
                account.hint(|| format!("{packets} {what}"));
            }
        }
    }
}

impl Port for DpdkSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes no new packets; those that have arrived can still be received, until `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        self.intake.finish();
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let counts = &self.describer.counts;
        let mut account = self.account.clone();
        account.bytes_copied += counts.gathered_bytes;
        self.intake.enter_into(&mut account);
        self.describer.judge.enter_into(&mut account);
        counts.note(&mut account);
        account
    }
}

impl Source for DpdkSource {
    /// No system calls except the driver's; every 50 ms one or two, to check the device.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        self.look();
        let filtered = self.describer.judge.filtered();
        let mut packets = 0;
        self.bursts = 0;
        let state = loop {
            if packets >= budget {
                break if budget == 0 { PortState::Blocked } else { PortState::Busy };
            }
            if self.poll() == 0 {
                let is_empty = packets == 0 && self.describer.judge.filtered() == filtered;
                break if is_empty { self.state_when_empty()? } else { PortState::Busy };
            }
            let copied = self.copy(writer, budget - packets);
            packets += copied.packets;
            let unwanted = self.describer.judge.filtered() - filtered;
            if copied.state == PortState::Blocked || unwanted > UNWANTED_MOST {
                break copied.state;
            }
        };
        self.delivered += packets;
        Ok(Received { packets, state })
    }

    /// As `receive`, but the packets stay in their mbufs, and a burst is one of the device. A
    /// packet in several mbufs is gathered into its own burst. Cost: one reading of the clock per
    /// burst, or per four bursts if times may be shared.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.intake.receiver.release();
        if !self.shares_times {
            self.bursts = 0;
        }
        let state = if budget == 0 {
            PortState::Blocked
        } else if self.poll() > 0 {
            self.watch.look_at_times(&mut self.account);
            PortState::Busy
        } else {
            self.look();
            self.state_when_empty()?
        };
        let Self { intake, describer, delivered, .. } = self;
        let most = budget.min(SCRATCH_PACKETS as u64) as usize;
        let plain = describer.plain();
        let describe = |bytes: &[u8], marks| describer.describe(bytes, marks);
        let burst = intake.receiver.lend(scratch, most, *delivered, plain, describe);
        *delivered += burst.len() as u64;
        Ok(Lent::new(burst, state))
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(self.intake.receiver.lent(scratch))
    }
}

//! The source: takes packets of one queue, lends or appends them.

use std::sync::Arc;

use burstline_dpdk::{Device, Marks, Plain, Receiver};
use burstline_log::{Burst, Flags, MAX_PACKET_BYTES, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_wire::filter::Program;
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use super::intake::Intake;
use super::settings::Settings;
use super::watch::DeviceWatch;
use crate::filter::UNWANTED_MOST;
use crate::{
    Address, Capabilities, Lent, Loss, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortState, Received, TimestampSource,
};

/// One receive queue of a device.
pub(super) struct DpdkSource {
    info: PortInfo,
    intake: Intake,
    burst: usize,
    watch: DeviceWatch,
    describer: Describer,
    delivered: u64,
    /// The device is gone, and that was told.
    is_lost: bool,
    account: PortAccount,
}

/// What is found out about each packet.
struct Describer {
    hasher: FlowHasher,
    is_hashing: bool,
    filter: Option<Program>,
    port: u8,
    /// Packets of which more bytes are there than this are cut.
    snapshot_bytes: u32,
    /// When this poll began, in ns since 1970.
    time_ns: u64,
    /// What the next packet is, which the log had no room for.
    pending: Option<(u32, Meta)>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    filtered: u64,
    truncated: u64,
    partial_checksums: u64,
    bad_checksums: u64,
    merged: u64,
    /// Bytes of packets of several mbufs, which are put together.
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
        let filter = options.filter.compile(&address.to_string(), link)?;
        let name = match settings.device.queues {
            1 => address.to_string(),
            _ => format!("dpdk:{}@{queue}", device.devargs()),
        };
        let interface = name.strip_prefix("dpdk:").unwrap_or(&name);
        let interface = interface.split(['?', ',']).next().unwrap_or(interface);
        let port = options.table.add_for(&name, interface, link)?;
        let capabilities = Capabilities {
            can_receive: true,
            can_lend: true,
            can_drain: true,
            ..Capabilities::default()
        };
        let receiver = Receiver::new(device, queue, settings.burst)?;
        let most = options.snapshot_bytes.unwrap_or(u32::MAX).min(MAX_PACKET_BYTES as u32);
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps: TimestampSource::Poll },
            intake: Intake::new(receiver, queue),
            burst: usize::from(settings.burst),
            watch: DeviceWatch::new(device),
            describer: Describer {
                hasher: FlowHasher::new(options.hash),
                is_hashing: options.hash != HashKind::None,
                filter,
                port,
                snapshot_bytes: most,
                time_ns: 0,
                pending: None,
                counts: Counts::default(),
            },
            delivered: 0,
            is_lost: false,
            account: PortAccount::default(),
        })
    }

    /// Has packets to deliver, if there are any.
    #[inline]
    fn poll(&mut self) -> usize {
        if self.intake.receiver.undelivered() == 0 {
            self.describer.time_ns = clock::realtime_ns();
        }
        self.intake.poll(self.burst)
    }

    fn look(&mut self) {
        self.watch.look(clock::monotonic_ns(), &mut self.account);
    }

    /// What to say when there was nothing to deliver.
    #[cold]
    fn state_when_empty(&mut self) -> Result<PortState, PortError> {
        let is_gone = self.watch.is_gone();
        let is_over = self.intake.is_over(is_gone);
        if is_gone && !std::mem::replace(&mut self.is_lost, true) {
            return Err(self.watch.gone());
        }
        Ok(if is_over { PortState::Ended } else { PortState::Idle })
    }

    /// Copies packets that are there already, up to `budget`, or until the log is full.
    fn copy(&mut self, writer: &mut Writer, budget: u64) -> Received {
        let Self { intake, describer, account, .. } = self;
        let mut packets = 0;
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
}

impl Describer {
    /// What is true of every packet that nothing is marked of, if all of each is wanted as it is.
    #[inline]
    fn plain(&self) -> Option<Plain> {
        let is_whole = self.snapshot_bytes >= MAX_PACKET_BYTES as u32;
        let is_plain = self.filter.is_none() && !self.is_hashing && self.pending.is_none();
        let plain = Plain { port: self.port, time_ns: self.time_ns };
        (is_whole && is_plain).then_some(plain)
    }

    #[inline]
    fn describe(&mut self, bytes: &[u8], marks: Marks) -> Option<(u32, Meta)> {
        if self.pending.is_some() {
            return self.pending.take();
        }
        let length = bytes.len() as u32;
        if let Some(filter) = &self.filter
            && filter.run(bytes, length) == 0
        {
            self.counts.filtered += 1;
            return None;
        }
        let kept = length.min(self.snapshot_bytes);
        let mut meta = Meta::new(self.time_ns, length, self.port);
        self.counts.truncated += u64::from(kept < length);
        if marks != Marks::default() {
            self.mark(&mut meta, length, marks);
        }
        if self.is_hashing {
            meta.hash = self.hasher.hash(LinkType::ETHERNET, &bytes[..kept as usize]);
        }
        Some((kept, meta))
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
            (self.partial_checksums, "packets whose checksum is left to a device"),
            (self.bad_checksums, "packets with a wrong checksum, says the device"),
            (self.merged, "packets are several of the wire in one"),
        ] {
            if packets > 0 {
                account.note(|| format!("{packets} {what}"));
            }
        }
    }
}

impl Port for DpdkSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// No system call but the driver's; every 50 ms one or two, to look at the device.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        self.look();
        let filtered = self.describer.counts.filtered;
        let mut packets = 0;
        let state = loop {
            if packets >= budget {
                break if budget == 0 { PortState::Blocked } else { PortState::Busy };
            }
            if self.poll() == 0 {
                let is_empty = packets == 0 && self.describer.counts.filtered == filtered;
                break if is_empty { self.state_when_empty()? } else { PortState::Busy };
            }
            let copied = self.copy(writer, budget - packets);
            packets += copied.packets;
            let unwanted = self.describer.counts.filtered - filtered;
            if copied.state == PortState::Blocked || unwanted > UNWANTED_MOST {
                break copied.state;
            }
        };
        self.delivered += packets;
        Ok(Received { packets, state })
    }

    /// As `receive`; the packets stay in their mbufs, and a burst is one of the device. One that
    /// lies in several mbufs is a burst of its own, and put together. Cost: one look at the clock
    /// a burst.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.intake.receiver.release();
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
        Ok(Lent { burst, state })
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(self.intake.receiver.lent(scratch))
    }

    /// Takes no more than is there; that may still be received, up to `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        self.intake.finish();
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let counts = &self.describer.counts;
        let mut account = PortAccount {
            fragments_unmatched: self.describer.hasher.fragments_unmatched(),
            ..self.account.clone()
        };
        account.truncated += counts.truncated;
        account.bytes_copied += counts.gathered_bytes;
        self.intake.enter_into(&mut account);
        if self.describer.filter.is_some() {
            account.lost.add(Loss::Filtered, counts.filtered);
        }
        counts.note(&mut account);
        account
    }
}

//! The source: takes packets from the ring, lends or appends them.

use std::os::fd::{AsFd, BorrowedFd};

use burstline_afpacket::{Ring, RingPacket, RingStatistics, Timestamps};
use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_sys::interface::Interface;
use burstline_wire::headers::LinkType;

use super::judge::share_out;
use super::settings::{self, LOOPBACK};
use crate::judge::Judge;
use crate::table::Seat;
use crate::watch::{LINK_HEADER_MAX, Watch};
use crate::{
    Address, Capabilities, Lent, Loss, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortState, Received, RingFill, Source, TimestampSource,
};

/// A block with packets is retired after at most two expirations of its timer: the first one may
/// find that the block was opened since. Source: `prb_retire_rx_blk_timer_expired`,
/// net/packet/af_packet.c, Linux 6.18.
const RETIRE_NS_A_MS: u64 = 2 * 1_000_000;

/// Delay of that timer and of our check of the ring, in ns: a tick, and a thread that waits for its
/// core.
const HANDLING_NS: u64 = 10_000_000;

/// A packet taken from the held block.
#[derive(Clone, Copy)]
struct Taken {
    offset: u32,
    length: u32,
    meta: Meta,
}

/// Counts of packets that differ from those on the wire.
#[derive(Default)]
struct Oddities {
    partial_checksums: u64,
    merged: u64,
    without_hardware_time: u64,
}

/// The source of a live interface.
pub(super) struct AfPacketSource {
    info: PortInfo,
    ring: Ring,
    judge: Judge,
    /// Whether the kernel filters nothing.
    judges_alone: bool,
    watch: Watch,
    link: LinkType,
    port: Seat,
    /// Taken from the ring, but did not fit into the log.
    pending: Option<Taken>,
    delivered: u64,
    oddities: Oddities,
    /// Start of the last poll, and of the last one that found nothing, in ns since 1970.
    began_ns: u64,
    idle_ns: u64,
    /// The maximum age of a packet when its block is handed over.
    open_block_ns: u64,
    is_stopped: bool,
    is_over: bool,
    account: PortAccount,
}

impl AfPacketSource {
    pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let mut settings = settings::parse(address)?;
        let found = Interface::named(address.target())?;
        settings::count_once(&mut settings, found.hardware_type);
        let link = link_type(&found)?;
        let name = address.to_string();
        let (filter, kept) = (&options.filter, options.snapshot_bytes);
        let judges_alone = share_out(filter, &name, link, kept, &mut settings)?;
        let judge = Judge::for_link(options, &name, link)?;
        settings::deepen(&mut settings, address, options.queue_bytes);
        let ring_bytes = settings.block_bytes * settings.blocks;
        let ring = Ring::open(address.target(), &settings)?;
        let interface = ring.interface();
        let port = options.table.seat_for(&name, &interface.name, link)?;
        let capabilities = Capabilities {
            tells_gaps: true,
            can_drain: true,
            is_deep: options.queue_bytes.is_some_and(|bytes| bytes <= ring_bytes),
            ..Capabilities::default()
        };
        let timestamps = match settings.timestamps {
            Timestamps::Kernel => TimestampSource::Kernel,
            Timestamps::Hardware => TimestampSource::Hardware,
        };
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps },
            watch: Watch::new(interface),
            ring,
            judge,
            judges_alone,
            link,
            port,
            pending: None,
            delivered: 0,
            oddities: Oddities::default(),
            began_ns: 0,
            idle_ns: 0,
            open_block_ns: u64::from(settings.retire_timeout_ms) * RETIRE_NS_A_MS + HANDLING_NS,
            is_stopped: false,
            is_over: false,
            account: PortAccount { ring_bytes: ring_bytes as u64, ..PortAccount::default() },
        })
    }

    /// Returns the next packet. With `may_advance` it may take the next block if this one has no
    /// more. But a call that met an unwanted packet ends with its block.
    ///
    /// Always inlined: returned through memory, a packet's few words would cost two delays.
    #[inline(always)]
    fn take(&mut self, mut may_advance: bool) -> Option<Taken> {
        if let Some(taken) = self.pending.take() {
            return Some(taken);
        }
        loop {
            if !may_advance && self.ring.held_left() == 0 {
                return None;
            }
            match self.ring.next_block()?.next_packet() {
                Some(packet) => {
                    if self.wants(&packet) {
                        return Some(self.describe(&packet));
                    }
                    may_advance = false;
                }
                None if !may_advance => return None,
                // A block that ends early because of damage is followed by the next one.
                None => {}
            }
        }
    }

    /// Whether a packet of the held block is wanted, unless the kernel has already judged it.
    #[inline]
    fn wants(&mut self, packet: &RingPacket) -> bool {
        if !self.judge.is_filtering() || !self.judges_alone && !packet.marks.had_stripped_tag() {
            return true;
        }
        let bytes = bytes_of(&self.ring, packet.offset, packet.length);
        self.judge.wants(self.link, bytes, packet.original_length, packet.drops_before)
    }

    #[inline(always)]
    fn describe(&mut self, packet: &RingPacket) -> Taken {
        let length = self.judge.keep(packet.length, packet.original_length);
        let mut meta = Meta::new(packet.time_ns, packet.original_length, self.port.number());
        meta.drops_before = packet.drops_before;
        if packet.marks.is_outgoing() {
            meta.flags = meta.flags.union(Flags::OUTGOING);
        }
        if packet.marks.has_partial_checksum() {
            meta.flags = meta.flags.union(Flags::PARTIAL_CHECKSUM);
            self.oddities.partial_checksums += 1;
        }
        let longest = self.watch.mtu().saturating_add(LINK_HEADER_MAX);
        if packet.marks.is_merged_tcp() || packet.original_length > longest {
            meta.flags = meta.flags.union(Flags::MERGED);
            self.oddities.merged += 1;
        }
        if !packet.marks.has_hardware_time() {
            self.oddities.without_hardware_time += 1;
        }
        let ring = &self.ring;
        self.judge.describe(self.link, &mut meta, || bytes_of(ring, packet.offset, length));
        Taken { offset: packet.offset, length, meta }
    }

    /// Returns the state if nothing was delivered; `filtered` is the count before this call.
    #[cold]
    fn state_when_empty(&mut self, filtered: u64) -> Result<PortState, PortError> {
        if self.judge.filtered() > filtered {
            return Ok(PortState::Busy);
        }
        self.idle_ns = self.began_ns;
        // An open block is retired soon, even when its interface is gone.
        if !self.is_over && (self.watch.is_gone() || self.is_stopped) && self.ring.in_ring() == 0 {
            self.is_over = true;
            if self.watch.is_gone() {
                return Err(self.watch.gone());
            }
        }
        Ok(if self.is_over { PortState::Ended } else { PortState::Idle })
    }

    fn look(&mut self) -> Result<(), PortError> {
        let (ring, account) = (&self.ring, &mut self.account);
        // Read before the ring, so that packets arriving meanwhile are younger.
        self.began_ns = clock::realtime_ns();
        let now_ns = clock::monotonic_ns();
        if self.watch.look(now_ns, || ring.link_state(), account)? {
            // Well before the kernel's 32-bit count wraps.
            self.ring.rejected();
        }
        Ok(())
    }

    fn note_oddities(&self, account: &mut PortAccount) {
        let oddities = &self.oddities;
        if oddities.partial_checksums > 0 {
            let packets = oddities.partial_checksums;
            account
                .hint(|| format!("{packets} packets whose checksum a device still has to fill in"));
        }
        if oddities.merged > 0 {
            let packets = oddities.merged;
            account.hint(|| format!("{packets} packets are GSO/GRO aggregates"));
        }
        let is_hardware = self.info.timestamps == TimestampSource::Hardware;
        if is_hardware && oddities.without_hardware_time > 0 {
            let packets = oddities.without_hardware_time;
            let name = self.watch.name();
            account.hint(|| {
                format!("{packets} packets without hardware time: sudo hwstamp_ctl -i {name} -r 1")
            });
        }
    }
}

impl Port for AfPacketSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes no more packets; those in the ring can still be received, until `Ended`.
    fn finish(&mut self) -> Result<(), PortError> {
        self.is_stopped = true;
        self.ring.stop().map_err(|error| self.watch.failed("stop capturing on", error))
    }

    fn account(&self) -> PortAccount {
        let before = self.ring.statistics();
        let in_flight = self.ring.in_ring() + u64::from(self.pending.is_some());
        let after = self.ring.statistics();
        let taken = self.delivered + self.judge.filtered();
        let kept = kept_between(&before, &after, taken + in_flight);
        let rejected = self.ring.rejected();
        let offered = kept + after.drops + rejected;
        let mut account = PortAccount { offered, in_flight, ..self.account.clone() };
        let (waiting, blocks) = (self.ring.waiting_blocks() as u64, self.ring.blocks() as u64);
        account.rings = vec![RingFill::rx("blocks", waiting, blocks)];
        account.lost.add(Loss::RxRingFull, after.drops);
        self.judge.enter_into(&mut account);
        if self.judge.is_filtering() {
            account.lost.add(Loss::Filtered, rejected);
        }
        self.note_oddities(&mut account);
        account
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }
}

/// Returns the packets that the kernel kept, by its counts before and after we counted `ours`.
///
/// Packets arrive between the three readings. The kernel's count passed through all values between
/// its two readings. If our count is within that range, it was exact at some moment. Otherwise the
/// nearest kernel value shows the difference.
fn kept_between(before: &RingStatistics, after: &RingStatistics, ours: u64) -> u64 {
    let kept = |reading: &RingStatistics| reading.packets - reading.drops;
    ours.clamp(kept(before), kept(after))
}

impl Source for AfPacketSource {
    /// Cost: one system call per block; every 50 ms a few more, to check the interface.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        self.look()?;
        let (mut packets, filtered) = (0, self.judge.filtered());
        while packets < budget {
            let Some(taken) = self.take(self.judge.filtered() == filtered) else {
                let state = match packets {
                    0 => self.state_when_empty(filtered)?,
                    _ => PortState::Busy,
                };
                return Ok(Received { packets, state });
            };
            let bytes = bytes_of(&self.ring, taken.offset, taken.length);
            let appended = writer.append(bytes, &taken.meta);
            if !self.account.copied(appended, bytes.len(), &taken.meta, writer) {
                self.pending = Some(taken);
                return Ok(Received { packets, state: PortState::Blocked });
            }
            packets += 1;
            self.delivered += 1;
        }
        let state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        Ok(Received { packets, state })
    }

    /// As `receive`, but the packets stay in the kernel's block. A burst is from one block.
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.look()?;
        scratch.clear();
        let (first_packet, filtered) = (self.delivered, self.judge.filtered());
        let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
        while scratch.len() < budget {
            let may_advance = scratch.is_empty() && self.judge.filtered() == filtered;
            let Some(taken) = self.take(may_advance) else { break };
            scratch.push(taken.offset, taken.length, &taken.meta);
        }
        self.delivered += scratch.len() as u64;
        let state = match scratch.is_empty() {
            false => PortState::Busy,
            true if budget == 0 => PortState::Blocked,
            true => self.state_when_empty(filtered)?,
        };
        Ok(Lent::new(scratch.burst(self.ring.held_bytes(), first_packet), state))
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(self.ring.held_bytes(), 0))
    }

    /// A packet may wait in an open block until that is retired; a card's clock is independent.
    fn low_time_ns(&self) -> Option<u64> {
        let is_kernel = self.info.timestamps == TimestampSource::Kernel;
        is_kernel.then(|| self.idle_ns.saturating_sub(self.open_block_ns))
    }
}

/// Returns the bytes of a packet of the held block.
#[inline(always)]
fn bytes_of(ring: &Ring, offset: u32, length: u32) -> &[u8] {
    &ring.held_bytes()[offset as usize..offset as usize + length as usize]
}

/// Returns the link type of an interface with this hardware type. Source: ARPHRD_ numbers,
/// uapi/linux/if_arp.h; LINKTYPE_ numbers, the pcap registry.
pub(crate) fn link_type(interface: &Interface) -> Result<LinkType, PortError> {
    match interface.hardware_type {
        // The loopback has Ethernet headers.
        1 | LOOPBACK => Ok(LinkType::ETHERNET),
        // None: tun and WireGuard carry bare IP packets.
        65534 => Ok(LinkType::RAW),
        hardware_type => {
            Err(PortError::UnknownLink { interface: interface.name.clone(), hardware_type })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_count_and_the_kernels_agree_beyond_32_bits() {
        const WRAP: u64 = 1 << 32;
        let reading = |kept, drops| RingStatistics { packets: kept + drops, drops, freezes: 0 };
        let (before, after) = (reading(WRAP - 2, WRAP - 1), reading(WRAP + 2, WRAP + 9));
        for (ours, kept) in
            [(7, WRAP - 2), (WRAP - 1, WRAP - 1), (WRAP + 2, WRAP + 2), (2 * WRAP, WRAP + 2)]
        {
            assert_eq!(kept_between(&before, &after, ours), kept);
        }
    }
}

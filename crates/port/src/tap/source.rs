//! The source: reads packets from the device's queues into a buffer and lends them there.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use burstline_log::{Burst, Flags, Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_sys::clock;
use burstline_sys::rising::Rising;
use burstline_sys::tap::{LONGEST, Offload, TapCounts};
use burstline_wire::headers::LinkType;

use super::device::{self, Half};
use super::settings::{KEYS, parse};
use crate::halves::Role;
use crate::judge::Judge;
use crate::table::Seat;
use crate::watch::Watch;
use crate::{
    Address, Capabilities, Copying, Lent, Loss, OpenOptions, Port, PortAccount, PortError,
    PortInfo, PortState, Received, Source, TimestampSource,
};

/// Bytes of the buffer: enough for some dozens of packets of 1,514 bytes plus one of the maximum
/// length, and small enough to stay in the cache.
const BUFFER_BYTES: usize = 4 * (64 << 10);
const _: () = assert!(BUFFER_BYTES > 2 * LONGEST);

/// Alignment of packets in the buffer.
const ALIGNMENT: usize = 16;

/// The source of one device.
pub(super) struct TapSource {
    info: PortInfo,
    device: Half,
    watch: Watch,
    judge: Judge,
    port: Seat,
    buffer: Box<[u8]>,
    /// The queue that is polled next.
    queue: usize,
    /// Packets read from the queues, wanted or not.
    taken: u64,
    delivered: u64,
    unfinished: u64,
    copying: Copying,
    counts: Counts,
    /// How many packets may still be taken once the source is stopped.
    left: Option<u64>,
    is_over: bool,
    account: PortAccount,
}

/// The kernel's counts, as far as they can be read.
struct Counts {
    taken: Cell<Rising>,
    dropped: Cell<Rising>,
    /// Packets that this source had taken at the last reading.
    ours_then: Cell<u64>,
    is_out_of_sight: bool,
}

impl TapSource {
    pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let wanted = parse(&address.values(KEYS)?)?;
        let (name, link) = (address.to_string(), LinkType::ETHERNET);
        let judge = Judge::for_link(options, &name, link)?;
        let device = device::take(address, wanted, Role::Source)?;
        let interface = device.device().interface();
        let port = options.table.seat_for(&name, &interface.name, link)?;
        let capabilities = Capabilities {
            can_drain: true,
            passes_offloads: device.options().passes_offloads,
            ..Capabilities::default()
        };
        let mut account = PortAccount::default();
        let (depth, asked) = (device.device().depth(), device.options().depth);
        if depth != asked {
            account.hint(|| {
                format!(
                    "{}: {depth} packets fit into a queue, not {asked}: a user namespace may not \
                     set it",
                    interface.name
                )
            });
        }
        let at_start = device.device().counts().unwrap_or_default();
        Ok(Self {
            info: PortInfo { name, capabilities, timestamps: TimestampSource::Poll },
            watch: Watch::new(interface),
            device,
            judge,
            port,
            buffer: vec![0; BUFFER_BYTES].into(),
            queue: 0,
            taken: 0,
            delivered: 0,
            unfinished: 0,
            copying: Copying::default(),
            counts: Counts::new(at_start),
            left: None,
            is_over: false,
            account,
        })
    }

    fn look(&mut self) -> Result<(), PortError> {
        let (device, account) = (&self.device, &mut self.account);
        let state = || device.device().link_state();
        if !self.watch.look(clock::monotonic_ns(), state, account)? {
            return Ok(());
        }
        if self.watch.is_gone() {
            return self.end_gone();
        }
        let now = self.device.device().counts();
        self.counts.see(now, self.taken);
        match now {
            Some(_) => {}
            None if !std::mem::replace(&mut self.counts.is_out_of_sight, true) => {
                let name = self.watch.name();
                self.account.note(|| {
                    format!(
                        "{name} was moved to another network namespace: only its own counters \
                         show what it drops there (ip -s link)"
                    )
                });
            }
            None => {}
        }
        Ok(())
    }

    fn end_gone(&mut self) -> Result<(), PortError> {
        match std::mem::replace(&mut self.is_over, true) {
            true => Ok(()),
            false => Err(self.watch.gone()),
        }
    }

    /// Reads packets into the buffer, up to `budget`, and describes wanted ones. Returns how many
    /// it took, or that the device is gone.
    fn fill(&mut self, scratch: &mut Scratch, budget: usize) -> io::Result<u64> {
        let mut meta = Meta::new(clock::realtime_ns(), 0, self.port.number());
        let (mut at, mut taken, mut empty) = (0, 0, 0);
        let queues = self.device.device().queues();
        let most = self.left.unwrap_or(u64::MAX).min(SCRATCH_PACKETS as u64);
        while scratch.len() < budget && taken < most && at + LONGEST <= BUFFER_BYTES {
            let room = &mut self.buffer[at..at + LONGEST];
            let Some((bytes, offload)) = self.device.device().receive(self.queue, room)? else {
                empty += 1;
                self.queue = (self.queue + 1) % queues;
                if empty >= queues {
                    break;
                }
                continue;
            };
            (taken, empty) = (taken + 1, 0);
            self.taken += 1;
            at += self.describe(scratch, &mut meta, at, bytes, &offload);
        }
        self.queue = (self.queue + 1) % queues;
        if let Some(left) = &mut self.left {
            *left -= taken;
        }
        Ok(taken)
    }

    /// Describes a packet of the buffer, if it is wanted. Returns its size in the buffer.
    #[inline]
    fn describe(
        &mut self,
        scratch: &mut Scratch,
        meta: &mut Meta,
        at: usize,
        bytes: usize,
        offload: &Offload,
    ) -> usize {
        let (link, packet) = (LinkType::ETHERNET, &self.buffer[at..at + bytes]);
        if !self.judge.wants(link, packet, bytes as u32, 0) {
            return 0;
        }
        let kept = self.judge.keep(bytes as u32, bytes as u32);
        meta.original_length = bytes as u32;
        meta.flags = Flags::NONE;
        if offload.checksum.is_some() {
            meta.flags = meta.flags.union(Flags::PARTIAL_CHECKSUM);
        }
        if offload.is_merged {
            meta.flags = meta.flags.union(Flags::MERGED);
        }
        self.unfinished += u64::from(offload.checksum.is_some() || offload.is_merged);
        self.judge.describe(link, meta, || &packet[..kept as usize]);
        scratch.push(at as u32, kept, meta);
        bytes.next_multiple_of(ALIGNMENT)
    }
}

impl Counts {
    /// Starts from the device's present counts.
    fn new(now: TapCounts) -> Self {
        let (taken, dropped) = (Rising::from(now.taken), Rising::from(now.dropped));
        let (taken, dropped) = (Cell::new(taken), Cell::new(dropped));
        Self { taken, dropped, ours_then: Cell::new(0), is_out_of_sight: false }
    }

    /// Returns the device's counts since it was opened, taken and dropped. If they cannot be read,
    /// the last reading is used, plus packets taken since; `ours` is the total taken.
    fn see(&self, now: Option<TapCounts>, ours: u64) -> (u64, u64) {
        let (mut taken, mut dropped) = (self.taken.get(), self.dropped.get());
        let Some(now) = now else {
            return (taken.sum() + ours - self.ours_then.get(), dropped.sum());
        };
        let sums = (taken.see(now.taken), dropped.see(now.dropped));
        self.taken.set(taken);
        self.dropped.set(dropped);
        self.ours_then.set(ours);
        sums
    }
}

impl Port for TapSource {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Takes at most as many packets as the queues can hold: those that are there now, and perhaps
    /// some that arrive meanwhile.
    fn finish(&mut self) -> Result<(), PortError> {
        self.left = Some(device::capacity(&self.device));
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let (taken, dropped) = self.counts.see(self.device.device().counts(), self.taken);
        let mut account = PortAccount { offered: taken + dropped, ..self.account.clone() };
        account.lost.add(Loss::RxRingFull, dropped);
        self.judge.enter_into(&mut account);
        self.copying.add_to(&mut account);
        if self.unfinished > 0 {
            let packets = self.unfinished;
            account.note(|| format!("{packets} packets left checksums or segments to a device"));
        }
        account
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.device().as_fd())
    }
}

impl Source for TapSource {
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        scratch.clear();
        let mut state = PortState::Ended;
        if !self.is_over {
            self.look()?;
            let budget = budget.min(SCRATCH_PACKETS as u64) as usize;
            let taken = match self.fill(scratch, budget) {
                Ok(taken) => taken,
                // Packets taken before are returned first; the next call reports the error again.
                Err(_) if !scratch.is_empty() => scratch.len() as u64,
                Err(_) => {
                    self.watch.look_at_once();
                    self.look()?;
                    0
                }
            };
            self.is_over |= taken == 0 && budget > 0 && self.left.is_some();
            if !self.is_over {
                state = PortState::after(taken, budget as u64);
            }
        }
        let first_packet = self.delivered;
        self.delivered += scratch.len() as u64;
        Ok(Lent::new(scratch.burst(&self.buffer, first_packet), state))
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        Copying::receive(self, |source| &mut source.copying, writer, budget)
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(&self.buffer, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_device_that_begin_anew_hide_and_invent_no_loss() {
        let now = |taken, dropped| Some(TapCounts { taken, dropped });
        // While the counters cannot be read, the packets taken by this source are still known.
        // Later, the device's counters are different ones, or were reset.
        let looks = [
            (now(1_010, 7), 10, (10, 2)),
            (None, 14, (14, 2)),
            (now(3, 1), 17, (13, 3)),
            (now(20, 0), 34, (30, 3)),
            (now(20, u64::from(u32::MAX)), 34, (30, 3 + u64::from(u32::MAX))),
            (now(20, 4), 34, (30, 8 + u64::from(u32::MAX))),
        ];
        let counts = Counts::new(TapCounts { taken: 1_000, dropped: 5 });
        for (now, ours, sums) in looks {
            assert_eq!(counts.see(now, ours), sums, "{now:?}");
        }
    }
}

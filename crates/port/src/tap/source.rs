//! The source: reads packets from the device's queues.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};

use burstline_sys::clock;
use burstline_sys::rising::Rising;
use burstline_sys::tap::{LONGEST, TapCounts};

use super::device::{self, Half};
use super::settings::{KEYS, parse};
use crate::halves::Role;
use crate::live::{Got, Intake, LiveSource, judge};
use crate::watch::Watch;
use crate::{Address, Loss, OpenOptions, OpenedSources, PortAccount, PortError};

/// The queues of one device.
struct Queues {
    device: Half,
    watch: Watch,
    /// The queue that is polled next.
    queue: usize,
    /// Packets read from the queues, wanted or not.
    taken: u64,
    counts: Counts,
    /// Whether an error has reported that the device is gone.
    has_reported: bool,
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

/// Opens a device for receiving.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    let wanted = parse(&address.values(KEYS)?)?;
    let judge = judge(address, options)?;
    let device = device::take(address, wanted, Role::Source)?;
    let interface = device.device().interface().clone();
    let mut account = PortAccount::default();
    let (depth, asked) = (device.device().depth(), device.options().depth);
    if depth != asked {
        account.hint(|| {
            format!(
                "{}: {depth} packets fit into a queue, not {asked}: a user namespace may not set \
                 it",
                interface.name
            )
        });
    }
    let at_start = device.device().counts().unwrap_or_default();
    let queues = Queues {
        watch: Watch::new(&interface),
        device,
        queue: 0,
        taken: 0,
        counts: Counts::new(at_start),
        has_reported: false,
        account,
    };
    let name = &interface.name;
    Ok(vec![Box::new(LiveSource::new(address, name, judge, &options.table, queues)?)])
}

impl Queues {
    /// Reads the device's counts, and notes once if they cannot be read.
    fn look_at_counts(&mut self) {
        let now = self.device.device().counts();
        self.counts.see(now, self.taken);
        if now.is_none() && !std::mem::replace(&mut self.counts.is_out_of_sight, true) {
            let name = self.watch.name();
            self.account.note(|| {
                format!(
                    "{name} was moved to another network namespace: only its own counters show \
                     what it drops there (ip -s link)"
                )
            });
        }
    }
}

impl Intake for Queues {
    const LONGEST: usize = LONGEST;

    fn look(&mut self) -> Result<bool, PortError> {
        let (device, account) = (&self.device, &mut self.account);
        let state = || device.device().link_state();
        let has_looked = self.watch.look(clock::monotonic_ns(), state, account)?;
        if self.watch.is_gone() {
            return match std::mem::replace(&mut self.has_reported, true) {
                true => Ok(true),
                false => Err(self.watch.gone()),
            };
        }
        if has_looked {
            self.look_at_counts();
        }
        Ok(false)
    }

    fn take(&mut self, room: &mut [u8], _refused: &mut u64) -> Option<Got> {
        let queues = self.device.device().queues();
        for _ in 0..queues {
            match self.device.device().receive(self.queue, room) {
                Ok(Some((bytes, offload))) => {
                    self.taken += 1;
                    return Some(Got::new(bytes, offload.checksum.is_some(), offload.is_merged));
                }
                Ok(None) => self.queue = (self.queue + 1) % queues,
                Err(_) => {
                    // The next check finds out whether it is gone; a later read fails again.
                    self.watch.look_at_once();
                    return None;
                }
            }
        }
        None
    }

    fn give_back(&mut self) {
        self.queue = (self.queue + 1) % self.device.device().queues();
    }

    fn account(&self) -> PortAccount {
        let (taken, dropped) = self.counts.see(self.device.device().counts(), self.taken);
        let mut account = PortAccount { offered: taken + dropped, ..self.account.clone() };
        account.lost.add(Loss::RxRingFull, dropped);
        account
    }

    fn capacity(&self) -> u64 {
        let (depth, queues) = (self.device.device().depth(), self.device.options().queues);
        u64::from(depth) * u64::from(queues)
    }

    fn passes_offloads(&self) -> bool {
        self.device.options().passes_offloads
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.device.device().as_fd()
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

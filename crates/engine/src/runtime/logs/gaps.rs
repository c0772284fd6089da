//! Tells a sink, while a job runs, how many packets of an interface were lost before its next one.
//!
//! Most sources do not know between which packets a loss occurred. Their ledger has only the total,
//! and is read a few times a second. The increase since the last reading goes to the sink, which
//! marks the next packet of that interface. So a mark shows where the loss was found, which is off
//! by up to one reading interval plus the queue. Sources with better knowledge mark their packets
//! themselves ([`Capabilities::tells_gaps`](burstline_port::Capabilities)).
//!
//! Not reported: losses after the last packet, and those of a recorder too slow for a log of
//! several interfaces. Nothing tells the interfaces of the latter. Both are in the totals at the
//! end.

use burstline_port::{InterfaceTotals, Loss, LossPlace, Losses, PortAccount, Sink};

use crate::{Inlet, Progress};

/// Facts about a source before it is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Its interface, if it has exactly one.
    pub(crate) interface: Option<u8>,
    /// Whether it marks its losses on its packets.
    tells_gaps: bool,
}

impl Origin {
    /// Returns the origin of each source, in their order.
    pub(crate) fn of_all(sources: &[Inlet]) -> Vec<Self> {
        sources.iter().map(Self::of).collect()
    }

    /// The origin of packets of one interface that have no marks.
    #[cfg(test)]
    pub(crate) fn unmarked(port: u8) -> Self {
        Self { interface: Some(port), tells_gaps: false }
    }

    fn of(source: &Inlet) -> Self {
        let interfaces = &source.interfaces;
        let interface = u8::try_from(interfaces.start).ok().filter(|_| interfaces.len() == 1);
        Self { interface, tells_gaps: source.port.info().capabilities.tells_gaps }
    }
}

/// The losses reported to one sink.
pub(crate) struct Gaps {
    origins: Vec<Origin>,
    /// By source: its losses reported so far.
    told: Vec<u64>,
    /// By log: the missed packets of its reader reported so far.
    told_of_logs: Vec<u64>,
}

impl Gaps {
    /// Creates the state of a sink fed by `logs` logs; source i fills log i modulo their number. 0
    /// logs: the source itself feeds the sink.
    pub(crate) fn new(origins: Vec<Origin>, logs: usize) -> Self {
        Self { told: vec![0; origins.len()], origins, told_of_logs: vec![0; logs] }
    }

    /// Tells `sink` the losses since the last call. `missed`: packets that the reader of each log
    /// has missed so far. Cost: a lock.
    pub(crate) fn tell(&mut self, progress: &Progress, missed: &[u64], sink: &mut dyn Sink) {
        progress.with_losses_by_source(|losses| {
            for ((origin, told), losses) in self.origins.iter().zip(&mut self.told).zip(losses) {
                if let Some(port) = origin.interface.filter(|_| !origin.tells_gaps) {
                    tell(port, unmarked(losses), told, sink);
                }
            }
        });
        let logs = self.told_of_logs.len();
        for (log, (told, &missed)) in self.told_of_logs.iter_mut().zip(missed).enumerate() {
            if let Some(port) = only_interface(&self.origins, log, logs) {
                tell(port, missed, told, sink);
            }
        }
    }

    /// Leaves out losses up to `lost`, by source, of those that fill log number `log`, and its first
    /// `missed` missed packets: they were before the packets that the sink gets now.
    pub(crate) fn leave_out(&mut self, log: usize, lost: &[u64], missed: u64) {
        let of_log = self.told.iter_mut().zip(lost).skip(log).step_by(self.told_of_logs.len());
        of_log.for_each(|(told, &lost)| *told = lost.max(*told));
        self.told_of_logs[log] = missed;
    }

    /// Returns the totals of the interfaces so far, without received packets. `missed` as in
    /// [`tell`](Self::tell); `lost_behind`: packets of an interface lost in front of the sink or by
    /// it.
    pub(crate) fn totals(
        &self,
        progress: &Progress,
        missed: &[u64],
        lost_behind: impl Fn(u8) -> u64,
    ) -> Vec<InterfaceTotals> {
        let mut totals = Vec::new();
        progress.with_losses_by_source(|losses| {
            for (origin, losses) in self.origins.iter().zip(losses) {
                let Some(port) = origin.interface else { continue };
                totals.push(InterfaceTotals {
                    port,
                    received: None,
                    missed: losses.at(LossPlace::Interface),
                    lost: losses.at(LossPlace::Host) + lost_behind(port),
                    unwanted: losses.at(LossPlace::Nowhere),
                });
            }
        });
        let logs = missed.len();
        for (log, &missed) in missed.iter().enumerate() {
            let port = only_interface(&self.origins, log, logs);
            let of_log = totals.iter_mut().filter(|totals| Some(totals.port) == port);
            of_log.for_each(|totals| totals.lost += missed);
        }
        totals
    }
}

/// Returns the totals of a source's only interface. `lost`: further packets that the job has lost.
pub(crate) fn totals_of(account: &PortAccount, port: u8, lost: u64) -> InterfaceTotals {
    InterfaceTotals {
        port,
        received: Some(account.offered),
        missed: account.lost.at(LossPlace::Interface),
        lost: account.lost.at(LossPlace::Host) + lost,
        unwanted: account.lost.at(LossPlace::Nowhere),
    }
}

/// Returns the interface of all packets in log number `log` of `logs`, if there is only one.
fn only_interface(origins: &[Origin], log: usize, logs: usize) -> Option<u8> {
    let mut fillers = origins.iter().skip(log).step_by(logs);
    match (fillers.next(), fillers.next()) {
        (Some(only), None) => only.interface,
        _ => None,
    }
}

/// Tells the sink how far `lost` exceeds `told`.
fn tell(port: u8, lost: u64, told: &mut u64, sink: &mut dyn Sink) {
    if lost > *told {
        sink.tell_gap(port, lost - *told);
        *told = lost;
    }
}

/// Returns the losses of each source so far, without injected ones. Cost: a lock and an allocation.
pub(crate) fn unmarked_losses(progress: &Progress) -> Vec<u64> {
    let mut lost = Vec::new();
    progress.with_losses_by_source(|losses| lost.extend(losses.iter().map(unmarked)));
    lost
}

/// Returns the losses without marks. An injector marks the packet behind those it drops.
fn unmarked(losses: &Losses) -> u64 {
    losses.missing() - losses.of(Loss::Injected)
}

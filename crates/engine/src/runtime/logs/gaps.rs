//! Tells a sink what was lost before the next packet of an interface, while a job runs.
//!
//! Most sources do not know between which packets a loss fell; their ledger says how much it was,
//! and is read some times a second. What it has more than at the last reading goes to the sink,
//! which marks the next packet of that interface. So a mark stands where the loss was found. That
//! is up to a reading, and what is queued, away from where the loss was. Sources that know better
//! mark their packets themselves ([`Capabilities::tells_gaps`](burstline_port::Capabilities)).
//!
//! Not reported: a loss after the last packet. Nor that of a recorder too slow for a log of several
//! interfaces: whose those packets were is unknown. Both are in the totals at the end.

use burstline_port::{InterfaceTotals, Loss, LossPlace, Losses, PortAccount, Sink};

use crate::{Inlet, Progress};

/// What is known of a source before it is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Its interface, where it has one and no more.
    pub(crate) interface: Option<u8>,
    /// Whether its packets tell of its losses.
    tells_gaps: bool,
}

impl Origin {
    /// Of each source, in their order.
    pub(crate) fn of_all(sources: &[Inlet]) -> Vec<Self> {
        sources.iter().map(Self::of).collect()
    }

    fn of(source: &Inlet) -> Self {
        let interfaces = &source.interfaces;
        let interface = u8::try_from(interfaces.start).ok().filter(|_| interfaces.len() == 1);
        Self { interface, tells_gaps: source.port.info().capabilities.tells_gaps }
    }
}

/// What one sink knows of losses.
pub(crate) struct Gaps {
    origins: Vec<Origin>,
    /// By source: what is known of its own losses.
    told: Vec<u64>,
    /// By log: the part of its reader's missed packets that was reported.
    told_of_logs: Vec<u64>,
}

impl Gaps {
    /// For a sink that is fed from `logs` logs; source i fills log i modulo their number. 0: it is
    /// fed by the source itself.
    pub(crate) fn new(origins: Vec<Origin>, logs: usize) -> Self {
        Self { told: vec![0; origins.len()], origins, told_of_logs: vec![0; logs] }
    }

    /// Tells `sink` what was lost since the last call. `missed`: what the reader of each log has
    /// missed so far. Cost: a lock.
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

    /// What is known of the interfaces so far; what was received is not. `missed` as in
    /// [`tell`](Self::tell); `lost_behind`: what was lost of an interface in front of the sink or
    /// by it.
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

/// What is known of the only interface of a source. The job has lost `lost` packets of it besides.
pub(crate) fn totals_of(account: &PortAccount, port: u8, lost: u64) -> InterfaceTotals {
    InterfaceTotals {
        port,
        received: Some(account.offered),
        missed: account.lost.at(LossPlace::Interface),
        lost: account.lost.at(LossPlace::Host) + lost,
        unwanted: account.lost.at(LossPlace::Nowhere),
    }
}

/// The interface of all packets in log number `log` of `logs`, if there is just one.
fn only_interface(origins: &[Origin], log: usize, logs: usize) -> Option<u8> {
    let mut fillers = origins.iter().skip(log).step_by(logs);
    match (fillers.next(), fillers.next()) {
        (Some(only), None) => only.interface,
        _ => None,
    }
}

/// Tells what `lost` is more than was `told`.
fn tell(port: u8, lost: u64, told: &mut u64, sink: &mut dyn Sink) {
    if lost > *told {
        sink.tell_gap(port, lost - *told);
        *told = lost;
    }
}

/// What no packet is marked with: an injector marks the packet behind those that it drops.
fn unmarked(losses: &Losses) -> u64 {
    losses.missing() - losses.of(Loss::Injected)
}

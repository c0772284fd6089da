//! Tells a sink, while a job runs, how many packets of an interface were lost before its next one.
//!
//! Most sources do not know between which packets a loss occurred. Their ledger has only the total,
//! and is read a few times a second. The increase since the last reading goes to the sink, which
//! marks the next packet of that interface. So a mark shows where the loss was found, which is off
//! by up to one reading interval plus the queue. Sources with better knowledge mark their packets
//! themselves ([`Capabilities::tells_gaps`](burstline_port::Capabilities)).
//!
//! A log that several sources fill does not tell whose packets its reader missed. But each source's
//! packets that were not seen were missed, or are still in the log. As many as are certainly missed
//! are reported:
//!
//! ```text
//! unseen = received - seen             of each source
//! in the log = sum of unseen - missed  of all sources of the log
//! missed >= unseen - in the log        of each source; equal once the log is read
//! ```
//!
//! The counters are not read at one moment, so a number counts if two readings in sequence agree.
//!
//! Not reported: losses after the last packet, and what a reader missed of sources with several
//! interfaces, or of a shared log whose packets expire. Nothing tells the interfaces of these.

use burstline_port::{InterfaceTotals, Loss, LossPlace, Losses, PortAccount, Sink};

use crate::runtime::Tally;
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
    /// By source of a log with several: its missed packets, at least, as of the last call.
    least_missed: Vec<u64>,
    /// By source of a log with several: its missed packets reported so far.
    told_missed: Vec<u64>,
}

impl Gaps {
    /// Creates the state of a sink fed by `logs` logs; source i fills log i modulo their number. 0
    /// logs: the source itself feeds the sink.
    pub(crate) fn new(origins: Vec<Origin>, logs: usize) -> Self {
        let by_source = || vec![0; origins.len()];
        let (told, least_missed, told_missed) = (by_source(), by_source(), by_source());
        Self { origins, told, told_of_logs: vec![0; logs], least_missed, told_missed }
    }

    /// Tells `sink` the losses since the last call. `missed`: packets that the reader of each log
    /// has missed so far; `seen`: those that it has seen, by interface. Cost: a lock.
    pub(crate) fn tell(
        &mut self,
        progress: &Progress,
        missed: &[u64],
        seen: &[Tally],
        sink: &mut dyn Sink,
    ) {
        progress.with_losses_by_source(|losses| {
            for ((origin, told), losses) in self.origins.iter().zip(&mut self.told).zip(losses) {
                if let Some(port) = origin.interface.filter(|_| !origin.tells_gaps) {
                    tell(port, unmarked(losses), told, sink);
                }
            }
        });
        for (log, &missed) in missed.iter().enumerate().take(self.told_of_logs.len()) {
            match only_interface(&self.origins, log, self.told_of_logs.len()) {
                Some(port) => tell_overrun(port, missed, &mut self.told_of_logs[log], sink),
                None if missed > self.told_of_logs[log] => {
                    let received = progress.received_by_source();
                    self.tell_shared(log, missed, &received, seen, sink);
                }
                None => {}
            }
        }
    }

    /// Tells the sink what the reader of log number `log`, which several sources fill, has
    /// certainly missed of each.
    fn tell_shared(
        &mut self,
        log: usize,
        missed: u64,
        received: &[u64],
        seen: &[Tally],
        sink: &mut dyn Sink,
    ) {
        let logs = self.told_of_logs.len();
        let mut unseen = Vec::new();
        for (origin, &received) in self.origins.iter().zip(received).skip(log).step_by(logs) {
            let Some(port) = origin.interface else { return };
            unseen.push((port, received.saturating_sub(seen[usize::from(port)].packets)));
        }
        let in_log = unseen.iter().map(|&(_, unseen)| unseen).sum::<u64>().saturating_sub(missed);
        for (index, (port, unseen)) in unseen.into_iter().enumerate() {
            let source = log + index * logs;
            let least = unseen.saturating_sub(in_log);
            let before = std::mem::replace(&mut self.least_missed[source], least);
            // Together no more than the reader's own count.
            let most = self.told_missed[source] + missed - self.told_of_logs[log];
            let told_before = self.told_missed[source];
            tell_overrun(port, least.min(before).min(most), &mut self.told_missed[source], sink);
            self.told_of_logs[log] += self.told_missed[source] - told_before;
        }
    }

    /// Leaves out losses up to `lost`, by source, of those that fill log number `log`, and its
    /// first `missed` missed packets: they were before the packets that the sink gets now.
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
            let losses = losses.iter().zip(&self.told_missed);
            for (origin, (losses, told_missed)) in self.origins.iter().zip(losses) {
                let Some(port) = origin.interface else { continue };
                totals.push(InterfaceTotals {
                    port,
                    received: None,
                    missed: losses.at(LossPlace::Interface),
                    lost: losses.at(LossPlace::Host) + lost_behind(port) + told_missed,
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
        received: Some(account.offered.saturating_sub(account.in_flight)),
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

/// As [`tell`], for packets that the reader of a log has missed.
fn tell_overrun(port: u8, missed: u64, told: &mut u64, sink: &mut dyn Sink) {
    if missed > *told {
        sink.tell_overrun(port, missed - *told);
        *told = missed;
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

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use burstline_log::Burst;
    use burstline_port::{
        LostPackets, OpenOptions, Port, PortAccount, PortError, PortInfo, open_sink,
    };

    use super::*;

    /// Gaps that were told, with their interfaces.
    pub(crate) type Told = Arc<Mutex<Vec<(u8, u64)>>>;

    /// A sink that keeps the gaps it was told, and no packets.
    pub(crate) struct Heard {
        sink: Box<dyn Sink>,
        told: Told,
    }

    impl Heard {
        pub(crate) fn new(told: &Told) -> Self {
            let sink = open_sink(&"null:".parse().unwrap(), &OpenOptions::default()).unwrap();
            Self { sink, told: Arc::clone(told) }
        }
    }

    impl Port for Heard {
        fn info(&self) -> &PortInfo {
            self.sink.info()
        }

        fn account(&self) -> PortAccount {
            self.sink.account()
        }

        fn finish(&mut self) -> Result<(), PortError> {
            self.sink.finish()
        }
    }

    impl Sink for Heard {
        fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
            self.sink.transmit(burst)
        }

        fn lost(&self) -> LostPackets {
            self.sink.lost()
        }

        fn tell_gap(&mut self, port: u8, packets: u64) {
            self.told.lock().unwrap().push((port, packets));
        }
    }

    #[test]
    fn a_packet_in_flight_is_in_no_closing_count() {
        let mut account = PortAccount { offered: 10, in_flight: 1, ..PortAccount::default() };
        account.lost.add(Loss::RxRingFull, 3);
        let totals = totals_of(&account, 0, 2);
        // Four are left, which were delivered.
        assert_eq!((totals.received, totals.missed, totals.lost), (Some(9), 3, 2));
    }

    #[test]
    fn a_shared_log_tells_whose_packets_its_reader_missed() {
        let (progress, told) = (Progress::new(2), Told::default());
        let mut sink = Heard::new(&told);
        let mut gaps = Gaps::new(vec![Origin::unmarked(0), Origin::unmarked(1)], 1);
        progress.received.iter().for_each(|counter| counter.store(&Tally::whole(100, 0)));
        let mut look = |seen: [u64; 2]| {
            let seen = seen.map(|packets| Tally::whole(packets, 0));
            gaps.tell(&progress, &[50], &seen, &mut sink);
            let lost = gaps.totals(&progress, &[50], |_| 0).into_iter().map(|of| of.lost);
            (std::mem::take(&mut *told.lock().unwrap()), lost.collect::<Vec<_>>())
        };
        // 20 packets are in the log, and may be of either source.
        assert_eq!(look([40, 90]), (vec![], vec![0, 0]));
        assert_eq!(look([40, 90]), (vec![(0, 40)], vec![40, 0]));
        // All is read.
        assert_eq!(look([58, 92]), (vec![], vec![40, 0]));
        assert_eq!(look([58, 92]), (vec![(0, 2), (1, 8)], vec![42, 8]));
        assert_eq!(look([58, 92]), (vec![], vec![42, 8]));
    }
}

//! The closing counts of files.
//!
//! A job says its totals since it began, a few times a second. The files of one output, in a row or
//! striped, share them: each has what no file closed before it has.
//!
//! ```text
//!  ifdrop of the job       0 | 7 | 26,930 | 26,930
//!  ifdrop of files 1 to 4  0 | 7 | 26,923 | 0
//! ```
//!
//! - C1: received = delivered + missed + lost + unwanted, in each file. The last file has what is
//!   left of the job's own count of received packets, which no sink increments. If the job's ledger
//!   does not close, that file does not close either.
//! - C2: a loss that both a packet and the totals report counts once, whichever comes first.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burstline_wire::files::{Counters, LossCause};

use super::super::layout::Format;
use super::{Body, Described, FileSink, InFile};
use crate::{InterfaceTotals, PortTable, TableEntry, Tally};

/// The closing counts of one interface of the file.
pub(in super::super) struct ClosingCounts {
    /// Its number in the file.
    pub(in super::super) interface: u32,
    /// The latest timestamp of a packet.
    pub(in super::super) time_ns: u64,
    pub(in super::super) counters: Counters,
}

/// Packets of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    received: u64,
    missed: u64,
    lost: u64,
    unwanted: u64,
    /// Losses that packets have reported.
    told: u64,
}

/// What is known of one interface when its file is closed.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its packets in the file.
    delivered: u64,
    /// Losses that its packets of this file have reported.
    told: u64,
    totals: InterfaceTotals,
}

impl Known {
    /// Returns the counts of this file, if `before` are those of all files before it.
    ///
    /// Losses may be reported by packets and not be in this job's ledger: a log's publisher, or the
    /// input file, counted them before. They count as received and missed.
    fn after(&self, before: &Counts) -> Counts {
        let totals = &self.totals;
        // What an input file reports may be any number.
        let told = before.told.saturating_add(self.told);
        let by_job = totals.missed + totals.lost;
        let before_here = before.missed.saturating_add(before.lost);
        let losses = by_job.max(told).saturating_sub(before_here);
        let lost = totals.lost.saturating_sub(before.lost).min(losses);
        let missed = losses - lost;
        let unwanted = totals.unwanted.saturating_sub(before.unwanted);
        let received = match totals.received {
            Some(all) => {
                let by_others = told.saturating_sub(by_job);
                all.saturating_add(by_others).saturating_sub(before.received)
            }
            None => (self.delivered + unwanted).saturating_add(losses),
        };
        Counts { received, missed, lost, unwanted, told: self.told }
    }
}

/// What the closed files of an output have of each interface of the job. Clones share it.
#[derive(Clone)]
pub(in super::super) struct ClosedFiles(Arc<Mutex<Vec<Counts>>>);

impl Default for ClosedFiles {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(vec![Counts::default(); PortTable::MAX_ENTRIES])))
    }
}

impl ClosedFiles {
    fn lock(&self) -> MutexGuard<'_, Vec<Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, port: u8) -> Counts {
        self.lock()[usize::from(port)]
    }

    fn add(&self, port: u8, file: &Counts) {
        let sum = &mut self.lock()[usize::from(port)];
        sum.received = sum.received.saturating_add(file.received);
        sum.missed = sum.missed.saturating_add(file.missed);
        sum.lost = sum.lost.saturating_add(file.lost);
        sum.unwanted += file.unwanted;
        sum.told = sum.told.saturating_add(file.told);
    }
}

impl FileSink {
    /// Makes its files share the job's losses with those of other sinks.
    pub(in super::super) fn share(&mut self, closed: &ClosedFiles) {
        self.closed = closed.clone();
        self.is_one_of_several = true;
    }

    /// Counts losses that no packet of the last file has reported.
    pub(super) fn count_gaps(&mut self) {
        let Body::Segmented(body) = &mut self.body else { return };
        let sum = |packets: &[u64]| packets.iter().copied().fold(0, u64::saturating_add);
        let (gaps, overruns) = (sum(&self.gaps), sum(&self.overruns));
        body.count_losses(LossCause::Overrun, overruns);
        body.count_losses(LossCause::Miss, gaps.saturating_sub(overruns));
    }

    /// Writes the closing counts of all interfaces.
    pub(super) fn write_statistics(&mut self) -> io::Result<()> {
        for index in 0..self.totals.len() {
            let port = self.totals[index].port;
            // An interface without packets is described, too, so that its counts can be in the
            // file.
            if self.described[usize::from(port)] == Described::NotYet {
                self.describe(port)?;
            }
        }
        for (number, interface) in (0..).zip(&self.interfaces) {
            let ClosingCounts { time_ns, counters, .. } = self.closing_counts(number, interface);
            let put = match &mut self.body {
                Body::Segmented(body) => body.statistics(number, time_ns, &counters)?,
                Body::Plain(body) => body.statistics(number, time_ns, &counters)?,
                _ => Ok(()),
            };
            put.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Returns the closing counts of interface `number` of the file.
    pub(super) fn closing_counts(&self, number: u32, in_file: &InFile) -> ClosingCounts {
        let delivered = Some(in_file.tally.packets);
        let totals = self.totals_of(in_file.port);
        let (is_counted, has_received) = match totals {
            Some(totals) => (true, totals.received.is_some() || self.is_one_of_several),
            None => (self.is_one_of_several, self.is_one_of_several),
        };
        let Counts { received, missed, lost, unwanted, .. } = self.counts(in_file);
        let counters = match is_counted {
            true => Counters {
                received: has_received.then_some(received),
                missed: Some(missed),
                accepted: has_received.then(|| received.saturating_sub(unwanted)),
                lost: Some(lost),
                delivered,
            },
            false => Counters { delivered, ..Counters::default() },
        };
        ClosingCounts { interface: number, time_ns: self.latest_ns, counters }
    }

    /// Notes that the file is closed, with these interfaces: their counts are in no later file.
    pub(super) fn count_closed(&mut self, interfaces: &[InFile]) {
        for in_file in interfaces {
            self.closed.add(in_file.port, &self.counts(in_file));
            self.told[usize::from(in_file.port)] = 0;
        }
    }

    /// Whether packets were lost that are in the counts of no file so far.
    pub(super) fn has_uncounted_losses(&self) -> bool {
        self.totals.iter().any(|totals| {
            let none = InFile { port: totals.port, tally: Tally::default() };
            let counts = self.counts(&none);
            counts.missed + counts.lost > 0
        })
    }

    /// Notes the losses that are in the counts of no file, by interface: the last file has failed.
    /// It has counts only of the interfaces that it describes in its safe part.
    pub(super) fn note_uncounted_losses(&mut self) {
        // Files of other stripes may still get them, and a pcap has no counts.
        if self.is_one_of_several || matches!(self.layout.format, Format::Classic { .. }) {
            return;
        }
        for totals in &self.totals {
            let none = InFile { port: totals.port, tally: Tally::default() };
            let Counts { missed, lost, .. } = self.counts(&none);
            let entry = self.table.entries_from(totals.port.into()).into_iter().next();
            if let Some(TableEntry { name, .. }) = entry.filter(|_| missed + lost > 0) {
                self.account.note(|| {
                    format!("{name}: no file has these losses in its counts: {}", missed + lost)
                });
            }
        }
    }

    fn counts(&self, in_file: &InFile) -> Counts {
        let InFile { port, tally } = *in_file;
        let totals = self.totals_of(port).copied().unwrap_or_default();
        let told = self.told[usize::from(port)];
        Known { delivered: tally.packets, told, totals }.after(&self.closed.of(port))
    }

    fn totals_of(&self, port: u8) -> Option<&InterfaceTotals> {
        self.totals.iter().find(|totals| totals.port == port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closes a file, and returns its received, missed, lost and unwanted packets.
    fn close(sum: &ClosedFiles, known: Known) -> [u64; 4] {
        let counts = known.after(&sum.of(0));
        sum.add(0, &counts);
        [counts.received, counts.missed, counts.lost, counts.unwanted]
    }

    fn totals(missed: u64, lost: u64) -> InterfaceTotals {
        InterfaceTotals { missed, lost, ..InterfaceTotals::default() }
    }

    #[test]
    fn each_file_has_the_losses_of_its_own_time() {
        let sum = ClosedFiles::default();
        let quiet = Known { delivered: 100, told: 0, totals: totals(0, 0) };
        assert_eq!(close(&sum, quiet), [100, 0, 0, 0]);
        // The loss is known before a packet tells of it, in the next file.
        assert_eq!(close(&sum, Known { totals: totals(7, 3), ..quiet }), [110, 7, 3, 0]);
        let told = Known { told: 10, totals: totals(7, 3), ..quiet };
        assert_eq!(close(&sum, told), [100, 0, 0, 0]);
        let all = InterfaceTotals { received: Some(412), unwanted: 2, ..totals(7, 3) };
        assert_eq!(close(&sum, Known { totals: all, ..quiet }), [102, 0, 0, 2]);
    }

    #[test]
    fn a_loss_that_a_packet_reports_first_counts_once() {
        let sum = ClosedFiles::default();
        let first = Known { delivered: 5, told: 4, totals: totals(0, 0) };
        assert_eq!(close(&sum, first), [9, 4, 0, 0]);
        let then = Known { delivered: 5, told: 0, totals: totals(0, 4) };
        assert_eq!(close(&sum, then), [5, 0, 0, 0]);
        // Five more, which the input file's writer lost: they are not in the job's ledger. In all
        // files together, four packets were lost by this job, and five were missed.
        let all = InterfaceTotals { received: Some(19), ..totals(0, 4) };
        assert_eq!(close(&sum, Known { delivered: 5, told: 5, totals: all }), [10, 1, 4, 0]);
    }
}

//! Balances a file's packets: missing ones by their numbers, and losses that the file reports.

use burstline_wire::files::{Counters, DamageKind, LostPackets};

use super::FileSource;
use super::selection::Selector;
use crate::{Loss, PortAccount};

impl FileSource {
    /// Counts undelivered packets, by the numbers in the recording.
    pub(super) fn count_damage(&mut self, kind: &DamageKind) {
        if let DamageKind::NotClosed { unchecked } = kind {
            self.unchecked += unchecked;
        }
        let lost = self.lost.count(kind);
        self.untold = self.untold.saturating_add(lost).min(LostPackets::MOST);
    }

    /// Returns the packets that valid segments claim to have but lack.
    fn miscounted(&self) -> i64 {
        let decoder = &self.reader.decoder;
        let said = decoder.recorded().packets + self.unchecked;
        let is_known = self.is_over && decoder.is_segmented();
        if is_known { said as i64 - self.decoded as i64 } else { 0 }
    }

    /// Returns those of them that damage explains: blocks of a segment whose checksum holds were
    /// skipped, as where a damaged header no longer describes an interface.
    fn skipped(&self) -> u64 {
        if self.account.is_damaged { self.miscounted().max(0) as u64 } else { 0 }
    }

    /// Notes the losses of its recorder that the file reports: by interface at its end, and by
    /// cause in its segments.
    pub(super) fn note_losses(&mut self) {
        let path = self.reader.path().display();
        for interface in self.reader.decoder.interfaces() {
            let Counters { missed, lost, .. } = interface.counters;
            let (missed, lost) = (missed.unwrap_or(0), lost.unwrap_or(0));
            if missed > 0 || lost > 0 {
                let name = &interface.name;
                self.account.note(|| {
                    let what = format!("ifdrop {missed}, osdrop {lost}");
                    format!("{path}: {name} lost packets while this was recorded: {what}")
                });
            }
        }
        let named = self.reader.decoder.recorded().named_losses();
        let named = named.filter(|(_, packets)| *packets > 0);
        let named: Vec<_> = named.map(|(cause, lost)| format!("{} {lost}", cause.name())).collect();
        if !named.is_empty() {
            let what = named.join(", ");
            self.account.note(|| format!("{path}: packets lost and not in this file: {what}"));
        }
        if self.selector.passed > 0 {
            let Selector { passed, packets_passed, .. } = self.selector;
            self.account.note(|| {
                format!("{path}: {passed} segments of {packets_passed} packets passed unread")
            });
        }
    }

    /// Returns the current account.
    pub(super) fn current_account(&self) -> PortAccount {
        let decoded = self.decoded + self.selector.packets_passed;
        let offered = decoded.saturating_add_signed(self.miscounted());
        let mut account = PortAccount {
            offered: offered + self.lost.total(),
            in_flight: u64::from(self.pending.is_some()),
            ..self.account.clone()
        };
        let LostPackets { corrupt, missing } = self.lost;
        let corrupt = corrupt + self.skipped();
        let lost = [(Loss::Corrupt, corrupt), (Loss::MissingSegments, missing)];
        let named = lost.into_iter().filter(|(_, packets)| *packets > 0);
        named.for_each(|(cause, packets)| account.lost.add(cause, packets));
        self.judge.enter_into(&mut account);
        if self.selector.is_choosing {
            let unwanted = self.selector.unwanted + self.selector.packets_passed;
            account.lost.add(Loss::Filtered, unwanted);
        }
        account
    }
}

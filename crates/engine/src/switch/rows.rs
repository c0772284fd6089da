//! The ledger of a switch: rows of present and of removed ports.

use burstline_port::{Loss, Losses, PortAccount};
use burstline_switch::{Cause, Counters};

use super::entry::Entry;
use super::port::Outlet;
use crate::runtime::{Standing, Tally};
use crate::{Counts, EngineError, Place, PortReport};

/// The final accounts of the ports of a switch.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<PortReport>,
    /// Frames that were switched.
    pub(super) through: Tally,
    /// Frames that the switch itself has dropped, by cause.
    pub(super) dropped: Losses,
    pub(super) bytes_copied: u64,
    pub(super) notes: Vec<String>,
    pub(super) clocks: Vec<&'static str>,
    pub(super) is_damaged: bool,
    pub(super) errors: Vec<EngineError>,
}

/// Returns the name of the loss for a cause.
fn loss_of(cause: Cause) -> Loss {
    match cause {
        Cause::TooShort => Loss::TooShort,
        Cause::Vlan => Loss::VlanFiltered,
        Cause::BadSource => Loss::BadSource,
        Cause::Security => Loss::PortSecurity,
        Cause::LinkLocal => Loss::LinkLocal,
        Cause::Rule => Loss::Shed,
        Cause::Metered => Loss::Metered,
        Cause::Storm => Loss::StormLimited,
        Cause::SamePort => Loss::SamePort,
        Cause::Isolated => Loss::Isolated,
        Cause::NoDestination => Loss::NoDestination,
    }
}

/// Returns the frames of an end that the switch has dropped.
pub(super) fn losses_of(counters: &Counters) -> Losses {
    let mut losses = Losses::default();
    for cause in Cause::ALL {
        if counters.of(cause) > 0 {
            losses.add(loss_of(cause), counters.of(cause));
        }
    }
    losses
}

/// Returns the frames of an end that the switch has passed on.
pub(super) fn tally_of(counters: &Counters) -> Tally {
    Tally::whole(counters.switched(), counters.bytes_switched)
}

/// Returns the name of the row of a port's sink.
fn sink_name(port: &str) -> String {
    format!("> {port}")
}

/// Returns an outlet's account, with the packets it was offered, and the tally it has sent.
fn sent(outlet: &Outlet, counters: &Counters) -> (PortAccount, Tally) {
    let offered = counters.copies_out + counters.mirrored;
    let account = PortAccount { offered, ..outlet.sink.account() };
    let mut sent = outlet.given.taken(&*outlet.sink);
    sent.packets = sent.packets.saturating_sub(account.in_flight);
    (account, sent)
}

/// Returns the current state of an end's source. `number` counts the sources.
pub(super) fn source_place(
    name: &str,
    number: usize,
    account: &PortAccount,
    counters: &Counters,
) -> Place {
    let mut lost = losses_of(counters);
    lost.merge(&account.lost);
    let tally = tally_of(counters);
    Place {
        name: name.to_owned(),
        number,
        is_source: true,
        counts: Counts::of(&tally),
        standing: Standing::of(account).having_delivered(tally.packets, &lost),
        lost,
    }
}

/// Returns the current state of an end's sink. `number` counts the sinks.
pub(super) fn sink_place(name: &str, number: usize, outlet: &Outlet, counters: &Counters) -> Place {
    let (account, sent) = sent(outlet, counters);
    Place {
        name: sink_name(name),
        number,
        is_source: false,
        counts: Counts::of(&sent),
        standing: Standing::of(&account),
        lost: account.lost,
    }
}

impl Rows {
    /// Adds the rows of a closed end.
    pub(super) fn add(&mut self, name: &str, entry: &Entry, outlet: &Outlet, counters: &Counters) {
        if !entry.inlets.is_empty() {
            let account = entry.account();
            let tally = tally_of(counters);
            self.through.add(&tally);
            self.dropped.merge(&losses_of(counters));
            let row = PortReport::new(name, &account, &tally, &losses_of(counters));
            self.enter(name, row, account);
        }
        for clock in entry.sources().map(|source| source.info().timestamps.name()) {
            self.add_clock(clock);
        }
        let (account, sent) = sent(outlet, counters);
        let name = sink_name(name);
        let row = PortReport::new(&name, &account, &sent, &Losses::default());
        self.enter(&name, row, account);
    }

    /// Adds the rows of ends that were closed on another thread.
    pub(super) fn merge(&mut self, other: Self) {
        let Self { rows, through, dropped, bytes_copied, notes, clocks, is_damaged, errors } =
            other;
        self.rows.extend(rows);
        self.through.add(&through);
        self.dropped.merge(&dropped);
        self.bytes_copied += bytes_copied;
        self.notes.extend(notes);
        for clock in clocks {
            self.add_clock(clock);
        }
        self.is_damaged |= is_damaged;
        self.errors.extend(errors);
    }

    fn add_clock(&mut self, clock: &'static str) {
        if !self.clocks.contains(&clock) {
            self.clocks.push(clock);
        }
    }

    fn enter(&mut self, name: &str, row: PortReport, account: PortAccount) {
        self.rows.push(row);
        self.bytes_copied += account.bytes_copied;
        self.is_damaged |= account.is_damaged;
        self.notes.extend(account.notes.into_iter().map(|note| format!("{name}: {note}")));
        if account.notes_omitted > 0 {
            let omitted = account.notes_omitted;
            self.notes.push(format!("{name}: {omitted} more notes like these"));
        }
    }
}

//! The ledger: offered = delivered + every named loss + in flight, and the unaccounted remainder.

use burstline_port::{Losses, PortAccount};
use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

use crate::runtime::Tally;

/// One source's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReport {
    /// Its address, as typed.
    pub port: String,
    /// Packets that reached it, by its own account.
    pub offered: u64,
    /// Packets delivered, counted by the job itself.
    pub delivered: u64,
    /// Captured bytes of the delivered packets, without FCS.
    pub bytes: u64,
    /// Wire bytes of the delivered packets, without FCS.
    pub wire_bytes: u64,
    /// Packets not delivered, by cause: the port's and the job's.
    pub lost: Losses,
    /// Packets that the port held when the job ended.
    pub in_flight: u64,
    /// Packets delivered truncated.
    pub truncated: u64,
    /// Fragments hashed without the first fragment of their datagram, so not with their flow.
    pub fragments_unmatched: u64,
    /// How often the writer of the log behind this source was stopped or died.
    pub writer_down: u64,
    /// The remainder: 0 unless this program has a bug.
    pub unaccounted: i64,
}

/// The sum of the rows, with rates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// As in a row.
    pub offered: u64,
    /// As in a row.
    pub delivered: u64,
    /// As in a row.
    pub bytes: u64,
    /// As in a row.
    pub wire_bytes: u64,
    /// As in a row.
    pub lost: Losses,
    /// The sum of all causes, including packets left out on request.
    pub lost_total: u64,
    /// Losses within the first second of the job, without packets left out on request.
    pub lost_first_second: u64,
    /// As in a row.
    pub in_flight: u64,
    /// As in a row.
    pub truncated: u64,
    /// As in a row.
    pub fragments_unmatched: u64,
    /// As in a row.
    pub unaccounted: i64,
    /// Delivered packets a second.
    pub packets_per_s: f64,
    /// Wire bits of delivered packets a second, without FCS.
    pub l2_bits_per_s: f64,
    /// The same with FCS, preamble and gap.
    pub line_bits_per_s: f64,
    /// Bytes copied between the source and the place of delivery.
    pub bytes_copied: u64,
}

impl PortReport {
    /// Creates the row of a source with this `account`. `delivered` arrived, and `lost` was lost
    /// behind the source.
    pub(crate) fn new(port: &str, account: &PortAccount, delivered: &Tally, lost: &Losses) -> Self {
        let mut all = account.lost.clone();
        all.merge(lost);
        let mut row = Self {
            port: port.to_owned(),
            offered: account.offered,
            delivered: delivered.packets,
            bytes: delivered.bytes,
            wire_bytes: delivered.wire_bytes,
            lost: all,
            in_flight: account.in_flight,
            truncated: account.truncated,
            fragments_unmatched: account.fragments_unmatched,
            writer_down: account.writer_down,
            unaccounted: 0,
        };
        row.unaccounted = remainder(row.offered, row.delivered, row.lost.total(), row.in_flight);
        row
    }
}

impl Total {
    /// Adds up the rows of a job that took `elapsed_ns`.
    pub(crate) fn of(ports: &[PortReport], elapsed_ns: u64) -> Self {
        let mut total = Self::default();
        for row in ports {
            total.offered += row.offered;
            total.delivered += row.delivered;
            total.bytes += row.bytes;
            total.wire_bytes += row.wire_bytes;
            total.lost.merge(&row.lost);
            total.in_flight += row.in_flight;
            total.truncated += row.truncated;
            total.fragments_unmatched += row.fragments_unmatched;
            total.unaccounted += row.unaccounted;
        }
        total.lost_total = total.lost.total();
        let seconds = elapsed_ns as f64 / 1e9;
        if seconds > 0.0 {
            total.packets_per_s = total.delivered as f64 / seconds;
            total.l2_bits_per_s = total.wire_bytes as f64 * 8.0 / seconds;
            total.line_bits_per_s = line_bits(total.delivered, total.wire_bytes) / seconds;
        }
        total
    }
}

/// Returns the bits that packets took on the line.
pub(crate) fn line_bits(packets: u64, wire_bytes: u64) -> f64 {
    (wire_bytes as f64 + packets as f64 * f64::from(FCS_BYTES + GAP_BYTES)) * 8.0
}

/// Returns offered - delivered - lost - in flight, which is negative if something is counted twice.
pub(crate) fn remainder(offered: u64, delivered: u64, lost: u64, in_flight: u64) -> i64 {
    let remainder =
        i128::from(offered) - i128::from(delivered) - i128::from(lost) - i128::from(in_flight);
    i64::try_from(remainder).unwrap_or(if remainder < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_port::Loss;

    fn row(offered: u64, delivered: u64, injected: u64) -> PortReport {
        let mut account = PortAccount { offered, in_flight: 1, ..PortAccount::default() };
        account.lost.add(Loss::Injected, injected);
        let tally = Tally::whole(delivered, delivered * 60);
        PortReport::new("gen:", &account, &tally, &Losses::default())
    }

    #[test]
    fn the_remainder_shows_both_ways() {
        assert_eq!(row(10, 7, 2).unaccounted, 0);
        assert_eq!(row(10, 6, 2).unaccounted, 1);
        assert_eq!(row(10, 9, 2).unaccounted, -2);
    }

    #[test]
    fn what_nobody_asked_for_is_in_the_sum_too() {
        let mut account = PortAccount { offered: 10, ..PortAccount::default() };
        account.lost.add(Loss::Filtered, 4);
        let tally = Tally { packets: 6, bytes: 360, wire_bytes: 360 };
        let row = PortReport::new("gen:", &account, &tally, &Losses::default());
        assert_eq!(row.unaccounted, 0);
        let total = Total::of(&[row], 1);
        assert_eq!((total.lost_total, total.lost.missing()), (4, 0));
    }

    #[test]
    fn sixty_bytes_are_eighty_four_on_the_line() {
        let total = Total::of(&[row(11, 10, 0)], 1_000_000_000);
        assert_eq!(total.l2_bits_per_s, 4800.0);
        assert_eq!(total.line_bits_per_s, 6720.0);
        assert_eq!(total.packets_per_s, 10.0);
        assert_eq!(Total::of(&[row(11, 10, 0)], 0).packets_per_s, 0.0);
    }
}

//! Due times of a file's packets.

use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

use crate::Rate;
use crate::generator::rate::Pace;
use crate::generator::schedule::Schedule;

/// Determines when packets are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// Immediately.
    TopSpeed,
    /// As in the file, at `speed` times the pace, above 0.
    Original {
        /// The factor.
        speed: f64,
    },
    /// At a fixed rate, in bursts of this many packets, at least 1. The rate is in packets, or in
    /// bits on the line. [`Rate::Percent`] counts as a percentage of 1 bit a second: resolve it
    /// before.
    Fixed {
        /// The rate.
        rate: Rate,
        /// Packets due at the same time.
        burst: u64,
    },
}

/// Computes due times of packets in order, in ns after the first.
pub(super) enum Spacing {
    TopSpeed,
    Original {
        speed: f64,
        /// The time of the first packet of this file.
        first_ns: Option<u64>,
        /// Its due time, and the latest one.
        base_ns: u64,
        due_ns: u64,
    },
    Packets(Schedule),
    Line {
        bits_per_s: f64,
        burst: u64,
        /// Packets and bits so far, and the due time of the next packet's burst.
        packets: u64,
        bits: f64,
        due_ns: u64,
    },
}

impl Spacing {
    pub(super) fn new(timing: Timing) -> Self {
        match timing {
            Timing::TopSpeed => Self::TopSpeed,
            Timing::Original { speed } => {
                Self::Original { speed, first_ns: None, base_ns: 0, due_ns: 0 }
            }
            Timing::Fixed { rate: Rate::Packets(rate), burst } => {
                Self::Packets(Schedule::new(0, &Pace::of(rate, burst)))
            }
            Timing::Fixed {
                rate: Rate::LineBits(bits_per_s) | Rate::Percent(bits_per_s),
                burst,
            } => Self::Line { bits_per_s, burst, packets: 0, bits: 0.0, due_ns: 0 },
        }
    }

    /// Whether packets wait for due times.
    pub(super) fn is_paced(&self) -> bool {
        !matches!(self, Self::TopSpeed)
    }

    /// Returns the due time of the next packet, with `time_ns` in the file and `length` bytes.
    pub(super) fn due(&mut self, time_ns: u64, length: u32) -> u64 {
        match self {
            Self::TopSpeed => 0,
            Self::Original { speed, first_ns, base_ns, due_ns } => {
                let first_ns = *first_ns.get_or_insert(time_ns);
                let since_ns = (time_ns.saturating_sub(first_ns) as f64 / *speed) as u64;
                *due_ns = base_ns.saturating_add(since_ns).max(*due_ns);
                *due_ns
            }
            Self::Packets(schedule) => {
                let due_ns = schedule.next_ns;
                schedule.advance();
                due_ns
            }
            Self::Line { bits_per_s, burst, packets, bits, due_ns } => {
                if *packets % *burst == 0 {
                    *due_ns = (*bits * 1e9 / *bits_per_s) as u64;
                }
                *packets += 1;
                *bits += (f64::from(length) + f64::from(FCS_BYTES + GAP_BYTES)) * 8.0;
                *due_ns
            }
        }
    }

    /// Starts a new file with the next packet.
    pub(super) fn begin_file(&mut self) {
        if let Self::Original { first_ns, base_ns, due_ns, .. } = self {
            (*first_ns, *base_ns) = (None, *due_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(timing: Timing, packets: &[(u64, u32)]) -> Vec<u64> {
        let mut spacing = Spacing::new(timing);
        packets.iter().map(|&(time_ns, length)| spacing.due(time_ns, length)).collect()
    }

    #[test]
    fn the_files_spacing_is_kept_or_scaled_and_never_goes_back() {
        let packets = [(1_000, 60), (1_500, 60), (1_200, 60), (5_000, 60)];
        assert_eq!(dues(Timing::Original { speed: 1.0 }, &packets), [0, 500, 500, 4_000]);
        assert_eq!(dues(Timing::Original { speed: 2.0 }, &packets), [0, 250, 250, 2_000]);
        let mut spacing = Spacing::new(Timing::Original { speed: 1.0 });
        let first: Vec<u64> = packets.iter().map(|&(time, _)| spacing.due(time, 60)).collect();
        spacing.begin_file();
        assert_eq!((first[3], spacing.due(77, 60), spacing.due(87, 60)), (4_000, 4_000, 4_010));
    }

    #[test]
    fn a_fixed_rate_is_by_packets_or_by_the_line() {
        let packets = [(9, 60), (9, 1514), (9, 60), (9, 60)];
        let fixed = |rate, burst| Timing::Fixed { rate, burst };
        assert_eq!(dues(fixed(Rate::Packets(1e6), 1), &packets), [0, 1_000, 2_000, 3_000]);
        assert_eq!(dues(fixed(Rate::Packets(1e6), 2), &packets), [0, 0, 2_000, 2_000]);
        // 84 and 1538 bytes on the wire, at 8 ns each with 1 Gbit/s.
        assert_eq!(dues(fixed(Rate::LineBits(1e9), 1), &packets), [0, 672, 12_976, 13_648]);
        assert_eq!(dues(fixed(Rate::LineBits(1e9), 3), &packets), [0, 0, 0, 13_648]);
        assert_eq!(dues(Timing::TopSpeed, &packets), [0; 4]);
    }
}

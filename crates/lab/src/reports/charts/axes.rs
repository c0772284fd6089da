//! Maps values to pixels: scales and their ticks.
//!
//! Invariants:
//! - A1: a linear scale contains 0, so lengths can be compared. Ranges wider than a factor of
//!   [`WIDE`] are logarithmic, and the axis says so.
//! - A2: all values that a scale was created for are on it.
//! - A3: labels of ticks do not overlap.

use crate::reports::numbers;
use crate::reports::svg::text_width;

/// Ratio of the largest to the smallest value above which a linear axis would hide the small ones.
const WIDE: f64 = 100.0;
/// Larger values are not drawn, because differences could overflow.
const DRAWABLE: f64 = 1e300;
/// Maximum number of nines of a share to draw: no run has so many samples.
const NINES_MAX: f64 = 6.0;
/// Up to this many nines, a tick at one half fits below the one at 90 %.
const HALF_UP_TO_NINES: f64 = 5.0;
/// Minimum distance between the labels of two ticks, in pixels.
const GAP_PX: f64 = 8.0;

/// How a value maps to a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths; values are above 0.
    Logarithmic,
    /// Shares of a total: each further nine has the same length.
    Nines,
}

/// A scale with its pixel range and ticks.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from_px: f64,
    to_px: f64,
}

impl Axis {
    /// Creates an axis for amounts: from 0 to the largest, or logarithmic if all are above 0 and
    /// differ widely. `None` if no value can be drawn.
    pub(crate) fn of_amounts(values: &[f64], from_px: f64, to_px: f64) -> Option<Self> {
        let (least, most) = range(values)?;
        if least > 0.0 && most / least > WIDE {
            let (low, high) = (decade(least, f64::floor), decade(most, f64::ceil));
            return Some(Self { scale: Scale::Logarithmic, low, high, from_px, to_px });
        }
        let (low, high) = (least.min(0.0), most.max(0.0));
        let high = if low == high { 1.0 } else { high };
        let step = step(high - low, 5);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Some(Self { scale: Scale::Linear, low, high, from_px, to_px })
    }

    /// Like [`of_amounts`](Self::of_amounts), but always from 0: a bar's length is its value.
    pub(crate) fn of_lengths(values: &[f64], from_px: f64, to_px: f64) -> Option<Self> {
        let (least, most) = range(values)?;
        let (low, high) = (least.min(0.0), most.max(0.0));
        let high = if low == high { 1.0 } else { high };
        Some(Self { scale: Scale::Linear, low, high, from_px, to_px })
    }

    /// Creates an axis for positions such as frame sizes, from the smallest to the largest. It is
    /// logarithmic from a factor of eight.
    pub(crate) fn of_places(values: &[f64], from_px: f64, to_px: f64) -> Option<Self> {
        let (low, high) = range(values)?;
        let is_wide = low > 0.0 && high / low >= 8.0;
        let scale = if is_wide { Scale::Logarithmic } else { Scale::Linear };
        // A single position is put in the middle.
        let (low, high) = if low == high { (low - 1.0, high + 1.0) } else { (low, high) };
        Some(Self { scale, low, high, from_px, to_px })
    }

    /// Creates an axis for the values of a distribution, logarithmic if all are above 0.
    pub(crate) fn of_values(values: &[f64], from_px: f64, to_px: f64) -> Option<Self> {
        let (least, most) = range(values)?;
        let (low, high) = (round_below(least), round_above(most));
        if !(low > 0.0 && low < high && high.is_finite()) {
            return Self::of_amounts(values, from_px, to_px);
        }
        Some(Self { scale: Scale::Logarithmic, low, high, from_px, to_px })
    }

    /// Creates an axis for shares in `[0, 1]`, with the nines of the largest below 1, and with 1.
    pub(crate) fn of_shares(shares: &[f64], from_px: f64, to_px: f64) -> Self {
        let most = shares.iter().copied().filter(|share| *share < 1.0).fold(0.0, f64::max);
        let high = nines(most).ceil().clamp(2.0, NINES_MAX);
        Self { scale: Scale::Nines, low: 0.0, high, from_px, to_px }
    }

    /// Returns the kind of scale.
    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns a value's position in pixels. Clamps values beyond the ends.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Nines => nines(value).min(self.high) / self.high,
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from_px + share * (self.to_px - self.from_px)
    }

    /// Returns about `wanted` round values along the axis, with their positions.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low, wanted);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|index| index as f64 * step).collect()
            }
            Scale::Logarithmic => self.decades(),
            Scale::Nines => return self.nines_ticks(),
        };
        values.into_iter().map(|value| (self.place(value), numbers::tick(value))).collect()
    }

    /// Returns a tick at each of `values`, except where labels would touch.
    pub(crate) fn ticks_at(&self, values: &[f64]) -> Vec<(f64, String)> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let all: Vec<_> = sorted.iter().map(|&v| (self.place(v), numbers::tick(v))).collect();
        without_overlaps(all)
    }

    /// Returns ticks at one half if it fits, then at 90 %, 99 % and so on.
    fn nines_ticks(&self) -> Vec<(f64, String)> {
        let tick = |share: f64| (self.place(share), format!("{} %", numbers::tick(100.0 * share)));
        let half = (self.high <= HALF_UP_TO_NINES).then(|| tick(0.5));
        let nines = (1..=self.high as i32).map(|count| tick(1.0 - 10f64.powi(-count)));
        half.into_iter().chain(nines).collect()
    }

    /// Returns 1, 2 and 5 times powers of ten, or only the powers if there are many.
    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = last - first;
        let within = 1 + decades / 8;
        let factors: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let powers = (first..=last).step_by(within as usize);
        let all = powers.flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
        let is_inside = |v: &f64| *v >= self.low * (1.0 - 1e-9) && *v <= self.high * (1.0 + 1e-9);
        all.filter(is_inside).collect()
    }
}

/// Removes ticks whose labels overlap the previous one; always keeps the last tick.
fn without_overlaps(all: Vec<(f64, String)>) -> Vec<(f64, String)> {
    let half = |label: &str| text_width(label) / 2.0 + GAP_PX / 2.0;
    let Some((last, before)) = all.split_last() else { return all };
    let mut kept: Vec<(f64, String)> = Vec::new();
    for (at, label) in before {
        let has_room = kept.last().is_none_or(|(was, w)| at - half(label) >= was + half(w));
        let leaves_room = at + half(label) <= last.0 - half(&last.1);
        if has_room && leaves_room {
            kept.push((*at, label.clone()));
        }
    }
    kept.push(last.clone());
    kept
}

/// Returns the smallest and the largest value that can be drawn.
fn range(values: &[f64]) -> Option<(f64, f64)> {
    let drawable = values.iter().copied().filter(|value| value.abs() < DRAWABLE);
    drawable.fold(None, |found, value| match found {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Returns a step of 1, 2 or 5 times a power of ten, so that about `wanted` steps cover `span`.
fn step(span: f64, wanted: usize) -> f64 {
    let rough = (span / wanted.max(1) as f64).max(f64::MIN_POSITIVE * 1e10);
    let power = 10f64.powf(rough.log10().floor());
    match rough / power {
        share if share <= 1.0 + 1e-9 => power,
        share if share <= 2.0 + 1e-9 => 2.0 * power,
        share if share <= 5.0 + 1e-9 => 5.0 * power,
        _ => 10.0 * power,
    }
}

/// Returns the number of nines of a share: 0.9 has one, 0.99 two, 0.5 a third of one.
fn nines(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, 1.0)).log10()
}

/// Returns the largest 1, 2 or 5 times a power of ten up to `value`.
fn round_below(value: f64) -> f64 {
    let power = decade(value, f64::floor);
    let is_below = |round: &f64| *round <= value * (1.0 + 1e-9);
    [5.0, 2.0, 1.0].map(|factor| factor * power).into_iter().find(is_below).unwrap_or(power)
}

/// Returns the smallest 1, 2 or 5 times a power of ten from `value`.
fn round_above(value: f64) -> f64 {
    let power = decade(value, f64::floor);
    let is_above = |round: &f64| *round >= value * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(is_above).unwrap_or(10.0 * power)
}

/// Returns the power of ten below or above.
fn decade(value: f64, round: fn(f64) -> f64) -> f64 {
    10f64.powf(round(value.log10()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[(f64, String)]) -> Vec<&str> {
        ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn amounts_start_at_zero_and_end_at_a_round_value() {
        let axis = Axis::of_amounts(&[3.0, 11.62, 14.03], 300.0, 100.0).unwrap();
        assert_eq!((axis.place(0.0), axis.place(15.0), axis.place(7.5)), (300.0, 100.0, 200.0));
        assert_eq!(labels(&axis.ticks(4)), ["0", "5", "10", "15"]);
        assert_eq!(axis.scale(), Scale::Linear);
        let negative = Axis::of_amounts(&[-5.0, 10.0], 0.0, 300.0).unwrap();
        assert_eq!((negative.place(0.0), negative.place(-5.0)), (100.0, 0.0));
    }

    #[test]
    fn wide_ranges_are_logarithmic_and_equal_ratios_are_equally_long() {
        let axis = Axis::of_amounts(&[2.0, 5_000.0], 0.0, 400.0).unwrap();
        assert_eq!(axis.scale(), Scale::Logarithmic);
        let places = [1.0, 10.0, 100.0, 1000.0, 10_000.0].map(|value| axis.place(value).round());
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(labels(&axis.ticks(5)), ["1", "10", "100", "1000", "10,000"]);
    }

    #[test]
    fn lengths_are_never_logarithmic() {
        let axis = Axis::of_lengths(&[1.0, 1e6], 0.0, 100.0).unwrap();
        assert_eq!((axis.scale(), axis.place(0.0), axis.place(1e6)), (Scale::Linear, 0.0, 100.0));
    }

    #[test]
    fn places_reach_as_far_as_they_are_and_labels_do_not_touch() {
        let sizes = [64.0, 128.0, 256.0, 512.0, 1024.0, 1500.0, 1518.0];
        let axis = Axis::of_places(&sizes, 0.0, 300.0).unwrap();
        assert_eq!((axis.place(64.0), axis.place(1518.0).round()), (0.0, 300.0));
        let ticks = axis.ticks_at(&sizes);
        assert_eq!(labels(&ticks), ["64", "128", "256", "512", "1024", "1518"]);
        let one = Axis::of_places(&[64.0], 0.0, 300.0).unwrap();
        assert_eq!(one.place(64.0), 150.0);
    }

    #[test]
    fn values_lie_between_round_ends_and_shares_by_their_nines() {
        let axis = Axis::of_values(&[12.3, 480.0], 0.0, 100.0).unwrap();
        assert_eq!((axis.scale(), axis.low, axis.high), (Scale::Logarithmic, 10.0, 500.0));
        assert_eq!(labels(&axis.ticks(5)), ["10", "20", "50", "100", "200", "500"]);
        assert_eq!(Axis::of_values(&[0.0, 5.0], 0.0, 1.0).unwrap().scale(), Scale::Linear);
        let axis = Axis::of_shares(&[0.25, 0.9995, 1.0], 400.0, 0.0);
        let places = [0.0, 0.9, 0.99, 0.9999, 1.0].map(|share| axis.place(share).round());
        assert_eq!(places, [400.0, 300.0, 200.0, 0.0, 0.0]);
        assert_eq!(labels(&axis.ticks(5)), ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
        assert_eq!(Axis::of_shares(&[], 0.0, 1.0).place(1.0), 1.0);
    }

    #[test]
    fn nothing_and_the_absurd_do_not_break_it() {
        assert!(Axis::of_amounts(&[], 0.0, 1.0).is_none());
        assert!(Axis::of_amounts(&[f64::NAN, f64::INFINITY, 1e305], 0.0, 1.0).is_none());
        for values in [&[0.0][..], &[1e299, -1e299], &[5e-324], &[1e-300, 1e299], &[7.0, 7.0]] {
            let distributed = Axis::of_values(values, 10.0, 90.0).unwrap();
            assert!((10.0..=90.0).contains(&distributed.place(values[0])), "{values:?}");
            let axis = Axis::of_amounts(values, 10.0, 90.0).unwrap();
            let ticks = axis.ticks(5);
            assert!(ticks.len() < 60, "{values:?}: {}", ticks.len());
            for value in values.iter().copied().chain([f64::NAN, f64::MAX, f64::MIN]) {
                assert!((10.0..=90.0).contains(&axis.place(value)), "{values:?} {value}");
            }
        }
    }
}

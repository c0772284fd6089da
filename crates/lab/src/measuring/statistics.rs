//! Order statistics of a handful of runs.

/// Median and quartiles. A median ignores a run that another program disturbed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// A quarter of the values are below this.
    pub first: f64,
    /// Half of the values are below this.
    pub median: f64,
    /// Three quarters of the values are below this.
    pub third: f64,
}

impl Quartiles {
    /// Computes them for at least one value, in any order, none NaN. Interpolates between values.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "no runs, no median");
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            sorted[low] + (sorted[high] - sorted[low]) * place.fract()
        };
        Self { first: at(0.25), median: at(0.5), third: at(0.75) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_odd_even_and_single_counts() {
        let of = |values: &[f64]| {
            let q = Quartiles::of(values);
            (q.first, q.median, q.third)
        };
        assert_eq!(of(&[5.0, 1.0, 4.0, 2.0, 3.0]), (2.0, 3.0, 4.0));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), (1.75, 2.5, 3.25));
        assert_eq!(of(&[7.0]), (7.0, 7.0, 7.0));
    }

    #[test]
    fn one_wild_run_does_not_move_the_median() {
        assert_eq!(Quartiles::of(&[10.0, 11.0, 12.0, 1e9, 9.0]).median, 11.0);
    }
}

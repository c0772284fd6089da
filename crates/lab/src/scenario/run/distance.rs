//! Measures the distance of two cores before and after turns.
//!
//! A hypervisor may move a core while contenders take turns. Then turns before and after the move
//! had different hand-off costs, and their ratio means little.

use burstline_sys::affinity::CoreId;
use burstline_sys::distance::one_way_ns;

use crate::record::Distance;
use crate::scenario::{Places, Work};

/// A first measurement of the distance between two cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    cores: [CoreId; 2],
    before_ns: f64,
}

impl Look {
    /// Measures it. `None` if the work has one thread, both threads share a core, or a core does
    /// not exist. Cost: less than 50 ms.
    pub(super) fn at(work: Work, places: &Places) -> Option<Self> {
        Self::between(cores(work, places)?)
    }

    /// Measures it. `None` if they are one core, or a core does not exist.
    pub(crate) fn between(cores: [CoreId; 2]) -> Option<Self> {
        Some(Self { cores, before_ns: one_way_ns(cores[0], cores[1])? })
    }

    /// Measures it again, after the turns.
    pub(crate) fn again(self) -> Option<Distance> {
        let [near, far] = self.cores;
        let after_ns = one_way_ns(near, far)?;
        Some(Distance { cores: [near.0, far.0], before_ns: self.before_ns, after_ns })
    }
}

/// Returns the cores of the thread that hands packets over and of the first one that takes them.
fn cores(work: Work, places: &Places) -> Option<[CoreId; 2]> {
    match (work, &places.contender[..]) {
        (Work::Touch | Work::Copy | Work::Model | Work::Dma | Work::Keep, _) => None,
        // Both threads of a pipeline are the contender's if it has two cores.
        (Work::Pipeline, &[first, second, ..]) => Some([first, second]),
        (_, contender) => Some([places.generator, *contender.first()?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_cores_are_those_that_packets_go_between() {
        let places = |contender: &[u32]| Places {
            generator: CoreId(7),
            contender: contender.iter().copied().map(CoreId).collect(),
        };
        let of = |work, contender: &[u32]| {
            cores(work, &places(contender)).map(|cores| cores.map(|core| core.0))
        };
        assert_eq!(of(Work::Count, &[1, 2]), Some([7, 1]));
        assert_eq!(of(Work::Pipeline, &[1, 2]), Some([1, 2]));
        assert_eq!(of(Work::Pipeline, &[1]), Some([7, 1]));
        assert_eq!((of(Work::Touch, &[1]), of(Work::Model, &[1])), (None, None));
        assert!(Look::at(Work::Count, &places(&[7])).is_none(), "a core has no distance to itself");
    }
}

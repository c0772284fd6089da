//! The article's stages on DPDK's own mbufs and rings, in memory: `rivals-dpdk/merge.c`.

use burstline_sys::affinity;
use burstline_sys::memory::PageChoice;

use super::{Job, Pool, Run, Traffic, Variant, whole};
use crate::arena::Arena;
use crate::contenders::shapes::{Key, best};
use crate::contest::go_on;
use crate::rivals::dpdk::{self, Hint, Manner, OUTPUT_ARENA_BYTES, Shape};

impl Variant {
    /// Returns the variant as the rival's options.
    pub(super) fn manner(self) -> Manner {
        match self {
            Self::ByBurst => Manner::PLAIN,
            Self::Ordered => Manner { is_ordered: 1, ..Manner::PLAIN },
            Self::Segments => Manner { is_whole: 1, ..Manner::PLAIN },
            Self::NoHint => Manner { hint: Hint::None, ..Manner::PLAIN },
        }
    }
}

/// Runs a turn and a check of its order; also returns the pool used.
///
/// # Errors
/// If memory is short, packets are missing, or packets are out of an order that the variant keeps.
pub(super) fn measure(
    key: &Key<'_>,
    [traffic, fewer]: [&Traffic; 2],
    variant: Variant,
    job: &Job<'_>,
) -> Result<(Run, Run, Option<Pool>), String> {
    dpdk::start()?;
    let manner = variant.manner();
    let pool = best(key, &Pool::all(true), |pool| {
        go_on(job.stop)?;
        Ok(run(fewer, pool, manner)?.mpps())
    })?;
    // Variants that copy segments or do not prefetch order packets as the article does.
    let looks = Manner { is_checking: 1, is_ordered: manner.is_ordered, ..Manner::PLAIN };
    let order = run(fewer, pool, looks)?;
    if variant == Variant::Ordered && order.violations != 0 {
        return Err(format!("{} packets are out of order", order.violations));
    }
    Ok((run(traffic, pool, manner)?, order, Some(pool)))
}

fn run(traffic: &Traffic, pool: Pool, manner: Manner) -> Result<Run, String> {
    let mut arena = dpdk::output_arena()?;
    let (lines, shape, most) = (&traffic.lines, pool.shape(), traffic.most);
    let merged = if traffic.are_two {
        dpdk::merge(&mut arena, lines, shape, manner, most, traffic.cores)?
    } else {
        // If this fails, the kernel chooses.
        let _ = affinity::pin_to(traffic.cores.producer);
        dpdk::merge_in_turns(&mut arena, lines, shape, manner, most)?
    };
    let dpdk::Merged { packets, cpu_s, elapsed_s, violations, is_huge } = merged;
    let page = dpdk::page(is_huge);
    whole(packets, traffic)?;
    Ok(Run { packets, cpu_s, elapsed_s, violations, page })
}

/// Merges all packets in turns on this thread, to count instructions.
pub(super) fn rounds(traffic: &Traffic, variant: Variant) -> Result<(), String> {
    dpdk::start_to_count()?;
    let arena = Arena::create(OUTPUT_ARENA_BYTES, PageChoice::Size4K);
    let mut arena = arena.map_err(|error| error.to_string())?;
    let (shape, manner) = (Shape::COUNTED, variant.manner());
    let merged = dpdk::merge_in_turns(&mut arena, &traffic.lines, shape, manner, traffic.most)?;
    whole(merged.packets, traffic)
}

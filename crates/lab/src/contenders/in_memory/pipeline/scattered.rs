//! The log's rivals in this program: see [`rivals`](crate::rivals).

use super::{LOG_BYTES, Sample, Turn};
use crate::arena::Arena;
use crate::contenders::shapes::{Key, Pool as Shape, best};
use crate::ours::SEGMENT_BYTES;
use crate::rivals::bare::Bare;
use crate::rivals::lean::{self, Lean};
use crate::rivals::pool::{self, Pool};
use crate::rivals::ring::Ring;
use crate::rivals::scattered::{self, Caches};
use crate::rivals::spsc::Spsc;
use crate::rivals::{Address, Run};

/// Objects per pool, cache size of a core, and buffers without a pool.
const POOLS: [u32; 6] = [511, 1023, 2047, 4095, 8191, 16_383];
const CACHES: [u32; 3] = [0, 256, 512];
const BUFFERS: [usize; 4] = [256, 512, 1024, 2048];

/// Slots of the pointer ring, DPDK's usual number.
const POINTERS: usize = 1024;

/// Arena bytes for rings and for the padding between their indices.
const RINGS_BYTES: usize = 1 << 20;

/// Runs the pool and pointer ring of the documents.
pub(super) fn pool(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    let bytes = POOLS[POOLS.len() - 1] as usize * pool::STRIDE_BYTES + RINGS_BYTES;
    let mut arena = Arena::in_best_pages(bytes)?;
    let shape = best(key, &Shape::of_each(&POOLS, &CACHES, true), |shape| {
        arena.clear();
        with_pool(&arena, turn, shape, |run| turn.tried(|packets| Ok((run(packets), packets))))
    })?;
    arena.clear();
    let mut sample =
        with_pool(&arena, turn, shape, |run| turn.measure(|packets| Ok((run(packets), packets))))?;
    shape.describe(&mut sample);
    sample.lies_in(arena.page());
    Ok(sample)
}

/// Creates the pool of this shape and passes a function that runs it.
fn with_pool<R>(
    arena: &Arena,
    turn: &Turn<'_>,
    shape: Shape,
    work: impl FnOnce(&mut dyn FnMut(u64) -> Run) -> R,
) -> R {
    let pool = Pool::new(arena, shape.objects as usize);
    let mut caches = Caches::new(shape.cache as usize);
    let (cores, traffic) = (turn.cores, &turn.traffic);
    if shape.is_single {
        let mut ring = Spsc::<Address>::new(arena, POINTERS);
        work(&mut |packets| {
            let (push, pull) = ring.split();
            scattered::hand_off(cores, traffic, packets, &pool, &mut caches, push, pull)
        })
    } else {
        let ring = Ring::<Address>::new(arena, POINTERS);
        work(&mut |packets| {
            scattered::hand_off(cores, traffic, packets, &pool, &mut caches, &ring, &ring)
        })
    }
}

/// Runs the buffers that circulate between the two cores.
pub(super) fn lean(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    let bytes = BUFFERS[BUFFERS.len() - 1] * lean::STRIDE_BYTES + RINGS_BYTES;
    let mut arena = Arena::in_best_pages(bytes)?;
    let run =
        |lean: &mut Lean<'_>, packets| (lean.hand_off(turn.cores, &turn.traffic, packets), packets);
    let buffers = best(key, &BUFFERS, |buffers| {
        arena.clear();
        let mut lean = Lean::new(&arena, buffers);
        turn.tried(|packets| Ok(run(&mut lean, packets)))
    })?;
    arena.clear();
    let mut lean = Lean::new(&arena, buffers);
    let mut sample = turn.measure(|packets| Ok(run(&mut lean, packets)))?;
    sample.set("buffers", "buffers", buffers as f64);
    sample.lies_in(arena.page());
    Ok(sample)
}

/// Runs our layout without the log's bookkeeping.
pub(super) fn bare(turn: &Turn<'_>) -> Result<Sample, String> {
    let arena = Arena::in_best_pages(LOG_BYTES)?;
    let mut bare = Bare::new(&arena, SEGMENT_BYTES, LOG_BYTES / SEGMENT_BYTES);
    let hand_off = |packets| Ok(bare.hand_off(turn.cores, &turn.traffic, packets));
    let mut sample = turn.measure(hand_off)?;
    sample.lies_in(arena.page());
    Ok(sample)
}

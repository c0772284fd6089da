//! Measures the limit of a hand-off: see [`rivals::movement`](crate::rivals::movement).

use super::{Sample, Turn};
use crate::arena::Arena;
use crate::contenders::shapes::{Key, best};
use crate::ours::SEGMENT_BYTES;
use crate::rivals::Run;
use crate::rivals::movement::Movement;

/// Numbers of segments to try.
const SEGMENTS: [usize; 3] = [4, 8, 24];

/// One way to move packets.
#[derive(Clone, Copy, Debug)]
struct Setting {
    is_streamed: bool,
    segments: usize,
}

/// Measures the better way, found before the first turn.
pub(super) fn measure(turn: &Turn<'_>, key: &Key<'_>) -> Result<Sample, String> {
    let most = SEGMENTS[SEGMENTS.len() - 1] * SEGMENT_BYTES;
    let mut arena = Arena::in_best_pages(most)?;
    let ways = [false, true].into_iter();
    let settings: Vec<_> = ways
        .flat_map(|is_streamed| SEGMENTS.map(|segments| Setting { is_streamed, segments }))
        .collect();
    let setting = best(key, &settings, |setting| {
        arena.clear();
        let mut movement = Movement::new(&arena, SEGMENT_BYTES, setting.segments);
        turn.tried(|packets| moved(turn, &mut movement, setting, packets))
    })?;
    arena.clear();
    let mut movement = Movement::new(&arena, SEGMENT_BYTES, setting.segments);
    let mut sample = turn.measure(|packets| moved(turn, &mut movement, setting, packets))?;
    sample.set("streamed", "0 or 1", f64::from(u8::from(setting.is_streamed)));
    sample.set("log_segments", "segments used", setting.segments as f64);
    sample.lies_in(arena.page());
    Ok(sample)
}

/// Runs it and checks the loop's own sum.
fn moved(
    turn: &Turn<'_>,
    movement: &mut Movement,
    setting: Setting,
    packets: u64,
) -> Result<(Run, u64), String> {
    let length = turn.traffic.length();
    let (run, packets) = match setting.is_streamed {
        true => movement.hand_off::<true>(turn.cores, length, packets),
        false => movement.hand_off::<false>(turn.cores, length, packets),
    };
    match run.sum == Movement::expected(length, packets) {
        true => Ok((run, packets)),
        false => Err(format!("{packets} packets summed up to {:#x}", run.sum)),
    }
}

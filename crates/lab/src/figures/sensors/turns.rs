//! Turns of the figures of Suricata.

use std::cell::RefCell;

use crate::contenders::Sample;
use crate::contest::{Rounds, alternate};
use crate::figures::Context;
use crate::sensors::Work;

const SMOKE_PACKETS: usize = 2000;
pub(super) const RULES: usize = 500;
/// One packet in this many has a content that a rule looks for.
const MATCH_EVERY: u64 = 1000;

/// The work of both sides: this many packets, but few in a smoke run. `action` is what a rule does
/// with a packet.
pub(super) fn work(context: &Context, packets: usize, action: &str) -> Work {
    let packets = if context.smoke { SMOKE_PACKETS } else { packets };
    Work::new(packets, RULES, Some(MATCH_EVERY), action)
}

/// What a turn measured, and what Suricata found in it.
pub(super) struct Turn<F> {
    pub(super) sample: Sample,
    pub(super) found: F,
}

/// Runs both sides in turns; ours if the flag is set. All of them have to find the same, which is
/// returned, too.
pub(super) fn turns<F: Clone + Default + PartialEq>(
    context: &Context,
    run: impl Fn(bool) -> Result<Turn<F>, String>,
    say: impl Fn(&F) -> String,
) -> Result<(Rounds<Sample>, F), String> {
    let before = RefCell::new(None);
    let side = |is_ours| {
        let Turn { sample, found } = run(is_ours)?;
        match before.replace(Some(found.clone())) {
            Some(other) if other != found => {
                Err(format!("{}; in the turn before: {}", say(&found), say(&other)))
            }
            _ => Ok(sample),
        }
    };
    let runs = context.process_runs();
    let rounds = alternate(runs, &context.stop, || side(true), || side(false))?;
    Ok((rounds, before.into_inner().unwrap_or_default()))
}

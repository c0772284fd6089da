//! Runs the turns of the Suricata figures.

use std::cell::RefCell;

use crate::contenders::Sample;
use crate::contest::Rounds;
use crate::figures::Context;
use crate::sensors::Work;

const SMOKE_PACKETS: usize = 2000;
pub(super) const RULES: usize = 500;
/// One packet in this many contains what a rule searches for.
const MATCH_EVERY: u64 = 1000;

/// Returns the work of both sides: this many packets, or few in a smoke run. `action` is the action
/// of the rules.
pub(super) fn work(context: &Context, packets: usize, action: &str) -> Work {
    let packets = if context.smoke { SMOKE_PACKETS } else { packets };
    Work::new(packets, RULES, Some(MATCH_EVERY), action)
}

/// The measurement of a turn, and Suricata's findings in it.
pub(super) struct Turn<F> {
    pub(super) sample: Sample,
    pub(super) found: F,
}

/// Runs both sides in turns; the flag selects ours. All turns must find the same, which is
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
    let rounds = context.alternate(context.process_runs(), || side(true), || side(false))?;
    Ok((rounds, before.into_inner().unwrap_or_default()))
}

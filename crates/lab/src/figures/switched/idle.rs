//! Measures the CPU use of an idle switch.

use std::path::Path;
use std::time::Duration;

use super::Context;
use crate::compared::{Better, Outcome};
use crate::figures::idle::{by_poll, cpu_percent};
use crate::live::{Road, missing};
use crate::programs::our_program;

const TURN: Duration = Duration::from_secs(3);
/// Ports without a guest.
const PORTS: usize = 8;

/// `switch-idle-cpu`: per cent of a core; ours polls adaptively, the peer busily.
pub(crate) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?;
    let comparison = context.begin();
    let rounds = by_poll(context, context.process_runs(), |poll| idle(context, &program, poll))?;
    let details = vec![format!(
        "burstline switch with {PORTS} vhost: ports without guests; user and system time of all \
         threads, over {} s",
        TURN.as_secs()
    )];
    Ok(comparison.outcome("% of a core", Better::Lower, rounds, details))
}

fn idle(context: &Context, program: &Path, poll: &str) -> Result<f64, String> {
    let road = Road::new(context.cores)?;
    let ports =
        (0..PORTS).map(|number| format!("--port 'vhost:{}'", road.file(&number.to_string())));
    let ports: Vec<_> = ports.collect();
    let time = if context.smoke { TURN / 10 } else { TURN };
    let command = format!(
        "'{}' switch {} --poll {poll} --json --duration {}ms",
        program.display(),
        ports.join(" "),
        time.as_millis()
    );
    cpu_percent(context, &road, command)
}

//! How long a program takes from its start until it has recorded a packet and ended.
//!
//! Frames come all the time, so no process waits for one. The figure is the time to load, open, and
//! end a whole process after one packet. From exec to the packet itself is less.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use burstline_afpacket::Sender;
use burstline_sys::clock;
use burstline_testbed::{Bed, FAR, Frames, NEAR};

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::alternate;
use crate::live::missing;

/// Frames of one call, and the pause after it: a frame is never farther away.
const BATCH: u64 = 4;
const PAUSE: Duration = Duration::from_micros(100);
/// A run takes some ms: more of them than of others.
const RUNS_EACH: usize = 10;

/// `start-first-packet`: `tcpdump -c 1 -w /dev/null`, and ours.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?.display().to_string();
    let conditions = Conditions::watch(context.cores);
    let bed = Bed::new().map_err(|error| error.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = thread::scope(|scope| {
        let (near, is_over) = (&bed.near, Arc::clone(&stop));
        let sending = scope.spawn(move || near.run(move || send(&is_over)));
        let source = format!("afpacket:{FAR}");
        let runs = if context.smoke { 1 } else { context.runs * RUNS_EACH };
        let ours = ["capture", "-q", &source, "-c", "1", "-w", "/dev/null"];
        let theirs = ["-i", FAR, "-n", "-Z", "root", "-c", "1", "-w", "/dev/null"];
        let rounds = alternate(
            runs,
            &context.stop,
            || timed_ms(&bed, &program, &ours),
            || timed_ms(&bed, "tcpdump", &theirs),
        );
        stop.store(true, Relaxed); // only a wish
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(rounds)
    })?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        format!("ours: burstline capture -q afpacket:{FAR} -c 1 -w /dev/null"),
        format!("peer: tcpdump -i {FAR} -n -Z root -c 1 -w /dev/null"),
        format!("wall time from the start of a process to its end; {BATCH} frames every {PAUSE:?}"),
    ];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of("ms", Better::Lower, rounds, details)))
}

/// Sends frames until it is over.
fn send(is_over: &AtomicBool) -> Result<(), String> {
    let mut sender = Sender::open(NEAR, true).map_err(|error| error.to_string())?;
    while !is_over.load(Relaxed) {
        Frames::new(BATCH, 100).send(&mut sender).map_err(|error| error.to_string())?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn timed_ms(bed: &Bed, program: &str, words: &[&str]) -> Result<f64, String> {
    let begun_ns = clock::monotonic_ns();
    let said = bed.far.command(program, words);
    said.map_err(|error| error.to_string())?;
    Ok((clock::monotonic_ns() - begun_ns) as f64 / 1e6)
}

//! Measures the time from a program's start until it outputs its first packet.
//!
//! Each program writes a pcap file to a pipe. The clock runs from before the fork until the other
//! end has read the first record. Frames arrive all the time, so no process waits for them.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use burstline_afpacket::Sender;
use burstline_sys::clock;
use burstline_testbed::{Bed, FAR, Frames, NEAR};

use super::Context;
use crate::compared::{Better, Outcome};
use crate::live::missing;
use crate::programs::{our_program, tcpdump};
use crate::scenario::machine::Served;

/// Frames per call, and the pause after it: the next frame is never later than that.
const BATCH: u64 = 4;
const PAUSE: Duration = Duration::from_micros(100);
/// A run takes only some ms, so there are more of them than for other figures.
const RUNS_EACH: usize = 10;

/// Sizes of a file header and a record header, whose third word is the length of the data.
/// Source: draft-ietf-opsawg-pcap, sections 4 and 5.
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
const LENGTH_AT: usize = FILE_HEADER_BYTES + 8;

/// `start-first-packet`: `tcpdump -U -w -`, and ours.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?.display().to_string();
    let comparison = context.begin();
    let (bed, served) = (Bed::new().map_err(|error| error.to_string())?, Served::now());
    let peer = tcpdump(FAR, " -c 1 -U", "-");
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = thread::scope(|scope| {
        let (near, is_over) = (&bed.near, Arc::clone(&stop));
        let sending = scope.spawn(move || near.run(move || send(&is_over)));
        let source = format!("afpacket:{FAR}");
        let runs = if context.smoke { 1 } else { context.runs * RUNS_EACH };
        let ours = ["capture", "-q", &source, "-c", "1", "--format", "pcap", "-w", "-"];
        let theirs: Vec<&str> = peer.split(' ').collect();
        let rounds = context.turns(
            runs,
            || timed_ms(&bed, &program, &ours),
            || timed_ms(&bed, theirs[0], &theirs[1..]),
        );
        stop.store(true, Relaxed); // Relaxed: a flag only.
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(rounds)
    })?;
    context.look_at(&bed, &served);
    let details = vec![
        format!("ours: burstline capture -q afpacket:{FAR} -c 1 --format pcap -w -"),
        format!("peer: {peer}"),
        format!(
            "wall time from before the fork until a record is read; {BATCH} frames every {PAUSE:?}"
        ),
    ];
    Ok(comparison.outcome("ms", Better::Lower, rounds, details))
}

/// Sends frames until `is_over`.
fn send(is_over: &AtomicBool) -> Result<(), String> {
    let mut sender = Sender::open(NEAR, true).map_err(|error| error.to_string())?;
    while !is_over.load(Relaxed) {
        Frames::new(BATCH, 100).send(&mut sender).map_err(|error| error.to_string())?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns the milliseconds from before a program's start until its first record is read.
fn timed_ms(bed: &Bed, program: &str, words: &[&str]) -> Result<f64, String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = |error| format!("{program}: {error}");
    let (elapsed_ns, output) = bed
        .far
        .run(move || {
            let begun_ns = clock::monotonic_ns();
            let mut child = command.spawn()?;
            let mut pipe = child.stdout.take().expect("it is a pipe");
            let read = read_record(&mut pipe);
            let elapsed_ns = clock::monotonic_ns() - begun_ns;
            let output = child.wait_with_output()?;
            Ok((read.map(|()| elapsed_ns), output))
        })
        .map_err(|error: io::Error| said(error.to_string()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let elapsed_ns = elapsed_ns.map_err(|error| said(format!("{error}; it said: {stderr}")))?;
    if !output.status.success() {
        return Err(said(format!("{}; it said: {stderr}", output.status)));
    }
    Ok(elapsed_ns as f64 / 1e6)
}

/// Reads a pcap file up to the end of its first record.
fn read_record(pipe: &mut impl Read) -> io::Result<()> {
    let mut headers = [0; FILE_HEADER_BYTES + RECORD_HEADER_BYTES];
    pipe.read_exact(&mut headers)?;
    let length = headers[LENGTH_AT..LENGTH_AT + 4].try_into().expect("four bytes");
    let mut packet = vec![0; u32::from_ne_bytes(length) as usize];
    pipe.read_exact(&mut packet)
}

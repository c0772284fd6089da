//! Measures the time from sending a lone frame until the application has it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use burstline_afpacket::Sender;
use burstline_engine::{Inlet, PollMode, Progress, Run, Threads, count};
use burstline_log::{Scratch, Writer};
use burstline_port::{
    Address, Copying, Lent, OpenOptions, Port, PortAccount, PortError, PortInfo, Received, Source,
};
use burstline_sys::affinity::CoreId;
use burstline_sys::clock;
use burstline_testbed::{Frames, NEAR, sequence_of};

use crate::figures::Context;
use crate::live::{FRAME_BYTES, Road};

/// Frames per run; ten times as many with `FULL=1`.
const FRAMES: u64 = 200;
const SMOKE_FRAMES: u64 = 5;
/// The silence before each frame, in ms, in an irregular order that no timer matches.
const GAPS_MS: [u64; 7] = [3, 17, 1, 11, 20, 7, 13];
/// Time for the receiver to get ready, and for the last frame to arrive.
const SETTLE: Duration = Duration::from_millis(200);

/// The numbers of frames and when they arrived, in ns since 1970.
type Stamps = Arc<Mutex<Vec<(u64, u64)>>>;

/// Returns a line with the latency of frames to an application that reads `address`.
pub(super) fn measure(context: &Context, address: &str, poll: &str) -> Result<String, String> {
    let frames = match (context.smoke, context.full) {
        (true, _) => SMOKE_FRAMES,
        (_, true) => 10 * FRAMES,
        _ => FRAMES,
    };
    let road = Road::new(context.cores)?;
    let (stamps, stop) = (Stamps::default(), Arc::new(AtomicBool::new(false)));
    let (sent, counted) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&road, address, poll, &stamps, &stop));
        thread::sleep(SETTLE);
        let sent = send(&road, frames);
        thread::sleep(SETTLE);
        stop.store(true, Relaxed); // Relaxed: no other data depends on it.
        (sent, receiver.join().map_err(|_| "the receiver died".to_owned()))
    });
    let (sent, ()) = (sent?, counted??);
    let stamps = stamps.lock().unwrap_or_else(PoisonError::into_inner);
    let delay = |&(number, at_ns): &(u64, u64)| {
        let sent_ns = sent.get(number as usize).copied();
        sent_ns.map(|sent_ns| at_ns.saturating_sub(sent_ns))
    };
    let mut delays: Vec<u64> = stamps.iter().filter_map(delay).collect();
    delays.sort_unstable();
    if delays.len() as u64 != frames {
        return Err(format!("{address} delivered {} of {frames} lone frames", delays.len()));
    }
    let at = |share: f64| delays[((frames - 1) as f64 * share) as usize] as f64 / 1000.0;
    Ok(format!(
        "{address} --poll {poll}: a lone frame arrives after {:.0} us (p50), {:.0} us (p99), \
         {:.0} us (most) of {frames}, silent for 1 to 20 ms before",
        at(0.5),
        at(0.99),
        at(1.0)
    ))
}

/// Sends lone frames. Returns when each was sent, in ns since 1970.
fn send(road: &Road, frames: u64) -> Result<Vec<u64>, String> {
    road.bed().near.run(move || {
        let mut sender = Sender::open(NEAR, true).map_err(|error| error.to_string())?;
        let shape = Frames::new(frames, FRAME_BYTES);
        let mut sent = Vec::new();
        for (number, gap_ms) in (0..frames).zip(GAPS_MS.into_iter().cycle()) {
            let frame = shape.frame(number);
            thread::sleep(Duration::from_millis(gap_ms));
            sent.push(clock::realtime_ns());
            sender.send(&[&frame]).map_err(|error| error.to_string())?;
        }
        Ok(sent)
    })
}

/// Runs the engine's count on the far host until `stop`.
fn receive(
    road: &Road,
    address: &str,
    poll: &str,
    stamps: &Stamps,
    stop: &Arc<AtomicBool>,
) -> Result<(), String> {
    let address: Address = address.parse().map_err(|error| format!("{error}"))?;
    let poll = if poll == "busy" { PollMode::Busy } else { PollMode::Adaptive };
    let CoreId(core) = road.cores().consumer;
    let (stamps, stop) = (Arc::clone(stamps), Arc::clone(stop));
    road.bed().far.run(move || {
        let source = Inlet::open(&address, &OpenOptions::default());
        let source = source.map_err(|error| error.to_string())?;
        let source =
            source.wrap(|inner| Box::new(Stamping { inner, stamps, copying: Copying::default() }));
        let threads = Threads { cores: vec![CoreId(core)], poll, ..Threads::default() };
        let progress = Progress::new(1);
        let report = count(vec![source], &threads, &Run::new(&stop, &progress));
        let report = report.map_err(|error| error.to_string())?;
        match (report.total.unaccounted, report.errors.first()) {
            (0, None) => Ok(()),
            (unaccounted, error) => Err(format!("{unaccounted} unaccounted for, {error:?}")),
        }
    })
}

/// A port that records when each frame was lent.
struct Stamping {
    inner: Box<dyn Source>,
    stamps: Stamps,
    copying: Copying,
}

impl Port for Stamping {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.inner.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.inner.account();
        self.copying.add_to(&mut account);
        account
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }
}

impl Source for Stamping {
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        let lent = self.inner.lend(scratch, budget)?;
        if !lent.burst.is_empty() {
            let now_ns = clock::realtime_ns();
            let numbers = lent.burst.packets().filter_map(|packet| sequence_of(packet.bytes()));
            let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
            stamps.extend(numbers.map(|number| (number, now_ns)));
        }
        Ok(lent)
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        Copying::receive(self, |source| &mut source.copying, writer, budget)
    }
}

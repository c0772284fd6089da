//! Measures the loss when frames arrive at full rate after silence.
//!
//! A search by halving finds the highest rate that `burstline count xdp:` sustains for a second
//! without loss. It is then lowered until it holds for 10 s. Seven eighths of that is the zero-loss
//! rate. Above it, the first loss is random and not caused by the start. Then an idle receiver gets
//! that rate from one moment to the next. Beside each such start runs one without silence. Its
//! losses are the machine's, which at times takes cores away from all programs.
//!
//! `make bench FIGURE='startup-loss-*' FULL=1` does that 100 times for each way to wait, after 10 s
//! of silence each. Several sleeping receivers can be idle together, each on its own road, and get
//! their second one after the other. A busy-polling one needs a whole core, so its silences add up.

use std::path::Path;
use std::thread;
use std::time::Duration;

use burstline_testbed::{Amount, Target};

use super::Context;
use crate::compared::{Better, Outcome};
use crate::contest::Rounds;
use crate::live::{Contender, Load, Road, missing};
use crate::programs::our_program;
use crate::programs::{Ours, Report};
use crate::scenario::machine::Served;

/// Range of the search for the limit, in frames a second.
const RATES_PPS: std::ops::Range<u64> = 100_000..10_000_000;
/// Number of halvings: they find the limit to a part in 256.
const STEPS: u32 = 8;
/// How long a rate must hold without a loss.
const STEADY: Duration = Duration::from_secs(10);
/// A rate with a loss is lowered by this part. The first one without a loss is lowered once more,
/// by twice as much.
const PART: u64 = 16;
const SECOND: Duration = Duration::from_secs(1);
const SMOKE_FRAMES: u64 = 500;
/// Number of receivers that sleep at a time.
const TOGETHER: usize = 10;
/// Holds 26 ms at 2.5 Mpps: more than the default, as a user would set it to avoid loss. With
/// 16,384 frames a virtual machine whose cores are taken away for 9 ms lost packets in 14 of 100
/// starts. Without silence it lost packets in 9 of 100.
const FRAMES: u32 = 65_536;

/// `startup-loss-POLL`: per cent of the first second received; ours after silence, the peer
/// without.
pub(super) fn measure(context: &Context, poll: &'static str) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?;
    let (starts, silence) = match (context.smoke, context.full) {
        (true, _) => (1, Duration::from_millis(10)),
        (_, true) => (100, Duration::from_secs(10)),
        _ => (10, Duration::from_millis(500)),
    };
    let comparison = context.begin();
    let side = Side { context, program: &program, poll };
    let rate_pps = if context.smoke { RATES_PPS.start } else { side.rate_without_loss()? };
    let mut rounds = Rounds::default();
    let mut lost = [Vec::new(), Vec::new()];
    for start in side.starts(starts, rate_pps, silence)? {
        for (index, (offered, received)) in start.into_iter().enumerate() {
            lost[index].push(offered.saturating_sub(received));
            let values = if index == 0 { &mut rounds.ours } else { &mut rounds.peer };
            values.push(100.0 * received as f64 / offered as f64);
        }
    }
    let whole = |lost: &[u64]| lost.iter().filter(|&&lost| lost == 0).count();
    let [after, without] = &lost;
    let details = vec![
        format!(
            "`burstline count xdp:v1?frames={FRAMES} --poll {poll}`, 1 s at {rate_pps} frames a \
             second: 7/8 of a rate received for {STEADY:?} without loss"
        ),
        format!(
            "ours, silent for {silence:?} before: {} of {starts} starts without loss; lost {}",
            whole(after),
            after.iter().sum::<u64>()
        ),
        format!(
            "peer, the same without silence: {} of {starts} without loss; lost {}",
            whole(without),
            without.iter().sum::<u64>()
        ),
    ];
    Ok(comparison.outcome("% received", Better::Higher, rounds, details))
}

/// Our program in one mode.
struct Side<'a> {
    context: &'a Context,
    program: &'a Path,
    poll: &'static str,
}

impl Side<'_> {
    /// Returns the zero-loss rate in frames a second.
    fn rate_without_loss(&self) -> Result<u64, String> {
        let (mut whole, mut lossy) = (RATES_PPS.start, RATES_PPS.end);
        for _ in 0..STEPS {
            let rate_pps = whole.midpoint(lossy);
            let (offered, received) = self.start(rate_pps, SECOND)?;
            // The injector's speed is limited, too, so the rate that counts is the one it offered.
            match offered == received {
                true => whole = rate_pps.min(offered),
                false => lossy = rate_pps.min(offered),
            }
            if whole >= lossy || (offered == received && offered < rate_pps - rate_pps / 64) {
                break;
            }
        }
        while whole > RATES_PPS.start {
            let (offered, received) = self.start(whole, STEADY)?;
            if offered == received {
                break;
            }
            whole -= whole / PART;
        }
        Ok(whole - 2 * (whole / PART))
    }

    /// Returns the frames offered and received in this many starts of a second each. Does it after
    /// this much silence, and as often without silence.
    fn starts(
        &self,
        starts: usize,
        rate_pps: u64,
        silence: Duration,
    ) -> Result<Vec<[(u64, u64); 2]>, String> {
        let together = if self.poll == "busy" { 1 } else { TOGETHER };
        let mut all = Vec::new();
        while all.len() < starts {
            let count = together.min(starts - all.len());
            let roads = (0..count).map(|_| Road::new(self.context.cores));
            let roads = roads.collect::<Result<Vec<_>, _>>()?;
            let waiting = roads.iter().map(|road| Ok((road, self.receiver(road)?)));
            let waiting = waiting.collect::<Result<Vec<_>, String>>()?;
            thread::sleep(silence);
            let mut after = Vec::with_capacity(count);
            for (road, receiver) in waiting {
                after.push(self.inject(road, receiver, 0, rate_pps, SECOND)?);
            }
            drop(roads);
            for start in after {
                all.push([start, self.start(rate_pps, SECOND)?]);
            }
        }
        Ok(all)
    }

    /// Runs one start without silence.
    fn start(&self, rate_pps: u64, time: Duration) -> Result<(u64, u64), String> {
        let (road, served) = (Road::new(self.context.cores)?, Served::now());
        let receiver = self.receiver(&road)?;
        let counts = self.inject(&road, receiver, 1, rate_pps, time);
        self.context.look_at(road.bed(), &served);
        counts
    }

    /// Starts the program.
    fn receiver<'r>(&self, road: &'r Road) -> Result<Contender<'r>, String> {
        let (cores, stop) = (self.context.cores, &self.context.stop);
        let (poll, core) = (self.poll, cores.consumer);
        let words = format!("count 'xdp:v1?frames={FRAMES}' --poll {poll} --cores {core}");
        let count = Ours::new(self.program, &words);
        let list = format!("{},{}", cores.producer.0, cores.consumer.0);
        Contender::start(road, &list, &count, stop)
    }

    /// Injects for `time` and ends the program, which is of ours, 0, or of the peer, 1. Returns the
    /// frames offered and received.
    fn inject(
        &self,
        road: &Road,
        receiver: Contender<'_>,
        side: usize,
        rate_pps: u64,
        time: Duration,
    ) -> Result<(u64, u64), String> {
        let amount = match self.context.smoke {
            true => Amount::Frames(SMOKE_FRAMES),
            false => Amount::Time(time),
        };
        let load = Load { amount, rate_pps: Some(rate_pps) };
        let offered = road.inject(Target::Program, load, &self.context.stop)?.offered;
        self.context.saw(side, || receiver.pages());
        let (said, _) = receiver.end()?;
        Ok((offered, Report::parse(&said, offered)?.delivered))
    }
}

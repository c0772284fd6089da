//! All tests of one device.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use burstline_engine::{Integrity, Source, Threads, count_verified};
use burstline_port::{Address, OpenOptions};

use super::SizeResult;
use super::search::{self, Limited};
use super::tester::{Load, Receiver, Tester, Trial};
use crate::args::{Rfc2544Args, Test};
use crate::failure::Failure;
use crate::signals;
use crate::view::{count_text, rate_text};

/// Bytes that a frame takes on the line beyond itself: preamble 8, gap 12.
/// Source: IEEE 802.3, 3.1.1 and 4.4.2.
const LINE_BYTES: u32 = 20;

/// Frames a second that can be sent, as `gen:` takes them.
const RATES_PPS: std::ops::RangeInclusive<f64> = 0.001..=1e9;

/// Seconds of top speed that the longest burst has. Source: RFC 2544, section 26.4.
const BURST_SECONDS: f64 = 2.0;

/// Frames at half the highest rate.
const HALF_FRAMES: u64 = 1_000_000;

/// How long the receiver may take to begin.
const BEGIN: Duration = Duration::from_millis(5);

/// The two ends of a device, and who is there.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) tx: Address,
    pub(super) rx: Address,
    pub(super) link_bits: f64,
    pub(super) tx_threads: Threads,
    pub(super) rx_threads: Threads,
}

/// Runs the tests on the device between the ends, which are of the calling thread's network
/// namespace. True: all of them. What is done is in `results`, also when it fails.
pub(super) fn measure(
    args: &Rfc2544Args,
    ends: &Ends,
    stop: &Arc<AtomicBool>,
    results: &mut Vec<SizeResult>,
) -> Result<bool, Failure> {
    let ports = OpenOptions { stop: Some(Arc::clone(stop)), ..OpenOptions::default() };
    let sources = Source::open_all(&ends.rx, &ports)?;
    let integrity = if args.checksums { Integrity::Checksums } else { Integrity::Frame };
    let receiver = Receiver::new(sources.len(), integrity);
    let mac = args.dst_mac.as_ref().map_or(String::new(), |mac| format!("&dst-mac={mac}"));
    let recipe = format!("&flows={}{mac}", args.flows);
    // The receiver's own, so that it goes on while the user's ends the sender.
    let (is_over, is_broken) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let (verifier, progress) = (&receiver.verifier, &receiver.progress);
        let (is_over, is_broken) = (&is_over, &is_broken);
        let counting = scope.spawn(move || {
            let run = burstline_engine::Run::new(is_over, progress);
            let counted = count_verified(sources, verifier, &ends.rx_threads, &run);
            // The flags carry no memory, here and below. Without a receiver all is over.
            if !is_over.load(Relaxed) {
                is_broken.store(true, Relaxed);
                stop.store(true, Relaxed);
            }
            counted
        });
        while !progress.snapshot().is_started && !counting.is_finished() {
            thread::sleep(BEGIN);
        }
        let threads = ends.tx_threads.clone();
        let tester = Tester { tx: &ends.tx, receiver: &receiver, recipe, threads, stop };
        let outcome = Run { args, tester, link_bits: ends.link_bits, stop }.all(results);
        let is_whole = outcome.is_ok() && !stop.load(Relaxed);
        is_over.store(true, Relaxed);
        let counted = counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if is_broken.load(Relaxed) {
            // It was not the user who wants an end: another device may be next.
            stop.store(false, Relaxed);
        }
        let counted = counted.map_err(Failure::from).and_then(|report| {
            report.errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
        });
        if counted.is_ok() && outcome.is_ok() && is_broken.load(Relaxed) {
            let rx = &ends.rx;
            return Err(Failure::new(format!(
                "{rx} came to its end while the tests ran: it has to be an interface, or another \
                 port that goes on"
            )));
        }
        counted.and(outcome).map(|()| is_whole)
    })
}

/// All tests of all sizes.
struct Run<'a> {
    args: &'a Rfc2544Args,
    tester: Tester<'a>,
    link_bits: f64,
    stop: &'a AtomicBool,
}

impl Run<'_> {
    fn all(&self, results: &mut Vec<SizeResult>) -> Result<(), Failure> {
        for &size in &self.args.sizes {
            let line_pps = self.link_bits / f64::from((size + LINE_BYTES) * 8);
            if !RATES_PPS.contains(&line_pps) {
                return Err(Failure::usage(format!(
                    "--link: {line_pps:.3} frames of {size} bytes a second fill it, and from \
                     0.001 to 1G can be sent: say another --link, or leave {size} out in --sizes"
                )));
            }
            let mut result = SizeResult { size, line_pps, ..SizeResult::default() };
            let done = self.size(&mut result);
            // What is known of a size that was not finished is worth something.
            if result.throughput.is_some() || !result.loss.is_empty() {
                results.push(result);
            }
            done?;
            if self.stop.load(Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// Returns early when the user wants an end.
    fn size(&self, result: &mut SizeResult) -> Result<(), Failure> {
        let (size, line_pps) = (result.size, result.line_pps);
        let part = self.args.resolution / 100.0;
        let duration = Duration::from_nanos(self.args.trial);
        let load = Load { size, rate_pps: None, packets: None, duration };
        let at = |pps: f64| Load { rate_pps: Some(pps), ..load };
        let mut highest_pps = line_pps;
        let needs_throughput = [Test::Throughput, Test::Latency, Test::Half];
        if needs_throughput.into_iter().any(|test| self.args.wants(test)) {
            let mut trial = |pps: f64| self.trial("throughput", at(pps));
            result.throughput = search::throughput(line_pps, part, &mut trial)?;
            let Some(found) = &result.throughput else { return Ok(()) };
            highest_pps = found.offered_most_pps.min(line_pps);
            if self.args.wants(Test::Latency) && found.pps > 0.0 {
                result.latency = self.trial("latency", at(found.pps))?;
                if result.latency.is_none() {
                    return Ok(());
                }
            }
            if self.args.wants(Test::Half) && found.pps > 0.0 {
                let pps = found.pps / 2.0;
                let duration = Duration::from_secs_f64(HALF_FRAMES as f64 / pps * 10.0);
                let packets = Some(HALF_FRAMES);
                result.half = self.trial("half", Load { packets, duration, ..at(pps) })?;
                if result.half.is_none() {
                    return Ok(());
                }
            }
        }
        if self.args.wants(Test::Loss) {
            let mut trial = |pps: f64| self.trial("loss", at(pps));
            if !search::loss_curve(highest_pps, &mut trial, &mut result.loss)? {
                return Ok(());
            }
        }
        if self.args.wants(Test::BackToBack) {
            let seconds = BURST_SECONDS.min(duration.as_secs_f64());
            let most = (highest_pps * seconds).max(1.0) as u64;
            // However slowly they are sent: the number of frames ends it.
            let duration = Duration::from_secs_f64(seconds * 100.0);
            let mut trial = |frames: u64| {
                let load = Load { packets: Some(frames), duration, ..load };
                let done = self.trial("back-to-back", load)?;
                Ok(done.map(|done| done.lost == 0 && done.sent == frames))
            };
            result.back_to_back = search::back_to_back(most, part, &mut trial)?;
        }
        Ok(())
    }

    /// One trial, told about; `None` when the user wants an end.
    fn trial(&self, test: &str, load: Load) -> Result<Option<Trial>, Failure> {
        if self.stop.load(Relaxed) {
            return Ok(None);
        }
        let asked = match (load.rate_pps, load.packets) {
            (Some(pps), _) => rate_text(pps, "pps"),
            (None, packets) => format!("{} at once", count_text(packets.unwrap_or(0))),
        };
        let what = format!("{:>5} bytes, {test}: {asked}", load.size);
        signals::now_doing(what.trim_start().to_owned());
        self.tell(&format!("{what} ..."));
        let done = self.tester.run(load)?;
        if self.stop.load(Relaxed) {
            self.tell(" ended\n");
            return Ok(None);
        }
        let (offered, lost, sent) =
            (rate_text(done.offered_pps, "pps"), count_text(done.lost), count_text(done.sent));
        let fault = match done.lost_by_receiver {
            0 => String::new(),
            own => format!(", {} of them by {}", count_text(own), Limited::Receiver.name()),
        };
        self.tell(&format!(" {offered} offered, {lost} of {sent} lost{fault}\n"));
        Ok(Some(done))
    }

    fn tell(&self, text: &str) {
        if !self.args.quiet {
            // Nobody there to be told is no reason to end.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        }
    }
}

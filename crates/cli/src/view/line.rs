//! The progress line of a running job: absolute counts, then those of the interval.

use std::mem;
use std::time::{Duration, Instant};

use burstline_engine::{Counts, Snapshot};
use burstline_port::Loss;
use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

use super::Mark;
use crate::words::{bytes_text, count_text, left_text, rate_text};

/// Size of the header before each packet of a file. Source: pcap-savefile(5).
const RECORD_HEADER_BYTES: u64 = 16;

/// A job at the end of an interval.
pub(super) struct Moment<'a> {
    pub(super) command: &'a str,
    pub(super) number: u64,
    pub(super) elapsed: Duration,
    pub(super) interval: Duration,
    pub(super) now: &'a Snapshot,
    pub(super) last: Snapshot,
    /// Total size of the files that the job reads, if it reads nothing else.
    pub(super) input_bytes: Option<u64>,
}

impl<'a> Moment<'a> {
    /// Returns the next moment of a series.
    pub(super) fn next(
        command: &'a str,
        begun: Instant,
        now: &'a Snapshot,
        series: &mut Mark,
    ) -> Self {
        let at = Instant::now();
        series.lines += 1;
        Self {
            command,
            number: series.lines,
            elapsed: at - begun,
            interval: at - mem::replace(&mut series.at, at),
            now,
            last: mem::replace(&mut series.last, now.clone()),
            input_bytes: None,
        }
    }
}

/// The rates in an interval.
pub(super) struct Rates {
    pub(super) packets_per_s: f64,
    /// Bits of frames without FCS.
    pub(super) l2_bits_per_s: f64,
    /// Bits of frames with FCS, preamble and gap.
    pub(super) line_bits_per_s: f64,
}

impl Moment<'_> {
    /// Returns the packets that arrived at their destination in the job, now and before.
    pub(super) fn counts(&self) -> (Counts, Counts) {
        match self.now.log_bytes {
            0 => (self.now.received, self.last.received),
            _ => (self.now.recorded, self.last.recorded),
        }
    }

    /// Returns how full the log is, in `[0, 100]` percent.
    pub(super) fn log_percent(&self) -> f64 {
        let waiting = self.now.received.bytes.saturating_sub(self.now.recorded.bytes);
        (waiting as f64 * 100.0 / self.now.log_bytes.max(1) as f64).min(100.0)
    }

    /// Returns the rates of the interval.
    pub(super) fn rates(&self) -> Rates {
        let (now, last) = self.counts();
        let packets = now.packets.saturating_sub(last.packets);
        let bytes = now.wire_bytes.saturating_sub(last.wire_bytes);
        let seconds = self.interval.as_secs_f64().max(1e-9);
        let line_bytes = bytes + packets * u64::from(FCS_BYTES + GAP_BYTES);
        Rates {
            packets_per_s: packets as f64 / seconds,
            l2_bits_per_s: bytes as f64 * 8.0 / seconds,
            line_bits_per_s: line_bytes as f64 * 8.0 / seconds,
        }
    }

    /// Returns the line without its end, the most important values first: terminals may clip it.
    pub(super) fn text(&self) -> String {
        let (now, last) = self.counts();
        let rates = self.rates();
        let mut text = format!(
            "{:>6.1} s {:>15} packets {:>10} | {} | +{} {:>11} {} l2 ({} line)",
            self.elapsed.as_secs_f64(),
            count_text(now.packets),
            bytes_text(now.bytes),
            self.losses(),
            count_text(now.packets.saturating_sub(last.packets)),
            rate_text(rates.packets_per_s, "pps"),
            rate_text(rates.l2_bits_per_s, "bit/s"),
            rate_text(rates.line_bits_per_s, "bit/s"),
        );
        text += &self.progress_text();
        if let Some(kept_ns) = self.now.kept_ns {
            let (kept, files) = (kept_ns as f64 / 1e9, count_text(self.now.files));
            text += &match self.now.is_writing {
                true => format!(" | keeps {kept:.1} s, writes file {files}"),
                false => format!(" | keeps {kept:.1} s, {files} files written"),
            };
        } else if self.now.log_bytes > 0 {
            let segments = count_text(self.now.segments);
            text += &format!(" | {segments} segments, log {:.0}% full", self.log_percent());
        }
        text
    }

    /// Formats ` | 43 %, 12 s left`, for files. An estimate: a file also has packet headers.
    fn progress_text(&self) -> String {
        let Some(all) = self.input_bytes.filter(|&bytes| bytes > 0) else { return String::new() };
        let received = self.now.received;
        let read = (received.bytes + received.packets * RECORD_HEADER_BYTES).min(all);
        let percent = u128::from(read) * 100 / u128::from(all);
        format!(" | {percent} %{}", left_text(read, all, self.elapsed))
    }

    fn losses(&self) -> String {
        let lost = match self.now.lost.missing() {
            0 => "0".to_owned(),
            _ => self.causes(|cause| !cause.is_choice()),
        };
        match self.now.lost.unwanted() {
            0 => format!("lost {lost}"),
            _ => format!("lost {lost} | {}", self.causes(Loss::is_choice)),
        }
    }

    /// Returns the causes of a kind, with their counts.
    fn causes(&self, is_meant: impl Fn(Loss) -> bool) -> String {
        let causes =
            self.now.lost.iter().filter(|&(cause, packets)| packets > 0 && is_meant(cause));
        let causes: Vec<_> = causes
            .map(|(cause, packets)| {
                let new = packets.saturating_sub(self.last.lost.of(cause));
                format!("{cause} {} (+{})", count_text(packets), count_text(new))
            })
            .collect();
        causes.join(", ")
    }
}

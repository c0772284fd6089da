//! The short report: packets received, kept and lost, the causes, and the traffic rate. `-v` prints
//! the [`ledger`] instead.

use std::fmt::Write;

use burstline_engine::Report;

use super::ledger::{self, lower_first};
use super::{Findings, test};
use crate::foreign::one_line;
use crate::words::{bytes_text, count_text, packets_text, rate_text};

/// A job in short form.
pub(super) struct Summary<'a> {
    pub(super) command: &'static str,
    pub(super) report: &'a Report,
    pub(super) findings: &'a Findings,
    /// The sink, if there is exactly one.
    pub(super) sink: Option<&'a str>,
}

impl Summary<'_> {
    /// Returns the lines except the last one.
    pub(super) fn text(&self) -> String {
        let report = self.report;
        let mut text = String::new();
        self.counts(&mut text);
        if let Some(flows) = &report.flows {
            text += &super::flows::text(flows);
        }
        if let Some(balance) = &report.balance {
            super::balance::text(&mut text, balance);
        }
        if let Some(flight) = &report.flight {
            ledger::past(&mut text, flight);
        }
        if let Some(merge) = report.merge.as_ref().filter(|merge| merge.late > 0) {
            text += &super::merge::text(merge);
        }
        if let Some(published) = &report.published {
            ledger::readers(&mut text, published);
        }
        text += &test::text(self.findings, false);
        // Writing to a string cannot fail, here and below.
        for note in report.notes.iter().filter(|note| !report.hints.contains(note)) {
            let _ = writeln!(text, "note     {}", one_line(note));
        }
        text
    }

    /// Returns the verbs for packets as they enter the job, and as they leave it.
    fn verbs(&self) -> [&'static str; 2] {
        match self.command {
            "count" => ["received", "counted"],
            "capture" => ["received", "captured"],
            "merge" => ["received", "merged"],
            "flows" => ["received", "seen"],
            "bounce" => ["received", "forwarded"],
            "balance" => ["received", "balanced"],
            "replay" => ["read", "sent"],
            _ => ["made", "sent"],
        }
    }

    fn counts(&self, text: &mut String) {
        let (total, ports) = (&self.report.total, &self.report.ports);
        let from = match &ports[..] {
            [only] => format!(" from {}", one_line(&only.port)),
            _ => String::new(),
        };
        let [first, last] = self.verbs();
        let _ = writeln!(text, "{first:<8} {}{from}", packets_text(total.offered));
        for port in ports.iter().filter(|_| ports.len() > 1) {
            let (offered, name) = (count_text(port.offered), one_line(&port.port));
            let lost = match port.lost.missing() {
                0 => String::new(),
                lost => format!(", {} dropped", count_text(lost)),
            };
            let _ = writeln!(text, "         {offered} from {name}{lost}");
        }
        let sink = self.sink.map(|sink| format!(" to {}", one_line(sink))).unwrap_or_default();
        let (delivered, bytes) = (packets_text(total.delivered), bytes_text(total.bytes));
        let _ = writeln!(text, "{last:<8} {delivered}, {bytes}{sink}");
        for (cause, packets) in total.lost.iter().filter(|&(_, packets)| packets > 0) {
            let (packets, help) = (count_text(packets), lower_first(cause.help()));
            let _ = match cause.is_choice() {
                true => writeln!(text, "left out {packets} {cause}: {help} (not a loss)"),
                false => writeln!(text, "dropped  {packets} {cause}: {help}"),
            };
        }
        if total.in_flight > 0 {
            let _ = writeln!(text, "waiting  {} at the end", packets_text(total.in_flight));
        }
        ledger::incomplete(text, total);
        self.traffic(text);
    }

    /// Appends the traffic rate, by the packets' timestamps, or by the job's time if they have
    /// none. Nothing if there are no two different timestamps.
    fn traffic(&self, text: &mut String) {
        let (total, job_ns) = (&self.report.total, self.report.elapsed_ns);
        let times = self.report.packet_times_ns;
        let span_ns = times.map_or(job_ns, |(first, last)| last.saturating_sub(first));
        if span_ns == 0 || total.delivered < 2 {
            return;
        }
        let seconds = span_ns as f64 / 1e9;
        let packets = rate_text(total.delivered as f64 / seconds, "pps");
        let bits = rate_text(total.wire_bytes as f64 * 8.0 / seconds, "bit/s");
        let _ = writeln!(text, "traffic  {packets}, {bits} over {seconds:.3} s");
    }
}

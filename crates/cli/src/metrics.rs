//! The answer to `--metrics`: a running job's counters as OpenMetrics text.
//!
//! ```text
//!   Progress ──► Live ──► text(): families, one line per label set
//!                           ▲
//!  Prometheus ──GET /metrics┘ by `serving`
//! ```
//!
//! The job's threads are not involved: they store the counters that `--stats` shows. Causes of
//! losses and their help texts come from the table of losses. Every cause has a line per place from
//! the start, so that a rate can be computed before the first loss.
//!
//! Source of the format: OpenMetrics 1.0, <https://openmetrics.io>.

mod joined;
mod parts;

use std::borrow::Cow;
use std::fmt;

use burstline_engine::{Counts, Place};
use burstline_port::Loss;
use burstline_sys::usage;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::foreign::one_line;
use crate::live::Live;
pub(crate) use joined::{Answer, END, JOB, joined};

/// A snapshot to encode; the registry takes ownership of it.
#[derive(Debug)]
struct Moment(Live);

/// Returns all families and the end marker. Names are as on a terminal: what one obeys is written
/// out, and the encoder doubles the backslash of that.
pub(crate) fn text(mut live: Live) -> String {
    for name in live.names() {
        if let Cow::Owned(safe) = one_line(name) {
            *name = safe;
        }
    }
    encoded(Moment(live))
}

/// Encodes the families of a collector as text.
pub(crate) fn encoded(collector: impl Collector) -> String {
    let mut registry = Registry::with_prefix("burstline");
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    // It fails only if writing to the string fails, which never happens.
    let _ = encode(&mut text, &registry);
    text
}

/// A family of counters, per source or per worker.
struct Family {
    name: &'static str,
    of_sources: bool,
    help: &'static str,
    count: fn(&Counts) -> u64,
}

const KEPT: &str = "Bytes kept of these packets, without FCS";

const FAMILIES: [Family; 5] = [
    Family {
        name: "received_packets",
        of_sources: true,
        help: "Packets that a source has delivered",
        count: |counts| counts.packets,
    },
    Family { name: "received_bytes", of_sources: true, help: KEPT, count: |counts| counts.bytes },
    Family {
        name: "received_wire_bytes",
        of_sources: true,
        help: "Bytes of these packets on the wire, without FCS",
        count: |counts| counts.wire_bytes,
    },
    Family {
        name: "delivered_packets",
        of_sources: false,
        help: "Packets that a worker has handed to its sink, or that a switch's port has sent",
        count: |counts| counts.packets,
    },
    Family { name: "delivered_bytes", of_sources: false, help: KEPT, count: |counts| counts.bytes },
];

impl Collector for Moment {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.build(&mut encoder)?;
        for family in &FAMILIES {
            self.places(&mut encoder, family)?;
        }
        self.losses(&mut encoder)?;
        self.log(&mut encoder)?;
        parts::encode(&self.0, &mut encoder)?;
        self.process(&mut encoder)
    }
}

impl Moment {
    fn build(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The program, and the verb that it runs";
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("verb", self.0.about.command)];
        encoder.encode_descriptor("build", help, None, MetricType::Info)?.encode_info(&labels)?;
        let help = "When the job began, in seconds since 1970";
        gauge(encoder, "start_time_seconds", help, self.0.about.begun_s)?;
        let help =
            "Whether the job's threads run: 0 while ports are opened and memory is allocated";
        gauge(encoder, "started", help, f64::from(u8::from(self.0.whole.is_started)))
    }

    fn places(&self, encoder: &mut DescriptorEncoder<'_>, family: &Family) -> fmt::Result {
        let mut lines = counters(encoder, family.name, family.help)?;
        for place in self.0.places.iter().filter(|place| place.is_source == family.of_sources) {
            let number = place.number.to_string();
            let labels = [who(place), ("number", &number)];
            lines.encode_family(&labels)?.count(&(family.count)(&place.counts))?;
        }
        Ok(())
    }

    fn losses(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Packets not delivered, by cause; kind choice was left out on request";
        let mut lines = counters(encoder, "lost_packets", help)?;
        for place in &self.0.places {
            let number = place.number.to_string();
            for cause in Loss::ALL {
                let labels = [
                    who(place),
                    ("number", &number),
                    ("cause", cause.name()),
                    ("kind", cause.kind().name()),
                ];
                lines.encode_family(&labels)?.count(&place.lost.of(*cause))?;
            }
        }
        Ok(())
    }

    fn log(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let whole = &self.0.whole;
        gauge(encoder, "log_bytes", "Packet memory of the job's logs", whole.log_bytes as f64)?;
        counters(encoder, "log_segments", "Segments of logs begun")?.count(&whole.segments)?;
        if let Some(kept_ns) = whole.kept_ns {
            let help = "Age of the oldest packet that --keep holds in memory";
            gauge(encoder, "kept_seconds", help, kept_ns as f64 / 1e9)?;
            let help = "Files that triggers began";
            counters(encoder, "triggered_files", help)?.count(&whole.files)?;
        }
        Ok(())
    }

    fn process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let used = usage::process();
        let seconds = (used.user_ns + used.system_ns) as f64 / 1e9;
        counters(encoder, "cpu_seconds", "Processor time of all threads")?.count(&seconds)?;
        // No line if the kernel does not report it.
        let Some(bytes) = self.0.resident_bytes else { return Ok(()) };
        let help = "Memory of the program that is in RAM";
        gauge(encoder, "resident_bytes", help, bytes as f64)
    }
}

/// Returns the label of a place. Queues of one interface share a name and differ in number.
fn who(place: &Place) -> (&'static str, &str) {
    (if place.is_source { "source" } else { "worker" }, &place.name)
}

fn counters<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    name: &'e str,
    help: &str,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// A counter without an exemplar.
pub(crate) trait Count {
    fn count(&mut self, value: &impl EncodeCounterValue) -> fmt::Result;
}

impl Count for MetricEncoder<'_> {
    fn count(&mut self, value: &impl EncodeCounterValue) -> fmt::Result {
        self.encode_counter::<NoLabelSet, _, f64>(value, None)
    }
}

#[cfg(test)]
mod tests {
    use burstline_engine::Progress;

    use super::*;
    use crate::live::About;

    #[test]
    fn each_cause_of_each_place_has_a_line_and_names_are_escaped() {
        let progress = Progress::new(2).named(["a\"b\n\u{9b}".to_owned(), "lo".to_owned()]);
        let mut about = About::new("count", None);
        about.begun_s = 1.5;
        let text = text(Live::of(&about, &progress));
        assert!(text.ends_with("# EOF\n"), "{text}");
        let lost = text.lines().filter(|line| line.starts_with("burstline_lost_packets_total{"));
        assert_eq!(lost.count(), 3 * Loss::ALL.len());
        for line in [
            "burstline_build_info{version=\"0.1.0\",verb=\"count\"} 1",
            "burstline_start_time_seconds 1.5",
            "burstline_received_packets_total{source=\"a\\\"b\\\\u000a\\\\u009b\",number=\"0\"} 0",
            "burstline_lost_packets_total{source=\"lo\",number=\"1\",cause=\"log_full\",\
             kind=\"miss\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = name.trim_end_matches("_total").trim_end_matches("_info");
            assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
        }
    }
}

//! Metric families for the parts of a job: ports, threads, logs and their readers.
//!
//! Each family is a row of a table: its name, its help text, and the function that returns its
//! lines.

use std::fmt;

use burstline_engine::{AGE_BOUNDS, AgesNow, Place, StageNow, Standing};
use burstline_log::OwnReader;
use burstline_port::RingFill;
use burstline_share::ReaderStatus;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::Count;
use crate::live::{Live, log_percent};

/// The labels of a line.
type Labels = Vec<(&'static str, String)>;

/// The lines of a family.
type Lines = Vec<(Labels, Number)>;

/// A value.
enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    fn encode(self, kind: MetricType, line: &mut MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (MetricType::Counter, Self::Whole(count)) => line.count(&count),
            (MetricType::Counter, Self::Real(count)) => line.count(&count),
            (_, Self::Whole(value)) => line.encode_gauge(&(value as f64)),
            (_, Self::Real(value)) => line.encode_gauge(&value),
        }
    }
}

/// One family: a counter or a gauge.
struct Part {
    name: &'static str,
    kind: MetricType,
    help: &'static str,
    lines: fn(&Live) -> Lines,
}

const fn counter(name: &'static str, help: &'static str, lines: fn(&Live) -> Lines) -> Part {
    Part { name, kind: MetricType::Counter, help, lines }
}

const fn gauge(name: &'static str, help: &'static str, lines: fn(&Live) -> Lines) -> Part {
    Part { name, kind: MetricType::Gauge, help, lines }
}

const PARTS: [Part; 27] = [
    counter("offered_packets", "Packets that reached a source, as its own counter says", |live| {
        of_sources(live, |standing| Number::Whole(standing.offered))
    }),
    gauge("in_flight_packets", "Received by a source, neither delivered nor lost yet", |live| {
        of_sources(live, |standing| Number::Whole(standing.in_flight))
    }),
    gauge(
        "unaccounted_packets",
        "Offered minus delivered, lost and in flight; anything but 0 is an error",
        |live| of_sources(live, |standing| Number::Real(standing.unaccounted as f64)),
    ),
    gauge("ring_bytes", "Size of the queue in front of a source; 0 if there is none", |live| {
        of_sources(live, |standing| Number::Whole(standing.ring_bytes))
    }),
    gauge(
        "ring_filled_entries",
        "Entries in a ring of a source: packets that wait, or room for some in a fill ring",
        |live| of_rings(live, |ring| ring.filled),
    ),
    gauge("ring_entries", "Entries that a ring of a source has room for", |live| {
        of_rings(live, |ring| ring.size)
    }),
    counter("stage_cpu_seconds", "Processor time of a thread", |live| {
        of_stages(live, |stage| seconds(stage.cpu_ns))
    }),
    counter("stage_busy_seconds", "Time of a thread's polls that found packets", |live| {
        of_stages(live, |stage| seconds(stage.busy_ns))
    }),
    counter("stage_empty_seconds", "Time of a thread's polls that found nothing", |live| {
        of_stages(live, |stage| seconds(stage.empty_ns))
    }),
    counter("stage_sleeps", "How often a thread slept", |live| {
        of_stages(live, |stage| Number::Whole(stage.sleeps))
    }),
    counter("stage_wakes", "Sleeps of a thread that ended because there was work", |live| {
        of_stages(live, |stage| Number::Whole(stage.wakes))
    }),
    gauge("stage_core", "The core that a thread is pinned to; no line where it is not", |live| {
        let pinned = live.stages.iter().enumerate();
        let line = |(number, stage): (usize, &StageNow)| {
            let core = stage.place.pinned_to?;
            Some((stage_labels(number, stage), Number::Whole(core.0.into())))
        };
        pinned.filter_map(line).collect()
    }),
    counter("log_packets", "Packets published in a log", |live| {
        of_logs(live, |log| Number::Whole(log.packets))
    }),
    counter("log_begun_segments", "Segments of a log begun", |live| {
        of_logs(live, |log| Number::Whole(log.segments))
    }),
    counter("log_far_segments", "Segments of a log whose packets went past the caches", |live| {
        of_logs(live, |log| Number::Whole(log.far_segments))
    }),
    gauge(
        "log_held_segments",
        "Segments of a log that can be read: a reader has yet to pass them, or they are kept",
        |live| of_logs(live, |log| Number::Whole(log.held_segments)),
    ),
    gauge("log_pool_segments", "Segments that a log has", |live| {
        of_logs(live, |log| Number::Whole(log.pool_segments as u64))
    }),
    gauge("log_segment_bytes", "Size of a segment of a log", |live| {
        of_logs(live, |log| Number::Whole(log.segment_bytes as u64))
    }),
    gauge(
        "log_own_lag_packets",
        "Packets published that a thread of the job has yet to read",
        own_lags,
    ),
    gauge("log_seats_taken", "Readers of a log, the job's own threads included", |live| {
        of_logs(live, |log| Number::Whole(log.readers as u64))
    }),
    gauge(
        "log_fill_ratio",
        "Share of the logs that the job's own threads have yet to read",
        |live| {
            let is_meant = live.whole.log_bytes > 0 && live.whole.kept_ns.is_none();
            let fill = is_meant.then(|| Number::Real(log_percent(&live.whole) / 100.0));
            fill.into_iter().map(|fill| (Labels::new(), fill)).collect()
        },
    ),
    gauge("readers", "Readers in other programs, one line per name", |live| {
        let published = live.published.iter();
        let line = |report: &burstline_engine::PublishedReport| {
            let labels = vec![("name", report.name.clone())];
            (labels, Number::Whole(report.there.len() as u64))
        };
        published.map(line).collect()
    }),
    counter("reader_packets", "Packets that a reader has read, by its own count", |live| {
        of_readers(live, |reader| reader.delivered)
    }),
    counter("reader_missed_packets", "Packets overwritten before a reader read them", |live| {
        of_readers(live, |reader| reader.missed)
    }),
    gauge("reader_lag_packets", "Packets published that a reader has yet to read", |live| {
        of_readers(live, |reader| reader.lag_packets)
    }),
    gauge("reader_held_segments", "Segments that a reader holds", |live| {
        of_readers(live, |reader| reader.held_segments.into())
    }),
    gauge("rho", "Percent of a core for each Gbit/s of line rate, from 10 Mbit/s on", |live| {
        live.rho().map(|rho| (Labels::new(), Number::Real(rho))).into_iter().collect()
    }),
];

fn seconds(ns: u64) -> Number {
    Number::Real(ns as f64 / 1e9)
}

fn of_sources(live: &Live, count: fn(&Standing) -> Number) -> Lines {
    let line = |place: &Place| {
        let labels = vec![("source", place.name.clone()), ("number", place.number.to_string())];
        (labels, count(&place.standing))
    };
    live.places(true).map(line).collect()
}

/// Returns a line for each ring that a source reports.
fn of_rings(live: &Live, count: fn(&RingFill) -> u64) -> Lines {
    let line = |place: &Place, ring: &RingFill| {
        let labels = vec![
            ("source", place.name.clone()),
            ("number", place.number.to_string()),
            ("ring", ring.ring.name().to_owned()),
            ("unit", ring.unit.to_owned()),
        ];
        (labels, Number::Whole(count(ring)))
    };
    let places = live.places(true);
    places
        .flat_map(|place| place.standing.rings.iter().map(move |ring| line(place, ring)))
        .collect()
}

fn stage_labels(number: usize, stage: &StageNow) -> Labels {
    vec![("stage", stage.place.name.clone()), ("number", number.to_string())]
}

fn of_stages(live: &Live, count: fn(&StageNow) -> Number) -> Lines {
    let stages = live.stages.iter().enumerate();
    stages.map(|(number, stage)| (stage_labels(number, stage), count(stage))).collect()
}

fn of_logs(live: &Live, count: fn(&burstline_engine::LogNow) -> Number) -> Lines {
    let logs = live.logs.iter().enumerate();
    logs.map(|(number, log)| (vec![("log", number.to_string())], count(log))).collect()
}

/// Returns a line for each seat of the job's own threads.
fn own_lags(live: &Live) -> Lines {
    let line = |log: usize, reader: &OwnReader| {
        let labels = vec![("log", log.to_string()), ("seat", reader.seat.to_string())];
        (labels, Number::Whole(reader.lag_packets))
    };
    let logs = live.logs.iter().enumerate();
    logs.flat_map(|(number, log)| log.own.iter().map(move |reader| line(number, reader))).collect()
}

/// Returns a line for each seat that is taken now. Readers that have left have no line.
fn of_readers(live: &Live, count: fn(&ReaderStatus) -> u64) -> Lines {
    let line = |reader: &ReaderStatus| {
        let labels = vec![
            ("log", reader.log.to_string()),
            ("seat", reader.seat.to_string()),
            ("pid", reader.pid.to_string()),
            ("command", reader.command.clone()),
        ];
        (labels, Number::Whole(count(reader)))
    };
    live.published.iter().flat_map(|report| &report.there).map(line).collect()
}

/// Encodes all families.
pub(super) fn encode(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for Part { name, kind, help, lines } in &PARTS {
        let mut family = encoder.encode_descriptor(name, help, None, *kind)?;
        for (labels, number) in lines(live) {
            match labels.is_empty() {
                true => number.encode(*kind, &mut family)?,
                false => number.encode(*kind, &mut family.encode_family(&labels)?)?,
            }
        }
    }
    ages(live, encoder)
}

/// Encodes the age of packets when a thread hands them on.
fn ages(live: &Live, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Age of a thread's newest packet, ten times a second while there are packets";
    let kind = MetricType::Histogram;
    let mut family = encoder.encode_descriptor("packet_age_seconds", help, None, kind)?;
    for (number, stage) in live.stages.iter().enumerate() {
        let AgesNow { counts, sum_ns, .. } = stage.ages;
        let bound = |index| match index {
            AGE_BOUNDS => f64::INFINITY,
            _ => AgesNow::bound_ns(index) as f64 / 1e9,
        };
        let buckets: Vec<(f64, u64)> =
            counts.iter().enumerate().map(|(index, &count)| (bound(index), count)).collect();
        let labels = stage_labels(number, stage);
        let mut line = family.encode_family(&labels)?;
        let (sum, total) = (sum_ns as f64 / 1e9, stage.ages.total());
        line.encode_histogram::<NoLabelSet>(sum, total, &buckets, None)?;
    }
    Ok(())
}

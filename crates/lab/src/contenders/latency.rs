//! How long packets take through what passes them on.
//!
//! ```text
//!   near host   generate -> v0                     w0 -> count --verify
//!                            \                    /
//!   far host                  v1: contender: w1 -'
//! ```
//!
//! Packets carry the time when they were due, so that a late sender does not flatter anybody. Who
//! sends and who looks share the generator's core, and are this program, whoever the contender is.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::core::Watch;
use super::live::{Live, counted, events};
use super::{Job, Sample};
use crate::distribution::Distribution;
use crate::live::{Contender, Road};
use crate::programs::{Ours, Ready, Report, Words};
use crate::scenario::Rate;

/// How much longer than it was told to a sender may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The figures of a record, and the percentiles that they are.
const FIGURES: [(&str, &str); 4] = [
    ("latency_p50_us", "p50"),
    ("latency_p90_us", "p90"),
    ("latency_p99_us", "p99"),
    ("latency_p999_us", "p99.9"),
];

/// Sends through a contender, and times.
///
/// # Errors
/// It does not start, or nothing comes through.
pub(super) fn measure(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let start = Instant::now();
    let running = live.start(job, road)?;
    let ready = start.elapsed();
    let core = job.places.generator.to_string();
    let count = Ours::new(job.program, "count 'xdp:w0?frames=16384' --verify");
    let count = Contender::start_near(road, &core, &count, job.stop)?;
    let watch = Watch::start(&counted(job))?;
    let began = Instant::now();
    let sender = Contender::start_near(road, &core, &sender(job), job.stop)?;
    let sent = sender.wait(job.time + PATIENCE, job.stop)?;
    let seconds = began.elapsed().as_secs_f64();
    let seen = watch.seen()?;
    let (had, _) = count.end()?;
    let own = running.end(0)?;
    let mut sample = sample(&Report::last(&sent)?, &Report::last(&had)?)?;
    sample.pages = own.pages;
    sample.set("ready_s", "s", ready.as_secs_f64());
    sample.set("cpu_percent", "% of a core", 100.0 * seen.time.busy() / seconds);
    let delivered = sample.figures.get("packets").map_or(0.0, |packets| packets.value);
    events(&seen, delivered, &mut sample);
    sample.symbols = seen.symbols;
    Ok(sample)
}

/// What sends.
fn sender(job: &Job<'_>) -> Words {
    let (program, size) = (job.program.display(), job.size_bytes);
    let rate = match job.rate {
        Rate::Max => String::new(),
        Rate::PerSecond(packets) => format!(" --rate {packets}"),
    };
    let amount = match job.packets {
        Some(packets) => format!(" --packets {packets}"),
        None => format!(" --duration {}ms", job.time.as_millis()),
    };
    let command = format!("'{program}' generate -o xdp:v0 --size {size}{rate}{amount} --json");
    Words { command, ready: Ready::at_once() }
}

fn sample(sent: &Value, had: &Value) -> Result<Sample, String> {
    let verify = &had["verify"];
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let (sent_packets, unique) = (number(&sent["total"]["delivered"]), number(&verify["unique"]));
    if unique == 0.0 {
        return Err(format!("none of {sent_packets} packets came through"));
    }
    let mut sample = Sample::default();
    let latency = &verify["latency_ns"];
    for (name, percentile) in FIGURES {
        sample.set(name, "us", number(&latency["percentiles"][percentile]) / 1e3);
    }
    sample.set("latency_max_us", "us", number(&latency["max"]) / 1e3);
    let buckets = latency["buckets"].as_array().into_iter().flatten();
    let bucket = |bucket: &Value| Some((bucket[0].as_f64()? / 1e3, bucket[1].as_u64()?));
    let distribution = Distribution::new("us", buckets.filter_map(bucket));
    sample.distributions.insert("latency_us", distribution);
    sample.set("packets", "packets", unique);
    sample.set("lost", "packets", (sent_packets - unique).max(0.0));
    for key in ["duplicates", "reordered", "corrupted"] {
        let packets = verify[key].as_u64().unwrap_or_default();
        if packets > 0 {
            sample.losses.insert(key.to_owned(), packets);
        }
    }
    sample.offered_pps = sent["generate"]["reached_pps"].as_f64();
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_losses_are_those_of_the_reports() {
        let sent = "{\"interval\":1}\n{\"total\":{\"delivered\":100},\"generate\":\
            {\"reached_pps\":1e4}}";
        let had = "{\"verify\":{\"unique\":98,\"duplicates\":0,\"reordered\":3,\"latency_ns\":\
            {\"max\":9000,\"percentiles\":\
            {\"p50\":1500,\"p90\":2000,\"p99\":3000,\"p99.9\":4000},\
            \"buckets\":[[1503,60],[2047,30],[9215,8]]}}}";
        let sample = sample(&Report::last(sent).unwrap(), &Report::last(had).unwrap()).unwrap();
        let value = |name: &str| sample.figures[name].value;
        assert_eq!((value("latency_p50_us"), value("latency_p999_us")), (1.5, 4.0));
        assert_eq!((value("latency_max_us"), value("packets"), value("lost")), (9.0, 98.0, 2.0));
        assert_eq!(sample.losses, [("reordered".to_owned(), 3)].into());
        assert_eq!(sample.offered_pps, Some(1e4));
        let latency = &sample.distributions["latency_us"];
        assert_eq!((latency.count(), latency.at(0.5)), (98, Some(1.503)));
    }

    #[test]
    fn without_packets_or_a_report_it_fails() {
        let nothing = Value::Null;
        assert_eq!(sample(&nothing, &nothing).unwrap_err(), "none of 0 packets came through");
    }
}

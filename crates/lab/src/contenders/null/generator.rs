//! `gen:` into a log that fits into the cache and has no reader.

use burstline_log::{Log, LogConfig};
use burstline_sys::clock;

use crate::contenders::{self, Adapter, Job, Sample, timed};
use crate::contest::go_on;
use crate::ours::SEGMENT_BYTES;
use crate::pages;
use crate::scenario::Work;

/// Packets per call of the port; they are published after it.
const BURST: u64 = 256;

/// Packets between two readings of the clock.
const PACKETS: u64 = 1 << 16;

const LOG_BYTES: usize = 32 * SEGMENT_BYTES;

/// Our generator; the case is the number of flows. Every packet has a mark with sequence, time and
/// check, and a UDP checksum over it. With several flows, 5-tuples are drawn at random.
pub(crate) struct Generator;

impl Adapter for Generator {
    fn name(&self) -> &'static str {
        "burstline-gen"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Make]
    }

    fn version(&self) -> String {
        contenders::own_version()
    }

    fn has_start(&self, _: Work) -> bool {
        false
    }

    fn command(&self, job: &Job<'_>) -> String {
        let flows = job.case.unwrap_or("1");
        format!("gen:?flows={flows}&size={}", job.size_bytes)
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        timed::pin(job)?;
        let (log, mut writer) = pages::with_best(LOG_BYTES, |pages| {
            Log::create(LogConfig { bytes: LOG_BYTES, pages, ..LogConfig::default() })
        })
        .map_err(|error| error.to_string())?;
        let mut port = contenders::open(&self.command(job))?;
        let (mut packets, mut spent_ns) = (0, 0);
        while job.goes_on(packets as usize, spent_ns) {
            go_on(job.stop)?;
            let start_ns = clock::monotonic_ns();
            let mut left = PACKETS;
            while left > 0 {
                let received = port.receive(&mut writer, left.min(BURST));
                left -= received.map_err(|error| error.to_string())?.packets;
                writer.publish();
            }
            spent_ns += clock::monotonic_ns() - start_ns;
            packets += PACKETS;
        }
        let written = writer.statistics();
        if written.packets != packets {
            return Err(format!("{} of {packets} packets are in the log", written.packets));
        }
        let mut sample = super::rates(job, packets as f64 * 1e3 / spent_ns as f64);
        sample.set("log_segments", "segments used", f64::from(written.segments_high_water));
        sample.lies_in(log.placement().page);
        Ok(sample)
    }
}

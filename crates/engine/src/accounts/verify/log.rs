//! Writes latencies as a log that HdrHistogram's tools read.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::Verifier;

impl Verifier {
    /// Writes latencies in ns as an HdrHistogram log of format 1.3. It has a V2 histogram of all
    /// packets, and one for each timed flow, with the tag `RUN.FLOW`.
    ///
    /// # Errors
    /// Returns the writer's errors.
    pub fn write_latency_log(
        &self,
        to: &mut impl Write,
        started: SystemTime,
        elapsed: Duration,
    ) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("burstline count --verify: latency in ns").with_start_time(started);
        let mut log = builder.begin_log_with(to, &mut serializer)?;
        let fail = |error: &dyn std::fmt::Debug| io::Error::other(format!("{error:?}"));
        log.write_histogram(&self.latency, Duration::ZERO, elapsed, None)
            .map_err(|error| fail(&error))?;
        for flow in &self.flows {
            let Some(latency) = &flow.latency else { continue };
            let tag = format!("{}.{}", flow.stream.run(), flow.stream.flow());
            log.write_histogram(latency, Duration::ZERO, elapsed, Tag::new(&tag))
                .map_err(|error| fail(&error))?;
        }
        Ok(())
    }
}

//! Converts the result of a turn on an interface into metrics.

use std::time::Duration;

use burstline_wire::ethernet::{FCS_BYTES, GAP_BYTES};

use super::Own;
use crate::conditions::cycles_per_second;
use crate::contenders::core::Seen;
use crate::contenders::{Job, Sample};
use crate::perf::counters::Event;

/// Prefix of stages that the contender itself reports.
const OWN: &str = "own ";

/// Adds the counters' values per packet.
pub(crate) fn events(seen: &Seen, delivered: f64, sample: &mut Sample) {
    let of = |event| {
        let found = seen.events.iter().find(|(known, _)| *known == event);
        found.map(|&(_, count)| count as f64)
    };
    for event in Event::SOFTWARE {
        if let Some(count) = of(event) {
            sample.set(event.name(), "per million packets", count * 1e6 / delivered.max(1.0));
        }
    }
    for event in Event::HARDWARE {
        if let Some(count) = of(event) {
            sample.set(event.name(), "per packet", count / delivered.max(1.0));
        }
    }
    if let (Some(instructions), Some(cycles)) = (of(Event::Instructions), of(Event::Cycles)) {
        sample.set("ipc", "instructions per cycle", instructions / cycles.max(1.0));
    }
}

/// The result of one turn.
pub(crate) struct Measured {
    /// Time from the start until the measurement could begin.
    pub(crate) ready: Duration,
    /// How long packets arrived, in s, and how long its cores were watched.
    pub(crate) seconds: f64,
    pub(crate) watched: f64,
    pub(crate) seen: Seen,
    pub(crate) own: Own,
}

impl Measured {
    /// Returns the metrics that every live work has.
    pub(crate) fn sample(&self, job: &Job<'_>) -> Sample {
        let mut sample = Sample::default();
        let delivered = self.own.delivered as f64;
        let pps = delivered / self.seconds;
        let bits = |bytes: u32| pps * f64::from(bytes) * 8.0 / 1e9;
        let (l2, line) = (bits(job.size_bytes - FCS_BYTES), bits(job.size_bytes + GAP_BYTES));
        sample.set("ready_s", "s", self.ready.as_secs_f64());
        sample.set("packets", "packets", delivered);
        sample.set("mpps", "Mpps", pps / 1e6);
        sample.set_on("l2_gbps", "Gbit/s", "l2", l2);
        sample.set_on("line_gbps", "Gbit/s", "line", line);
        sample.set_on("line_percent", "%", "line", 100.0 * line / job.link_gbps);
        let percent = |seconds: f64| 100.0 * seconds / self.watched;
        let cpu_percent = percent(self.seen.time.busy());
        sample.set("cpu_percent", "% of a core", cpu_percent);
        let busy_s = self.seen.busy_of(&job.places.contender).max(f64::MIN_POSITIVE);
        sample.set("mpps_per_busy_s", "M/busy s", delivered / busy_s / 1e6);
        sample.set("cpu_ns", "ns per packet", self.seen.time.busy() * 1e9 / delivered.max(1.0));
        sample.set_on("rho", "% per Gbit/s", "line", cpu_percent / line.max(f64::MIN_POSITIVE));
        let millions = delivered.max(1.0) / 1e6;
        sample.set("interrupts", "per million packets", self.seen.interrupts as f64 / millions);
        sample.set("softirqs", "per million packets", self.seen.softirqs as f64 / millions);
        events(&self.seen, delivered, &mut sample);
        self.stages(&percent, line, job.work.comes_out(), &mut sample);
        sample.symbols.clone_from(&self.seen.symbols);
        sample.losses.clone_from(&self.own.losses);
        sample.pages = self.own.pages;
        sample.lost_each_second.clone_from(&self.own.lost_each_second);
        sample
    }

    /// Adds the stages: by the kernel's accounting, by samples, and, if available, the contender's
    /// own with the prefix `own`. If the time includes the generator's core (`is_of_both`), the
    /// rest is not idle time.
    fn stages(
        &self,
        percent: &impl Fn(f64) -> f64,
        line: f64,
        is_of_both: bool,
        sample: &mut Sample,
    ) {
        let time = self.seen.time;
        for (name, seconds) in
            [("user", time.user), ("system", time.system), ("interrupts", time.interrupts)]
        {
            sample.stages.push((name.to_owned(), percent(seconds)));
        }
        let mut idle = None;
        if !self.own.busy.is_empty() {
            let busy: f64 = self.own.busy.iter().map(|(_, seconds)| seconds).sum();
            // Other load on the core is assumed to slow busy and idle polls alike.
            idle = (!is_of_both).then(|| (1.0 - busy / time.busy().max(0.01)).clamp(0.0, 1.0));
            let rho = percent(busy) / line.max(f64::MIN_POSITIVE);
            sample.set_on("rho_busy", "% per Gbit/s", "line", rho);
            let cycles = busy * cycles_per_second() / self.own.delivered.max(1) as f64;
            sample.set("busy_cycles", "cycles of the time stamp counter per packet", cycles);
        }
        sample.stages.extend(self.seen.stages(idle));
        let own = self.own.busy.iter().map(|(name, seconds)| (name, percent(*seconds)));
        sample.stages.extend(own.map(|(name, share)| (format!("{OWN}{name}"), share)));
    }

    /// Adds the metrics of injected packets.
    pub(crate) fn offered(&self, offered: u64, sample: &mut Sample) {
        let pps = offered as f64 / self.seconds;
        sample.offered_pps = Some(pps);
        sample.set("offered_mpps", "Mpps", pps / 1e6);
        self.own.enter_losses(offered, sample);
        if let Some(ns) = self.own.process_ns {
            sample.set("process_ns", "ns per packet offered", ns as f64 / offered.max(1) as f64);
        }
    }
}

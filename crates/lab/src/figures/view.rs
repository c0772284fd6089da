//! Figures that are a point of a scenario: two of its contenders take turns. The same code measures
//! a figure and a scenario's record.
//!
//! ```text
//!   Entry: scenario, size, rate, case --> Job --> ours | rival in turns --> one metric of both
//! ```

use std::path::PathBuf;
use std::time::Duration;

use super::Context;
use super::entry::{Entry, Shown};
use crate::compared::{Compared, Outcome, Side, values_of};
use crate::conditions::Conditions;
use crate::contenders::{self, Adapter, Job, ROUND_PACKETS, Sample, Searches};
use crate::contest::{Rounds, alternate_all};
use crate::instructions;
use crate::live::interfaces;
use crate::programs::our_program;
use crate::scenario::{Places, Rate, Scenario, Work, built_in};
use crate::statistics::Quartiles;
use crate::threads::Cores;

/// Length of a live turn, and of a smoke run's.
const LIVE: Duration = Duration::from_secs(2);
const SMOKE: Duration = Duration::from_millis(500);

/// Packets of a smoke run's turn.
const SMOKE_PACKETS: u64 = 4096;

/// The outcome of a point: samples of ours and the rival, and of further contenders.
struct Turns {
    rounds: Rounds<Sample>,
    beside: Vec<Vec<Sample>>,
}

/// Runs both contenders in turns.
pub(super) fn measure(context: &Context, figure: &'static Entry) -> Result<Outcome, String> {
    let scenario = figure.scenario();
    for contender in figure.contenders() {
        if let Err(why) = contenders::can_do(contender, scenario.work) {
            contender.has_parts()?;
            return Ok(Outcome::NotHere(why));
        }
    }
    // In memory no program is started.
    let program = if scenario.work.is_live() { our_program()? } else { PathBuf::new() };
    let searches = Searches::default();
    let job = figure.job(context, &scenario, &program, &searches);
    let conditions = Conditions::watch(context.cores);
    let turns = figure.turns(context, &job)?;
    let mut more = Vec::new();
    for (size_bytes, case) in &figure.more {
        let job = Job { size_bytes: *size_bytes, case: Some(case), ..job.clone() };
        let turns = figure.turns(context, &job)?;
        more.push(format!("at {size_bytes} bytes, {case}: {}", figure.medians(&turns)));
    }
    turns.rounds.have_pages()?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = figure.about(&job);
    let sides = [("ours", &turns.rounds.ours), ("peer", &turns.rounds.peer)];
    let used = |samples: &[Sample]| samples.iter().find_map(|sample| sample.pages);
    let used = sides.iter().filter_map(|(side, of)| Some(format!("{side}: {}", used(of)?)));
    details.extend(used);
    if !figure.beside.is_empty() {
        details.push(figure.medians(&turns));
    }
    details.extend(more);
    details.extend(figure.limit(&turns.rounds));
    details.extend(figure.instructions());
    if job.work == Work::Null {
        details.extend(contenders::about_programs(&job)?);
    }
    details.extend(conditions.report());
    let Shown { name, better, .. } = figure.metric.shown();
    let mut compared = Compared::of_samples(name, better, turns.rounds, details);
    let beside = figure.beside.iter().zip(turns.beside);
    let beside = beside.map(|(contender, samples)| {
        let pages = Sample::page_kinds(samples.iter());
        Side { contender, samples, pages }
    });
    compared.sides.extend(beside);
    Ok(Outcome::Measured(compared))
}

impl Entry {
    fn scenario(&self) -> Scenario {
        let found = built_in().into_iter().find(|own| Some(&own.name) == self.scenario.as_ref());
        found.expect("it is tested")
    }

    /// Returns ours, the rival and the further contenders.
    pub(super) fn contenders(&self) -> impl Iterator<Item = &'static dyn Adapter> {
        let names = [&self.ours, &self.other].into_iter().chain(&self.beside);
        names.map(|name| contenders::named(name).expect("it is tested"))
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate_pps.map_or(Rate::Max, Rate::PerSecond)
    }

    fn job<'a>(
        &'a self,
        context: &'a Context,
        scenario: &Scenario,
        program: &'a std::path::Path,
        searches: &'a Searches,
    ) -> Job<'a> {
        let full = self.full_seconds.filter(|_| context.full);
        let time = match full.unwrap_or(self.seconds) {
            _ if context.smoke => SMOKE,
            0 if scenario.work.is_live() => LIVE,
            0 => scenario.amounts.time,
            seconds => Duration::from_secs(seconds),
        };
        let Cores { producer: generator, consumer } = context.cores;
        let places = Places { generator, contender: vec![consumer] };
        Job {
            size_bytes: self.size_bytes,
            rate: self.rate(),
            case: self.case.as_deref(),
            comes_in: interfaces(scenario.ports),
            workers: scenario.workers,
            time,
            packets: context.smoke.then_some(SMOKE_PACKETS),
            link_gbps: scenario.link_gbps,
            program,
            ..Job::new(scenario.work, places, &context.stop, searches)
        }
    }

    fn turns(&self, context: &Context, job: &Job<'_>) -> Result<Turns, String> {
        let Shown { metric, name, unit, .. } = self.metric.shown();
        let turn = |contender: &'static dyn Adapter| {
            let mut sample = contenders::measure(contender, job)?;
            let value = sample.figures.get(metric).map(|of| of.value);
            let value = value.ok_or_else(|| format!("{} has no {metric}", contender.name()))?;
            sample.set(name, unit, value);
            Ok::<_, String>(sample)
        };
        let all: Vec<_> = self.contenders().collect();
        let runs = context.process_runs();
        let sides = alternate_all(runs, all.len(), &context.stop, |side| turn(all[side]))?;
        let mut sides = sides.into_iter();
        let mut next = || sides.next().unwrap_or_default();
        let rounds = Rounds { ours: next(), peer: next() };
        Ok(Turns { rounds, beside: sides.collect() })
    }

    /// Formats the metric of each contender.
    fn medians(&self, turns: &Turns) -> String {
        let Shown { name, unit, better, .. } = self.metric.shown();
        let median = |samples: &[Sample]| Quartiles::of(&values_of(samples, name)).median;
        let (ours, peer) = (median(&turns.rounds.ours), median(&turns.rounds.peer));
        let mut text =
            format!("ours {ours:.2} {unit}, peer {peer:.2}, ratio {:.2}", better.ratio(ours, peer));
        for (name, samples) in self.beside.iter().zip(&turns.beside) {
            text += &format!("; {name} {:.2}", median(samples));
        }
        text
    }

    /// Describes how to repeat it and what runs.
    fn about(&self, job: &Job<'_>) -> Vec<String> {
        let rate = self.rate_pps.map_or(String::new(), |pps| format!(" --rates {pps}"));
        let mut lines = vec![format!(
            "the point of `burstline lab run {} --sizes {}{rate} --contenders {},{}`{}",
            self.scenario.as_deref().unwrap_or_default(),
            self.size_bytes,
            self.ours,
            self.other,
            self.case.as_ref().map_or(String::new(), |case| format!(", case {case}")),
        )];
        let words = ["ours", "peer"].into_iter().chain(self.beside.iter().map(String::as_str));
        for (word, contender) in words.zip(self.contenders()) {
            lines.push(format!("{word}: {}", contender.command(job)));
            let tried = contenders::tried(contender.name(), job);
            lines.extend(tried.map(|tried| format!("{word}, settings tried, Mpps: {tried}")));
        }
        lines
    }

    /// Returns a caveat for runs in which frames arrived at the injector's top speed.
    fn limit(&self, rounds: &Rounds<Sample>) -> Option<String> {
        const FEW_PERCENT: f64 = 1.0;
        let has_all = |samples: &[Sample]| {
            let lost = |sample: &Sample| Some(sample.figures.get("lost_percent")?.value);
            let lost = samples.iter().map(lost).collect::<Option<Vec<f64>>>();
            lost.is_some_and(|lost| Quartiles::of(&lost).median < FEW_PERCENT)
        };
        let who = match (has_all(&rounds.ours), has_all(&rounds.peer)) {
            _ if self.rate_pps.is_some() => return None,
            (true, true) => "either side",
            (true, false) => "ours",
            (false, true) => "the peer",
            (false, false) => return None,
        };
        Some(format!(
            "doubt: {who} lost less than {FEW_PERCENT} %: the injector's core is the limit there, \
             and the side could take more"
        ))
    }

    fn instructions(&self) -> Option<String> {
        let of = |piece: &String| instructions::of_a_packet(piece, ROUND_PACKETS);
        let counts = self.counted.iter().map(of).collect::<Option<Vec<f64>>>();
        let Some(counts) = counts else { return Some(instructions::NOT_COUNTED.to_owned()) };
        let counts = ["ours", "peer"].iter().zip(counts);
        let counts: Vec<_> = counts.map(|(side, count)| format!("{side} {count:.0}")).collect();
        let text = format!("instructions a packet, in turns on one core: {}", counts.join(", "));
        (!self.counted.is_empty()).then_some(text)
    }
}

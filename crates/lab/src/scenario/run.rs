//! Runs a scenario: contenders in turns, point after point.

pub(crate) mod distance;
mod limit;
mod rows;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use distance::Look;
use limit::Limit;

pub use super::options::{Options, adjusted, check};
use super::points::{Point, words};
use super::{Begun, Places, Scenario, Work, doubts, machine, remote, simulate};
use crate::contenders::{self, Adapter, Job, Sample};
use crate::contest::Shuffle;
use crate::figures::sources_of_work;
use crate::live::{OUT, interfaces};
use crate::record::{ContenderInfo, Distance, Doubt, Interface, Record, program_sources};
use crate::remote::Remote;
use crate::rfc2544::Asked;

/// Prefix of the reason in a row whose contender failed.
pub const FAILED: &str = "it failed: ";

/// Suffix of the reason in a row whose turn was to come when the run ended.
pub const BEFORE: &str = " before";

/// The reason in a row that had no turn although the run went on.
pub const NO_TURN: &str = "it had no turn";

/// Why a contender does not run with a generator on another machine.
const NO_REMOTE: &str = "its generator cannot be on another machine: it would change this one's \
                         network, or makes frames itself";

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Turns done.
    pub done: usize,
    /// Turns in all.
    pub total: usize,
    /// Estimated time left, from the turns so far.
    pub left: Option<Duration>,
    /// The turn that starts.
    pub what: String,
}

/// A selected contender.
struct Entrant {
    adapter: &'static dyn Adapter,
    /// Why it does not run: text after "because".
    not_run: Option<String>,
    command: String,
}

/// The results of a contender at a point.
#[derive(Default)]
struct Cell {
    samples: Vec<Sample>,
    /// Why there are no more: text after "because".
    failed: Option<String>,
}

/// Runs a scenario until its end, the user's stop or its time limit. The record has what was done.
pub fn run(scenario: &Scenario, options: &Options, tell: &mut dyn FnMut(&Progress)) -> Record {
    let begun = Begun::now();
    let limit = Limit::new(&options.stop, options.budget);
    let scenario = adjusted(scenario, options);
    let mut run = Run::new(&scenario, options, &limit);
    run.all(tell);
    let rows = run.rows();
    let mut doubts = doubts::of_rows(&scenario, begun.machine(), &rows);
    let whole = begun.record(&scenario.name, &options.command);
    doubts.splice(0..0, whole.doubts.iter().cloned());
    doubts.append(&mut run.doubts);
    let info = |(number, entrant): (usize, &Entrant)| ContenderInfo {
        name: entrant.adapter.name().to_owned(),
        version: match entrant.not_run {
            None => entrant.adapter.version(),
            Some(_) => String::new(),
        },
        command: entrant.command.clone(),
        not_run: entrant.not_run.as_ref().map(|why| format!("because {why}")),
        role: contenders::role(entrant.adapter, scenario.work).map(str::to_owned),
        pages: run.samples(number).find_map(|sample| sample.pages),
        page_kinds: Sample::page_kinds(run.samples(number)),
    };
    let mut record = Record {
        title: scenario.title.clone(),
        document: scenario.document.clone(),
        about: scenario.about.clone(),
        seed: options.seed,
        is_quick: options.is_quick,
        sources: program_sources(&sources_of_work(scenario.work)),
        interfaces: run.interfaces(),
        generator: options.remote.as_ref().map(|remote| remote.describe()),
        contenders: run.entrants.iter().enumerate().map(info).collect(),
        chart: scenario.chart.clone(),
        rows,
        doubts,
        notes: [scenario.notes.clone(), run.sample_notes(), run.notes].concat(),
        ..whole
    };
    let doubts = remote::doubts(&record);
    record.doubts.extend(doubts);
    if options.is_simulated {
        simulate::add(&scenario, options, &mut record);
    }
    record
}

/// The turns of all points and contenders.
struct Run<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    points: Vec<Point>,
    /// The cores of each point, or why there are none.
    places: Vec<Result<Places, String>>,
    entrants: Vec<Entrant>,
    /// Results by point, then by entrant.
    cells: Vec<Vec<Cell>>,
    /// Distance of the cores, by point.
    distances: Vec<Option<Distance>>,
    doubts: Vec<Doubt>,
    notes: Vec<String>,
    limit: &'a Limit,
    /// Why it ended early.
    ended: Option<String>,
    began: Instant,
    done: usize,
    /// Turns left out to have time for other points.
    skipped: usize,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, options: &'a Options, limit: &'a Limit) -> Self {
        let points = Point::all(scenario);
        let find = |point: &Point| {
            let refused = point.size_bytes.and_then(|size| scenario.work.refuses(size));
            refused.map_or_else(|| point.placement.find(scenario.more_threads()), Err)
        };
        let places: Vec<_> = points.iter().map(find).collect();
        let adapters = scenario.contenders.iter().filter_map(|name| contenders::named(name));
        let not_run = |adapter: &dyn Adapter| match options.remote {
            Some(_) if !adapter.has_remote() => Some(NO_REMOTE.to_owned()),
            _ => contenders::can_do(adapter, scenario.work).err(),
        };
        let entrants = adapters.map(|adapter| Entrant {
            adapter,
            not_run: not_run(adapter),
            command: String::new(),
        });
        let entrants: Vec<_> = entrants.collect();
        let cells = points.iter().map(|_| entrants.iter().map(|_| Cell::default()).collect());
        Self {
            scenario,
            options,
            cells: cells.collect(),
            distances: vec![None; points.len()],
            points,
            places,
            entrants,
            doubts: Vec::new(),
            notes: Vec::new(),
            limit,
            ended: None,
            began: Instant::now(),
            done: 0,
            skipped: 0,
        }
    }

    fn all(&mut self, tell: &mut dyn FnMut(&Progress)) {
        self.began = Instant::now();
        self.note_places();
        let mut order = Shuffle(self.options.seed);
        for at in 0..self.points.len() {
            let Ok(places) = self.places[at].clone() else { continue };
            let is_here = self.options.remote.is_none();
            let before = is_here.then(|| Look::at(self.scenario.work, &places)).flatten();
            self.in_turns(at, &places, &mut order, tell);
            self.distances[at] = before.and_then(Look::again);
            if self.done + self.skipped < self.turns()
                && let Some((doubt, why)) = self.limit.reached()
            {
                let text = format!("{why} after {} of {} turns", self.done, self.turns());
                self.doubts.push(Doubt::new(doubt, text));
                self.ended = Some(why);
                break;
            }
        }
        if self.skipped > 0 && self.ended.is_none() {
            let (skipped, all) = (self.skipped, self.turns());
            let why = "no time was left";
            let text = format!("{skipped} of {all} turns were skipped: {why}");
            self.doubts.push(Doubt::new("cut-short", text));
        }
        self.note_failures();
    }

    /// Runs turns at a point until all are done, the run is stopped, or other points need the time.
    /// A search for a contender's settings takes none of it.
    fn in_turns(
        &mut self,
        at: usize,
        places: &Places,
        order: &mut Shuffle,
        tell: &mut dyn FnMut(&Progress),
    ) {
        let points = self.places[at..].iter().flatten().count();
        let (before, time) = (self.limit.spent(), self.limit.part(points));
        let repeats = self.scenario.amounts.repeats;
        for round in 0..repeats {
            let spent = self.limit.spent().saturating_sub(before);
            // Each contender has one turn at each point, whatever the time.
            if round > 0 && time.is_some_and(|time| spent + spent / round as u32 > time) {
                self.skipped += (repeats - round) * self.takers();
                return;
            }
            for number in order.of(self.entrants.len()) {
                if self.entrants[number].not_run.is_some() {
                    continue;
                }
                if self.limit.reached().is_some() {
                    return;
                }
                if self.cells[at][number].failed.is_none() {
                    self.tell(at, self.entrants[number].adapter.name(), tell);
                    if !self.turn(at, number, places) {
                        return;
                    }
                }
                self.done += 1;
            }
        }
    }

    /// Runs one turn. Returns `false`, without a result, if the user stopped the run meanwhile.
    fn turn(&mut self, at: usize, number: usize, places: &Places) -> bool {
        let job = self.job(at, places);
        let adapter = self.entrants[number].adapter;
        if let Some(why) = adapter.refuses(job.case) {
            self.cells[at][number].failed = Some(why);
            return true;
        }
        let measured = contenders::measure(adapter, &job);
        if self.entrants[number].command.is_empty() {
            self.entrants[number].command = adapter.command(&job);
        }
        let cell = &mut self.cells[at][number];
        // Relaxed: no other data depends on the flag, here and below.
        let is_over = job.stop.load(Relaxed);
        match measured {
            // The user's stop may have ended the contender, too.
            Ok(sample) if sample.rfc2544.is_some() => return cell.keep_part(sample, is_over),
            Ok(_) if job.work.is_live() && is_over => return false,
            Ok(sample) => cell.samples.push(sample),
            Err(_) if is_over => return false,
            Err(why) => cell.failed = Some(failure(&why)),
        }
        true
    }

    fn job(&self, at: usize, places: &Places) -> Job<'a> {
        let (scenario, point) = (self.scenario, &self.points[at]);
        let case = scenario.cases.iter().find(|case| point.case.as_ref() == Some(case));
        let asked = Asked { plan: &scenario.rfc2544, tell: self.options.tell_trial };
        let remote = self.options.remote.as_deref();
        let (comes_in, goes_out) = match remote.map(Remote::spec) {
            Some(spec) => (vec![spec.to.clone()], spec.from.clone().unwrap_or_default()),
            None => (interfaces(scenario.ports), OUT.to_owned()),
        };
        Job {
            work: scenario.work,
            size_bytes: point.size_bytes.unwrap_or(64),
            rate: point.rate,
            case: case.map(String::as_str),
            places: places.clone(),
            sends_by: "v1",
            comes_in,
            goes_out,
            remote,
            workers: scenario.workers,
            time: scenario.amounts.time,
            packets: scenario.amounts.packets,
            link_gbps: scenario.link_gbps,
            program: &self.options.program,
            rfc2544: (scenario.work == Work::Rfc2544).then_some(asked),
            stop: self.limit.stop(),
            searches: self.limit.searches(),
        }
    }

    /// Returns the number of contenders that can run.
    fn takers(&self) -> usize {
        self.entrants.iter().filter(|entrant| entrant.not_run.is_none()).count()
    }

    /// Returns the notes of samples, with contender and turn.
    fn sample_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (point, cells) in self.points.iter().zip(&self.cells) {
            for (entrant, cell) in self.entrants.iter().zip(cells) {
                let title = format!("{} at {}", entrant.adapter.name(), words(&point.keys));
                let turns = (1..).zip(&cell.samples);
                notes.extend(turns.flat_map(|(turn, sample)| {
                    let title = format!("{title}, turn {turn}");
                    sample.notes.iter().map(move |note| format!("{title}, {note}"))
                }));
            }
        }
        notes
    }

    /// Returns the interfaces as of the first turn that used some.
    fn interfaces(&self) -> Vec<Interface> {
        let samples = self.cells.iter().flatten().flat_map(|cell| &cell.samples);
        let own = Sample::first_interfaces(samples);
        let others = self.options.remote.iter().flat_map(|remote| remote.interfaces());
        own.into_iter().chain(others).collect()
    }

    /// Returns the samples of the contender with this number, point after point.
    fn samples(&self, number: usize) -> impl Iterator<Item = &Sample> {
        self.cells.iter().flat_map(move |cells| &cells[number].samples)
    }

    fn turns(&self) -> usize {
        let points = self.places.iter().filter(|places| places.is_ok()).count();
        points * self.takers() * self.scenario.amounts.repeats
    }

    fn tell(&self, at: usize, who: &str, tell: &mut dyn FnMut(&Progress)) {
        let (done, total) = (self.done, self.turns().saturating_sub(self.skipped));
        let each = (done > 0).then(|| self.began.elapsed() / done as u32);
        let left = each.map(|each| each * total.saturating_sub(done) as u32);
        let what = format!("{who}, {}", words(&self.points[at].keys));
        tell(&Progress { done, total, left, what });
    }

    /// Adds notes about contenders that failed after they had run.
    fn note_failures(&mut self) {
        for (at, cells) in self.cells.iter().enumerate() {
            for (entrant, cell) in self.entrants.iter().zip(cells) {
                let Some(why) = cell.failed.as_ref().filter(|_| !cell.samples.is_empty()) else {
                    continue;
                };
                let (name, point) = (entrant.adapter.name(), words(&self.points[at].keys));
                let turn =
                    cell.samples.iter().filter(|sample| sample.ended().is_none()).count() + 1;
                let text = format!("{name} at {point}, turn {turn}: {why}");
                self.doubts.push(Doubt::new("failed", text));
            }
        }
    }

    /// Adds notes about shared cores.
    fn note_places(&mut self) {
        let wanted = 1 + self.scenario.more_threads();
        let places: Vec<&Places> = self.places.iter().flatten().collect();
        if let Some(few) = places.iter().find(|places| places.contender.len() < wanted) {
            let text = format!(
                "{wanted} threads of a contender share {} of the {} allowed cores",
                few.contender.len(),
                machine::examine().cores
            );
            self.doubts.push(Doubt::new("few-cores", text));
        }
        let shares = |places: &&Places| places.contender.contains(&places.generator);
        if self.options.remote.is_none() && places.iter().any(shares) {
            let text = "generator and contender share a core";
            self.doubts.push(Doubt::new("few-cores", text));
        }
    }
}

impl Cell {
    /// Keeps a device's test results; those of a turn that ended early only if there are no others.
    /// Returns `false` if the run was stopped meanwhile.
    fn keep_part(&mut self, sample: Sample, is_over: bool) -> bool {
        let Some(why) = sample.ended().map(failure) else {
            self.samples.push(sample);
            return true;
        };
        if self.samples.is_empty() {
            self.samples.push(sample);
        }
        if !is_over {
            self.failed = Some(why);
        }
        !is_over
    }
}

fn failure(why: &str) -> String {
    format!("{FAILED}{}", one_line(why))
}

/// Formats a text as one line. Of a long text, keeps beginning and end, where programs put errors.
pub(crate) fn one_line(text: &str) -> String {
    const END: usize = 150;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let letters: Vec<char> = words.chars().collect();
    if letters.len() <= 2 * END {
        return words;
    }
    let (start, end) = (&letters[..END], &letters[letters.len() - END..]);
    format!("{} ... {}", String::from_iter(start), String::from_iter(end))
}

#[cfg(test)]
mod tests;

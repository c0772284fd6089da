//! `burstline lab list`, `lab run` and `lab compare`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{env, fs};

use burstline_lab::readiness::{self, Outcome, Trial};
use burstline_lab::record::{Record, refusal};
use burstline_lab::remote::Remote;
use burstline_lab::scenario::compare::compare as compare_records;
use burstline_lab::scenario::run::{Options, Progress, adjusted, check, run as run_scenario};
use burstline_lab::scenario::{Scenario, Work, budget, built_in, check_remote, machine, parse};

use burstline_sys::inode::{read_text, replace};

use crate::args::{CompareArgs, ListArgs, RunOptions};
use crate::confinement::{give_up, read_by_nobody};
use crate::failure::{FAILED, Failure, complain};
use crate::signals;
use crate::view;

/// The word that stands for every scenario.
const ALL: &str = "all";

/// Prints the known scenarios.
pub(crate) fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let scenarios: Vec<_> = built_in().into_iter().map(view::scenario::Listed::of).collect();
    let tell = |text: &str| if args.json { Ok(()) } else { view::print(text) };
    tell(&view::scenario::list_text(&scenarios))?;
    let trials = if args.is_trying { Some(try_contenders(tell)?) } else { None };
    tell(&view::scenario::who_can_run(trials.as_deref()))?;
    if args.json {
        view::print(&format!("{}\n", view::scenario::list_json(&scenarios, trials.as_deref())))?;
    }
    let has_failed = |trial: &Trial| matches!(trial.outcome, Outcome::Failed(_));
    let is_fine = !trials.iter().flatten().any(has_failed);
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Runs one turn of each live contender and reports each.
fn try_contenders(tell: impl Fn(&str) -> io::Result<()>) -> Result<Vec<Trial>, Failure> {
    let program = program()?;
    let stop = signals::stop_flag(false)?;
    let (mut trials, mut told) = (Vec::new(), Ok(()));
    readiness::try_all(&program, &stop, &mut |trial| {
        let outcome = tell(&view::scenario::trial_text(trial));
        trials.push(trial.clone());
        if let (Ok(()), Err(error)) = (&told, outcome) {
            told = Err(error);
        }
    });
    told?;
    // The flag carries no memory.
    match stop.load(Relaxed) {
        true => Err(Failure::new(format!("ended early: {} turns", trials.len()))),
        false => Ok(trials),
    }
}

/// Runs the chosen scenarios one after another.
pub(crate) fn run(words: &[String], args: &RunOptions) -> Result<ExitCode, Failure> {
    let scenarios = asked(words)?;
    let mut options = Options {
        repeats: args.repeats.map(usize::from),
        packets: args.packets,
        sizes: args.sizes.clone().unwrap_or_default().into_vec(),
        rates: args.rates.clone().unwrap_or_default().into_vec(),
        contenders: args.contenders.clone(),
        seed: args.seed,
        is_quick: args.quick,
        is_simulated: args.simulate,
        ..Options::new(program()?, typed(), signals::stop_flag(args.quiet)?)
    };
    for scenario in &scenarios {
        check(scenario, &options).map_err(Failure::usage)?;
        if let Some(spec) = &args.generator {
            check_remote(scenario, spec).map_err(Failure::usage)?;
        }
    }
    make_folder(&args.out)?;
    if let Some(spec) = &args.generator {
        let remote = Remote::connect(spec.clone(), Arc::clone(&options.stop));
        let remote = remote.map_err(|error| Failure::new(error.to_string()))?;
        options.remote = Some(Arc::new(remote));
    }
    let mut is_whole = true;
    let (began, count) = (Instant::now(), scenarios.len());
    let estimate = |scenario: &Scenario| budget::estimate(&adjusted(scenario, &options));
    let estimates: Option<Vec<Duration>> =
        args.quick.then(|| scenarios.iter().map(estimate).collect());
    for (number, scenario) in (1..).zip(&scenarios) {
        // The flag carries no memory.
        if options.stop.load(Relaxed) {
            complain(&format!("ended early: {} of {count} scenarios", number - 1));
            is_whole = false;
            break;
        }
        options.budget = estimates.as_ref().map(|estimates| {
            let left = budget::QUICK.saturating_sub(began.elapsed());
            budget::part(left, &estimates[number - 1..])
        });
        let title = format!("{number}/{count} {}", scenario.name);
        let record = run_shown(scenario, options.clone(), args.quiet, &title);
        is_whole &= !options.stop.load(Relaxed);
        for fault in options.remote.iter().flat_map(|remote| remote.faults()) {
            complain(&fault);
            is_whole = false;
        }
        save(&record, &args.out)?;
        match args.json {
            true => view::print(&format!("{}\n", view::scenario::compact(&record)))?,
            false => view::print(&view::scenario::text(&record))?,
        }
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Runs one scenario and shows its progress.
pub(super) fn run_shown(
    scenario: &Scenario,
    mut options: Options,
    is_quiet: bool,
    title: &str,
) -> Record {
    // Trials print their own lines, which would collide with a line that is overwritten.
    let is_over_and_over = scenario.work != Work::Rfc2544 && io::stderr().is_terminal();
    let mut line = Line { title, is_quiet, is_over_and_over, shown: 0 };
    options.tell_trial = if is_quiet { now_doing } else { tell_trial };
    let record = run_scenario(scenario, &options, &mut |progress| line.show(progress));
    line.end();
    record
}

/// Sets the answer to SIGUSR1 for a trial, whose text has no trailing line feed.
fn now_doing(text: &str) {
    if !text.ends_with('\n') {
        signals::now_doing(text.to_owned());
    }
}

/// Prints the state of a trial, too.
fn tell_trial(text: &str) {
    now_doing(text);
    // Standard error may be closed; the run continues.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Returns the path of this program.
pub(super) fn program() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|error| Failure::new(error.to_string()))
}

/// Compares two records.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    give_up()?;
    let (a, b) = (load(&args.first, &args.dir)?, load(&args.second, &args.dir)?);
    let compared = compare_records(&a, &b, args.metric.as_deref()).map_err(Failure::new)?;
    let text = match args.json {
        true => format!("{}\n", compared.to_json()),
        false => compared.to_text(),
    };
    view::say(&text)
}

/// Returns the scenarios that these words name.
fn asked(words: &[String]) -> Result<Vec<Scenario>, Failure> {
    let mut scenarios = Vec::new();
    for word in words {
        if word == ALL {
            scenarios.extend(built_in());
        } else if word.contains(['.', '/']) {
            scenarios.push(read_by_nobody(Path::new(word), |text| {
                let text = text.map_err(|error| Failure::new(format!("{word}: {error}")))?;
                parse(&text).map_err(|why| Failure::usage(format!("{word}: {why}")))
            })??);
        } else {
            scenarios.push(built_in_named(word)?);
        }
    }
    Ok(scenarios)
}

/// Returns the built-in scenario of that name.
pub(super) fn built_in_named(name: &str) -> Result<Scenario, Failure> {
    let mut known = built_in();
    let names: Vec<&str> = known.iter().map(|scenario| scenario.name.as_str()).collect();
    let names = names.join(", ");
    let at = known.iter().position(|scenario| scenario.name == name);
    let unknown = || Failure::usage(format!("no scenario `{name}`: {names}, or {ALL}"));
    Ok(known.swap_remove(at.ok_or_else(unknown)?))
}

/// Creates the folder for records before a run that may take an hour, if it may take them.
pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    if let Some(why) = refusal(folder, machine::commit().as_deref()) {
        return Err(Failure::usage(why));
    }
    fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))
}

/// Writes a record to a temporary file and renames it, so that a record is always complete.
pub(super) fn save(record: &Record, folder: &Path) -> Result<(), Failure> {
    let path = folder.join(format!("{}.json", record.scenario));
    let written = replace(&path, record.to_text().as_bytes());
    written.map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn load(word: &str, folder: &Path) -> Result<Record, Failure> {
    let path = record_at(word, folder);
    let fail = |why: String| Failure::new(format!("{}: {why}", path.display()));
    let text = read_text(&path).map_err(|error| fail(error.to_string()))?;
    Record::parse(&text).map(Record::labelled).map_err(fail)
}

/// Returns the path of the record that this word names.
pub(crate) fn record_at(word: &str, folder: &Path) -> PathBuf {
    match word.contains(['.', '/']) {
        true => PathBuf::from(word),
        false => folder.join(format!("{word}.json")),
    }
}

/// Returns the command line, with `burstline` in place of the program's path.
pub(super) fn typed() -> String {
    let rest = env::args().skip(1);
    ["burstline".to_owned()].into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

/// The progress line of a running scenario.
struct Line<'a> {
    title: &'a str,
    is_quiet: bool,
    /// If false, each text is on a line of its own.
    is_over_and_over: bool,
    shown: usize,
}

impl Line<'_> {
    fn show(&mut self, progress: &Progress) {
        let (title, Progress { done, total, left, what }) = (&self.title, progress);
        let left = left.map_or("?".to_owned(), minutes);
        let text = format!("{title}: {done}/{total} turns, {left} left: {what}");
        signals::now_doing(text.clone());
        if self.is_quiet {
            return;
        }
        let mut stderr = io::stderr().lock();
        // Standard error may be closed; the run continues.
        let _ = match self.is_over_and_over {
            true => write!(stderr, "\r{text:<width$}", width = self.shown),
            false => writeln!(stderr, "{text}"),
        };
        let _ = stderr.flush();
        self.shown = text.chars().count();
    }

    /// Erases the line.
    fn end(&mut self) {
        if !self.is_quiet && self.is_over_and_over {
            let _ = write!(io::stderr().lock(), "\r{:width$}\r", "", width = self.shown);
        }
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

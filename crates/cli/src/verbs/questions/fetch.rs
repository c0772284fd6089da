//! `burstline fetch`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use burstline_engine::{Attempt, EngineError, try_extract};
use burstline_fleet::{
    Answer, Outcome, Patience, Question, Sensors, SensorsError, command, survey,
};
use burstline_port::{Address, OpenOptions, OpenedFiles, OutputOptions, open_set, open_sink};
use burstline_sys::temporary::TemporaryFolder;

use crate::args::FetchArgs;
use crate::confinement;
use crate::failure::{FAILED, Failure, complain, complain_of_ledger};
use crate::paths::address_of;
use crate::signals;
use crate::verbs::archive::open;
use crate::view::Stream;
use crate::view::fetch::{self, Fetched};
use crate::words::{count_text, packets_text};

/// Fetches packets from sensors.
pub(crate) fn fetch(args: &FetchArgs) -> Result<ExitCode, Failure> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Failure::usage("--from must be before --to: no packet can be in between"));
    }
    let sensors = sensors(args)?;
    let sink = address_of(&args.write, args.format)?;
    let stream = Stream::beside(slice::from_ref(&sink));
    let folder = TemporaryFolder::create("burstline-fetch")
        .map_err(|error| Failure::new(format!("make a folder for received packets: {error}")))?;
    let patience = Patience {
        connect: Duration::from_nanos(args.connect),
        silence: Duration::from_nanos(args.silence),
        bytes_most: args.limit as u64,
    };
    let question = question(args);
    let config = sensors.config.as_deref();
    let commands = (sensors.sensors.iter())
        .map(|sensor| command(sensor, &question, config, patience))
        .collect();
    confinement::name_fetch(args, commands, folder.path())?;
    let stop = signals::stop_flag(args.quiet)?;
    signals::now_doing("waiting for sensors".to_owned());
    confinement::give_up()?;
    let tell = |number: usize, answer: &Answer| {
        let name = &sensors.sensors[number].name;
        match &answer.outcome {
            Outcome::Whole => {}
            Outcome::Partial(why) => complain(&format!("{name}: ONLY PART RECEIVED: {why}")),
            Outcome::Failed(why) => complain(&format!("{name}: NOTHING RECEIVED: {why}")),
        }
    };
    // The flag carries no memory.
    let is_stopped = || stop.load(Relaxed);
    let at_a_time = args.at_a_time as usize;
    let answers =
        survey(&sensors, &question, patience, folder.path(), at_a_time, &is_stopped, &tell);
    let names = sensors.sensors.iter().map(|sensor| sensor.name.clone());
    let each = names.zip(answers);
    let mut sensors: Vec<Fetched> = Vec::new();
    for (name, answer) in each {
        let path = folder.path().join(&name);
        sensors.push(look(name, answer, &path, &stop));
    }
    let paths: Vec<PathBuf> = sensors
        .iter()
        .filter(|sensor| sensor.is_capture)
        .map(|sensor| folder.path().join(&sensor.name))
        .collect();
    let merged = match paths.is_empty() {
        true => None,
        false => Some(merge(&paths, &sink, args.links.options(), &stop)?),
    };
    report(args, stream, &sensors, merged.as_ref())
}

fn sensors(args: &FetchArgs) -> Result<Sensors, Failure> {
    let mut sensors = Sensors::read(&args.sensors).map_err(|error| match error {
        SensorsError::Read { .. } => Failure::new(error.to_string()),
        SensorsError::Text { .. } => Failure::usage(error.to_string()),
    })?;
    let path = args.sensors.display();
    let known = |name: &&String| sensors.sensors.iter().any(|sensor| sensor.name == **name);
    if let Some(unknown) = args.sensor.iter().find(|name| !known(name)) {
        let names: Vec<&str> = sensors.sensors.iter().map(|sensor| &sensor.name[..]).collect();
        let names = names.join(", ");
        let what = format!("--sensor {unknown}: {path} has no such sensor; it has {names}");
        return Err(Failure::usage(what));
    }
    if !args.sensor.is_empty() {
        sensors.sensors.retain(|sensor| args.sensor.contains(&sensor.name));
    }
    Ok(sensors)
}

/// Returns the flags for `extract` on the sensors.
fn question(args: &FetchArgs) -> Question {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let flags = [
        args.from.map(|ns| format!("--from={}", seconds(ns))),
        args.to.map(|ns| format!("--to={}", seconds(ns))),
        args.flow.as_ref().map(|flow| format!("--flow={flow}")),
        args.filter.as_ref().map(|filter| format!("--filter={filter}")),
    ];
    Question { flags: flags.into_iter().flatten().collect() }
}

/// Counts the packets that came from a sensor.
fn look(name: String, answer: Answer, path: &Path, stop: &AtomicBool) -> Fetched {
    let mut fetched = Fetched { name, answer, came: 0, is_capture: false };
    if fetched.answer.bytes == 0 {
        let found = fetched.answer.number("delivered").filter(|found| *found > 0);
        if let (Some(found), Outcome::Whole) = (found, &fetched.answer.outcome) {
            let why = format!("it found {}, none received", packets_text(found));
            complain(&format!("{}: {why}", fetched.name));
            fetched.answer.outcome = Outcome::Partial(why);
        }
        return fetched;
    }
    // The flag carries no memory.
    let mut watch = |_| !stop.load(Relaxed);
    let scanned = open(path, &OpenedFiles::default())
        .and_then(|reader| Ok(burstline_engine::check(reader, &mut watch)?));
    let why = match scanned {
        Ok(scanned) => {
            (fetched.came, fetched.is_capture) = (scanned.packets, true);
            let first = scanned.damage().next();
            let found = fetched.answer.number("delivered");
            match (first, found) {
                (Some(fault), _) => Some(format!("received data is damaged: {fault}")),
                (None, Some(found)) if found != scanned.packets => {
                    let (found, came) = (packets_text(found), count_text(scanned.packets));
                    Some(format!("it found {found}, {came} received"))
                }
                _ => None,
            }
        }
        Err(error) => {
            let why = format!("received data is not a capture: {error}");
            fetched.answer.outcome = Outcome::Failed(why.clone());
            Some(why)
        }
    };
    if let (Some(why), false) = (why, matches!(fetched.answer.outcome, Outcome::Partial(_))) {
        complain(&format!("{}: {why}", fetched.name));
        if fetched.is_capture {
            fetched.answer.outcome = Outcome::Partial(why);
        }
    }
    fetched
}

/// Merges all fetched packets in time order.
fn merge(
    paths: &[PathBuf],
    sink: &Address,
    output: OutputOptions,
    stop: &Arc<AtomicBool>,
) -> Result<Attempt, Failure> {
    let options = OpenOptions {
        stop: Some(Arc::clone(stop)),
        names_files: true,
        output,
        ..OpenOptions::default()
    };
    let source = open_set("sensors", paths, &options).map_err(EngineError::from)?;
    let sink = open_sink(sink, &options).map_err(EngineError::from)?;
    Ok(try_extract(source, Some(sink), &options.table, stop))
}

fn report(
    args: &FetchArgs,
    stream: Stream,
    sensors: &[Fetched],
    merged: Option<&Attempt>,
) -> Result<ExitCode, Failure> {
    let sum = fetch::Sum::of(sensors, merged);
    let is_success = sum.unaccounted == 0
        && sum.lost == 0
        && merged.is_none_or(|merged| !merged.extracted.is_stopped && merged.failure.is_none())
        && sensors.iter().all(|sensor| sensor.answer.outcome == Outcome::Whole);
    match (args.json, args.quiet) {
        (true, _) => stream.print(&fetch::object(sensors, merged, &sum, is_success))?,
        (false, true) => {}
        (false, false) => stream.print(&fetch::text(sensors, &sum, &args.write))?,
    }
    if let Some(failure) = merged.and_then(|merged| merged.failure.as_ref()) {
        complain(&failure.to_string());
    }
    if sum.unaccounted != 0 {
        complain_of_ledger(sum.unaccounted);
    }
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

//! `bench`: measures the selected figures. See `bench --help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{env, fs, thread};

use burstline_lab::figures::{self, Context, Done, Seen};
use burstline_lab::instructions::OPTION;
use burstline_lab::options::{Options, USAGE};
use burstline_lab::record::{Record, refusal};
use burstline_lab::reports;
use burstline_lab::scenario::machine;
use burstline_lab::sharing::giver::{self, GIVER_OPTION};
use burstline_lab::sharing::{READER_OPTION, reader};
use burstline_lab::threads::Cores;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let helped = match words[..] {
        [GIVER_OPTION, ..] => Some(giver::serve(&arguments[1..])),
        [READER_OPTION, ..] => Some(reader::serve(&arguments[1..])),
        [OPTION, piece, rounds] => Some(figures::do_rounds(piece, rounds.parse().unwrap_or(0))),
        _ => None,
    };
    if let Some(done) = helped {
        let failed = |error| eprintln!("bench {}: {error}", words[0]);
        return done.map_err(failed).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let command = format!("bench {}", words.join(" "));
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !options.tables.is_empty() {
        return match table(&options.tables, options.into.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("bench: {why}");
                ExitCode::FAILURE
            }
        };
    }
    measure(&options, &command)
}

/// Measures the selected figures, or lists them.
fn measure(options: &Options, command: &str) -> ExitCode {
    let all = figures::all().iter();
    let wanted: Vec<_> = all.filter(|figure| options.wants(&figure.name, figure.is_long)).collect();
    if wanted.is_empty() {
        eprintln!("no figure matches; `bench --list` lists them");
        return ExitCode::from(2);
    }
    if options.list {
        wanted.iter().for_each(|figure| println!("{}", figure.name));
        return ExitCode::SUCCESS;
    }
    // A smoke run writes no records.
    if let Some(folder) = options.out.as_deref().filter(|_| !options.smoke)
        && let Some(why) = refusal(folder, machine::commit().as_deref())
    {
        eprintln!("bench: {why}");
        return ExitCode::from(2);
    }
    // Signals set a flag instead of killing the process, so destructors remove files and pages.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            eprintln!("signal {signal} cannot be caught: {error}");
        }
    }
    let (smoke, full, runs) = (options.smoke, options.full, options.runs);
    let context =
        Context { smoke, full, runs, cores: Cores::allowed(), stop, seen: Seen::default() };
    let mut all = Vec::new();
    for figure in wanted {
        // On a separate thread, because a figure may pin its thread.
        let mut done = thread::scope(|scope| {
            let work = scope.spawn(|| figures::run(figure, &context, command));
            work.join().expect("a figure that cannot be measured says why")
        });
        if let (Done::Measured(record), Some(folder)) = (&done, &options.out)
            && let Err(why) = keep(record, folder)
        {
            done = Done::Failed(why);
        }
        print(&figure.name, &done, options.json);
        all.push((figure.name.as_str(), done));
    }
    let table = figures::table(&all, &alone(options));
    // With --json, each line of standard output is an object.
    if options.json {
        eprint!("{table}");
    } else {
        print!("{table}");
    }
    // A smoke run only checks that the figures work, of programs that are installed.
    let is_fine = |done: &Done| match done {
        Done::Measured(_) | Done::Smoke => true,
        Done::NotHere(_) => smoke,
        Done::Failed(_) => false,
    };
    if all.iter().all(|(_, done)| is_fine(done)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the command that measures one figure alone in the same way, without the figure's name.
fn alone(options: &Options) -> String {
    let program = env::args().next().unwrap_or_else(|| "bench".to_owned());
    let flags = [(options.smoke, " --smoke"), (options.full, " --full")];
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    program + &set.map(|(_, flag)| flag).collect::<String>()
}

/// Writes the table of the records in `folders` to a file or to stdout.
fn table(folders: &[PathBuf], into: Option<&Path>) -> Result<(), String> {
    let records: Vec<_> =
        folders.iter().map(|folder| reports::figures::records(folder)).collect::<Result<_, _>>()?;
    let records = records.concat();
    let Some(file) = into else {
        print!("{}", reports::figures::table(&records)?);
        return Ok(());
    };
    let fail = |error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(fail)?;
    let text = reports::figures::renewed(&text, &records)?
        .ok_or_else(|| format!("{} has no marks for the table", file.display()))?;
    fs::write(file, text).map_err(fail)
}

/// Writes a record to a file named after it.
fn keep(record: &Record, folder: &Path) -> Result<(), String> {
    let path = folder.join(format!("{}.json", record.scenario));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, record.to_text()));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn print(name: &str, done: &Done, is_json: bool) {
    match (done, is_json) {
        (Done::Measured(record), false) => {
            println!("{}", record.figure_text().unwrap_or_default());
        }
        (Done::Measured(record), true) => println!("{}", json!(record)),
        (Done::Smoke, false) => println!("smoke {name} ok"),
        (Done::Smoke, true) => println!("{}", json!({"smoke": name, "ok": true})),
        (Done::NotHere(why), false) => println!("figure {name} not run: because {why}"),
        (Done::NotHere(why), true) => println!("{}", json!({"figure": name, "not_run": why})),
        (Done::Failed(why), false) => println!("figure {name} failed: {why}"),
        (Done::Failed(why), true) => println!("{}", json!({"figure": name, "failed": why})),
    }
}

//! `bench`: measures the figures that are asked for. See `bench --help`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_lab::figures::{self, Context};
use burstline_lab::instructions::OPTION;
use burstline_lab::options::{Options, USAGE};
use burstline_lab::report::Outcome;
use burstline_lab::sharing::{READER_OPTION, reader};
use burstline_lab::threads::Cores;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((READER_OPTION, rest)) = arguments.split_first().map(|(a, rest)| (a.as_str(), rest))
    {
        return match reader::serve(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench as a reader: {error}");
                ExitCode::FAILURE
            }
        };
    }
    if let [OPTION, piece, rounds] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let done = figures::do_rounds(piece, rounds.parse().unwrap_or(0));
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench {OPTION}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let wanted: Vec<_> = figures::all().into_iter().filter(|f| options.wants(f.name)).collect();
    if wanted.is_empty() {
        eprintln!("no figure fits; `bench --list` names them");
        return ExitCode::from(2);
    }
    if options.list {
        wanted.iter().for_each(|figure| println!("{}", figure.name));
        return ExitCode::SUCCESS;
    }
    // A flag instead of death: destructors run, and files and pages go.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            eprintln!("signal {signal} cannot be caught: {error}");
        }
    }
    let (smoke, full, runs) = (options.smoke, options.full, options.runs);
    let context = Context { smoke, full, runs, cores: Cores::allowed(), stop };
    let mut is_whole = true;
    for figure in wanted {
        let outcome = (figure.measure)(&context, figure.name);
        is_whole &= match outcome {
            // Only asks whether what can run does.
            Ok(Outcome::NotHere(_)) => smoke,
            _ => outcome.is_ok(),
        };
        print(figure.name, &outcome, options.json);
    }
    if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(name: &str, outcome: &Result<Outcome, String>, is_json: bool) {
    match (outcome, is_json) {
        (Ok(Outcome::Measured(figure)), false) => println!("{figure}"),
        (Ok(Outcome::Measured(figure)), true) => println!("{}", figure.to_json()),
        (Ok(Outcome::Smoke), false) => println!("smoke {name} ok"),
        (Ok(Outcome::Smoke), true) => println!("{}", json!({"smoke": name, "ok": true})),
        (Ok(Outcome::NotHere(why)) | Err(why), false) => {
            println!("figure {name} not run: because {why}");
        }
        (Ok(Outcome::NotHere(why)) | Err(why), true) => {
            println!("{}", json!({"figure": name, "not_run": why}));
        }
    }
}

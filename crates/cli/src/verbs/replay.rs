//! `burstline replay`.

use std::process::ExitCode;
use std::sync::Arc;

use burstline_engine::{Inlet, Progress, Workers};
use burstline_port::{
    Address, InterfaceKey, OpenOptions, Rate, ReplayOptions, Routes, Timing, open_replay,
};
use burstline_wire::rewrite::Rewrite;

use super::generate::link_megabits;
use crate::args::ReplayArgs;
use crate::confinement;
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Rates in packets/s that nanosecond timestamps can resolve.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e9;

/// Line rates in bit/s.
const LINES: std::ops::RangeInclusive<f64> = 1.0..=1e12;

/// Sends the packets of files.
pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let common = &args.job;
    let stop = signals::stop_flag(common.quiet)?;
    let (sinks, routes) = sinks(args);
    let nobody = Workers::default();
    // One thread, placed for the first sink.
    let threads = common.place_at(&sinks[..1], &nobody)?.threads;
    let filter = args.filter.clone().unwrap_or_default();
    let ports = OpenOptions { filter, stop: Some(Arc::clone(&stop)), ..OpenOptions::default() };
    // An invalid word is reported when it is opened.
    let is_other = |address: &&Address| !address.is_file() && !address.is_bare();
    if let Some(other) = args.files.iter().find(is_other) {
        let what = format!(
            "{other}: replay reads files; to forward live packets: capture {other} -o SINK"
        );
        return Err(Failure::usage(what));
    }
    if args.loops != 1 && args.files.iter().any(Address::is_standard) {
        return Err(Failure::usage("standard input can be replayed only once; leave out --loops"));
    }
    let how = ReplayOptions {
        timing: timing(args, &sinks)?,
        passes: (args.loops > 0).then_some(args.loops),
        rewrite: Rewrite::new(args.rewrite.iter().cloned()),
        routes: routes.clone(),
    };
    let ahead = common.open_sinks_ahead(&sinks, &ports)?;
    confinement::give_up_before_files(common)?;
    let source = open_replay(&args.files, how, &ports).map_err(burstline_engine::EngineError::from);
    let source = Inlet::of(source?);
    let progress = Progress::new(1).named(job::names(std::slice::from_ref(&source)));
    let run = common.run(&stop, &progress);
    let mut view = View::new("replay", common, Stream::beside(&sinks));
    let mut played = job::watch(&mut view, &run, common.keep_privileges, || {
        let of_ahead = sinks.iter().zip(ahead);
        let open =
            || of_ahead.map(|(sink, ahead)| common.open_sink_now(ahead, sink, &ports)).collect();
        burstline_engine::replay(source, &routes, open, &threads, &run)
    })?;
    let report = std::mem::take(&mut played.report);
    job::conclude(&view.with_generated(played), &report, &common.demands())
}

/// Returns the sinks, each once, and which interface is sent to which sink.
fn sinks(args: &ReplayArgs) -> (Vec<Address>, Routes) {
    let mut sinks = args.output.clone();
    let mut rules = Vec::new();
    for (key, sink) in &args.map {
        let known = sinks.iter().position(|known| known == sink);
        let number = known.unwrap_or_else(|| {
            sinks.push(sink.clone());
            sinks.len() - 1
        });
        rules.push((key.clone(), number));
    }
    if args.output.len() > 1 {
        let numbered = 0..args.output.len();
        rules.extend(numbered.map(|number| (InterfaceKey::Number(number), number)));
    }
    let rest = (args.output.len() == 1).then_some(0);
    let ethernet_only = sinks.iter().map(Address::leads_to_interface).collect();
    (sinks, Routes::new(rules, rest, ethernet_only))
}

fn timing(args: &ReplayArgs, sinks: &[Address]) -> Result<Timing, Failure> {
    let wrong = |what: &str| Failure::usage(format!("invalid value for '--rate': {what}"));
    let rate = match (args.top_speed, args.rate) {
        (true, _) => return Ok(Timing::TopSpeed),
        (_, None) => return Ok(Timing::Original { speed: args.speed.unwrap_or(1.0) }),
        (_, Some(rate)) => rate,
    };
    let link = match args.link {
        Some(Rate::LineBits(bits)) if bits >= 1.0 => Some(bits),
        Some(_) => {
            return Err(Failure::usage(
                "invalid value for '--link': expected a link's rate, e.g. 10Gbit",
            ));
        }
        None => link_megabits(&sinks[0]).map(|megabits| megabits as f64 * 1e6),
    };
    let rate = rate
        .of_link(link)
        .ok_or_else(|| wrong("a percentage needs the link's rate, e.g. --link 10Gbit"))?;
    match rate {
        Rate::LineBits(bits) if args.link.is_some() && link.is_some_and(|link| bits > link) => {
            Err(wrong("that is more than --link"))
        }
        Rate::Packets(pps) if !RATES.contains(&pps) => Err(wrong("must be 0.001 to 1G")),
        Rate::LineBits(bits) if !LINES.contains(&bits) => Err(wrong("must be 1 bit/s to 1 Tbit/s")),
        rate => Ok(Timing::Fixed { rate, burst: args.burst }),
    }
}

//! `burstline lab rfc2544`: one device between two ports that are there, or several that are
//! started here, one after the other.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::Threads;
use burstline_port::{Address, Rate};
use burstline_sys::affinity::{self, CoreId};

use super::Measured;
use super::measure::{Ends, measure};
use super::rig::{self, Places, Rig};
use crate::args::values::Cores;
use crate::args::{Device, Rfc2544Args};
use crate::failure::{FAILED, Failure, complain};
use crate::signals;
use crate::verbs::generate::link_megabits;
use crate::view;

/// What a cable of ours says that it has, in bit/s.
const RIG_LINK_BITS: f64 = 10e9;

/// Runs the tests, and prints what came of them.
pub(crate) fn rfc2544(args: &Rfc2544Args) -> Result<ExitCode, Failure> {
    let stop = signals::stop_flag(args.quiet)?;
    let all = match (&args.tx, &args.rx) {
        (Some(tx), Some(rx)) if args.duts.is_empty() => vec![between(args, tx, rx, &stop)?],
        _ => rigged(args, &stop)?,
    };
    let text = match args.json {
        true => format!("{}\n", view::rfc2544::json(args, &all)),
        false => view::rfc2544::text(args, &all),
    };
    view::print(&text)?;
    let mut code = ExitCode::SUCCESS;
    for measured in all {
        let (done, asked) = (measured.results.len(), args.sizes.len());
        let who = measured.device.map_or(String::new(), |device| format!("{}: ", device.name()));
        match measured.failure {
            Some(failure) if args.duts.is_empty() => return Err(failure),
            Some(failure) => complain(&format!("{who}{failure}")),
            None if measured.is_done() => continue,
            None => complain(&format!("{who}ended early: {done} of {asked} sizes")),
        }
        code = ExitCode::from(FAILED);
    }
    Ok(code)
}

/// The device between two ports.
fn between(
    args: &Rfc2544Args,
    tx: &Address,
    rx: &Address,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, Failure> {
    let cores = listed(args);
    let link_bits = match link_bits(args)? {
        Some(link_bits) => link_bits,
        None => {
            let megabits = link_megabits(tx).map(|megabits| megabits as f64 * 1e6);
            let unknown =
                || Failure::usage(format!("{tx} does not say what its link has: --link 10Gbit"));
            megabits.ok_or_else(unknown)?
        }
    };
    let (tx_cores, rx_cores) = cores.split_at(cores.len().min(1));
    let ends = Ends {
        tx: tx.clone(),
        rx: rx.clone(),
        link_bits,
        tx_threads: Threads { cores: tx_cores.to_vec(), ..Threads::default() },
        rx_threads: Threads { cores: rx_cores.to_vec(), poll: args.poll, ..Threads::default() },
    };
    let mut measured = Measured::new(None, &ends);
    match measure(args, &ends, stop, &mut measured.results) {
        Ok(is_whole) => measured.is_whole = is_whole,
        Err(failure) => measured.failure = Some(failure),
    }
    Ok(measured)
}

/// Devices that are started here. One that fails is no reason to leave out the others.
fn rigged(args: &Rfc2544Args, stop: &Arc<AtomicBool>) -> Result<Vec<Measured>, Failure> {
    let places = places(args)?;
    let port = |asked: &Option<Address>, ours: &str| asked.clone().map_or_else(|| ours.parse(), Ok);
    let threads = |core: CoreId| Threads { cores: vec![core], ..Threads::default() };
    let ends = Ends {
        tx: port(&args.tx, rig::TX)?,
        rx: port(&args.rx, rig::RX)?,
        link_bits: link_bits(args)?.unwrap_or(RIG_LINK_BITS),
        tx_threads: threads(places.sender),
        rx_threads: Threads { poll: args.poll, ..threads(places.receiver) },
    };
    let mut all = Vec::new();
    for &device in &args.duts {
        // The flag carries no memory.
        if stop.load(Relaxed) {
            all.push(Measured::new(Some(device), &ends));
            continue;
        }
        if !args.quiet {
            // Nobody there to be told is no reason to end.
            let _ = writeln!(std::io::stderr().lock(), "{}:", device.name());
        }
        all.push(rig_one(args, device, places, &ends, stop));
    }
    Ok(all)
}

fn rig_one(
    args: &Rfc2544Args,
    device: Device,
    places: Places,
    ends: &Ends,
    stop: &Arc<AtomicBool>,
) -> Measured {
    let mut measured = Measured::new(Some(device), ends);
    let longest = args.sizes.iter().copied().max().unwrap_or(0);
    let rig = match Rig::new(device, places, longest) {
        Ok(rig) => rig,
        Err(why) => return Measured { not_run: Some(why), ..measured },
    };
    measured.note.clone_from(&rig.note);
    let (args, ends, stop) = (args.clone(), ends.clone(), Arc::clone(stop));
    let (results, outcome) = rig.near().run(move || {
        let mut results = Vec::new();
        let outcome = measure(&args, &ends, &stop, &mut results);
        (results, outcome)
    });
    measured.results = results;
    match (rig.is_over(), outcome) {
        (Some(why), _) => measured.failure = Some(Failure::new(why)),
        (None, Ok(is_whole)) => measured.is_whole = is_whole,
        (None, Err(failure)) => measured.failure = Some(failure),
    }
    measured
}

/// What was said of the link.
fn link_bits(args: &Rfc2544Args) -> Result<Option<f64>, Failure> {
    match args.link {
        Some(Rate::LineBits(bits)) if bits >= 1.0 => Ok(Some(bits)),
        Some(_) => Err(Failure::usage("invalid value for '--link': a link's rate is as 10Gbit")),
        None => Ok(None),
    }
}

fn listed(args: &Rfc2544Args) -> Vec<CoreId> {
    match &args.cores {
        Some(Cores::List(cores)) => cores.clone(),
        Some(Cores::Auto) | None => Vec::new(),
    }
}

/// Cores that were named, or the last one for the device and the others for its tester.
fn places(args: &Rfc2544Args) -> Result<Places, Failure> {
    match listed(args)[..] {
        [sender, receiver, device] => Ok(Places { sender, receiver, device }),
        [] => {
            let cores = affinity::allowed_cores().unwrap_or_default();
            let first = cores.first().copied().unwrap_or(CoreId(0));
            let device = cores.last().copied().unwrap_or(first);
            let second = cores.get(1).copied().filter(|core| *core != device).unwrap_or(first);
            Ok(Places { sender: first, receiver: second, device })
        }
        _ => Err(Failure::usage("--dut takes three --cores: sender, receiver, device")),
    }
}

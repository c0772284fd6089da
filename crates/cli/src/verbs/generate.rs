//! `burstline generate`.

use std::process::ExitCode;
use std::slice;
use std::sync::Arc;

use burstline_engine::{EngineError, Inlet, Progress, Workers};
use burstline_port::{Address, AddressError, GENERATOR_KEYS, OpenOptions, PortError};

use crate::args::GenerateArgs;
use crate::confinement;
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Sends the packets of a recipe.
pub(crate) fn generate(args: &GenerateArgs) -> Result<ExitCode, Failure> {
    let common = &args.job;
    let stop = signals::stop_flag(common.quiet)?;
    let nobody = Workers::default();
    let threads = common.place_at(slice::from_ref(&args.output), &nobody)?.threads;
    let address = args.recipe.address(common.packets, link_of(args))?;
    let ports = OpenOptions { stop: Some(Arc::clone(&stop)), ..OpenOptions::default() };
    let ahead = common.open_sink_ahead(&args.output, &ports)?;
    // A template is a file of others.
    confinement::give_up_before_files(common)?;
    let source = Inlet::open(&address, &ports).map_err(as_flag)?;
    let progress = Progress::new(1).named(job::names(slice::from_ref(&source)));
    let mut run = common.run(&stop, &progress);
    // The source itself has the limit, so that the report says that it ended.
    run.limits.packets = None;
    let mut view = View::new("generate", common, Stream::beside(slice::from_ref(&args.output)))
        .with_sink(&args.output);
    let mut generated = job::watch(&mut view, &run, common.keep_privileges, || {
        let open = || common.open_sink_now(ahead, &args.output, &ports);
        burstline_engine::generate(source, open, &threads, &run)
    })?;
    let report = std::mem::take(&mut generated.report);
    job::conclude(&view.with_generated(generated), &report, &common.demands())
}

/// Returns the speed of the sink's interface, if the rate is a percentage of it.
fn link_of(args: &GenerateArgs) -> Option<String> {
    let is_part = args.recipe.value("rate").is_some_and(|rate| rate.ends_with('%'));
    if !is_part || args.recipe.value("link").is_some() {
        return None;
    }
    Some(format!("{}Mbit", link_megabits(&args.output)?))
}

/// Returns the speed of the interface that a sink sends to, if the kernel knows it.
pub(crate) fn link_megabits(sink: &Address) -> Option<u64> {
    let (interface, _) = sink.interface()?;
    burstline_sys::device::link_megabits(interface)
}

/// Turns an error about a parameter of `gen:` into one about the corresponding flag.
fn as_flag(error: EngineError) -> Failure {
    match error {
        EngineError::Port(PortError::Address(AddressError::Value {
            key, value, reason, ..
        })) => {
            let reason = with_flags(&reason);
            Failure::usage(format!("invalid value '{value}' for '--{key}': {reason}"))
        }
        other => other.into(),
    }
}

/// Replaces keys of `gen:`, such as `link=10Gbit`, by flags in an error text.
fn with_flags(reason: &str) -> String {
    let is_key = |word: &str| GENERATOR_KEYS.iter().any(|key| key.name == word);
    let word = |word: &str| match word.split_once('=') {
        Some((key, value)) if is_key(key) => format!("--{key} {value}"),
        _ => word.to_owned(),
    };
    reason.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_flag() {
        let address: Address = "gen:?rate=2G".parse().unwrap();
        let error = Inlet::open(&address, &OpenOptions::default()).err().unwrap();
        let said = format!("{:?}", as_flag(error));
        assert!(said.contains("invalid value '2G' for '--rate': that is"), "{said}");
        assert_eq!(with_flags("say link=10Gbit, as x=1"), "say --link 10Gbit, as x=1");
    }
}

//! `burstline bounce`.

use std::process::ExitCode;
use std::slice;

use burstline_engine::{Progress, Workers, open_bounce, open_inline};
use burstline_port::{OpenOptions, Treatment};

use crate::args::BounceArgs;
use crate::confinement::{self, takes_rights};
use crate::failure::Failure;
use crate::view::{Stream, View};
use crate::{job, signals};

/// Forwards packets from one port to another.
pub(crate) fn bounce(args: &BounceArgs) -> Result<ExitCode, Failure> {
    let common = &args.job;
    let stop = signals::stop_flag(common.quiet)?;
    let ends = [&args.from, &args.to];
    if !ends.iter().any(|end| end.takes_away()) && (args.only.is_some() || args.steal) {
        return Err(Failure::usage("--only and --steal apply to xdp: ports; there is none"));
    }
    let entries = if args.both { &ends[..] } else { &ends[..1] };
    let entries: Vec<_> = entries.iter().copied().cloned().collect();
    let nobody = Workers::default();
    let mut placed = common.place_at(&entries, &nobody)?;
    let before_files = match takes_rights(&args.to) {
        true => confinement::before_files(common)?,
        // Then the source is opened first: one that is missing leaves an output as it is.
        false => confinement::give_up_before_files(common).map(|()| None)?,
    };
    let ports = OpenOptions {
        only: args.only.clone().unwrap_or_default(),
        may_steal: args.steal,
        ..OpenOptions::default()
    };
    ports.files.set_before(before_files);
    let treatment = Treatment {
        touch: args.touch,
        rewrite: args.rewrite.unwrap_or_default(),
        ..Treatment::default()
    };
    let (crossings, inline) = match &args.inline {
        None => (open_bounce(ends, args.both, &treatment, &ports)?, None),
        Some(inline) => {
            check_inline(args)?;
            let opened = open_inline(ends, args.both, &treatment, &ports, inline)?;
            (opened.0, Some(opened.1))
        }
    };
    common.warn(crossings.iter().map(|crossing| crossing.account()));
    if ends.iter().any(|end| end.leads_to_interface()) {
        let ways = if args.both { ", both ways" } else { "" };
        common.announce(&format!("forwarding from {} to {}{ways}", args.from, args.to));
    }
    placed.fit(crossings.len());
    let names = crossings.iter().map(|crossing| crossing.info().name.clone());
    let progress = Progress::new(crossings.len()).named(names);
    inline.iter().for_each(|inline| inline.show(&progress));
    let mut view = View::new("bounce", common, Stream::beside(slice::from_ref(&args.to)));
    let run = common.run(&stop, &progress);
    let mut bounced = job::watch(&mut view, &run, common.keep_privileges, || {
        burstline_engine::bounce(crossings, &placed.threads, &run)
    })?;
    let mut report = std::mem::take(&mut bounced.report);
    bounced.inline = job::end_inline(inline, &stop, &mut report);
    job::conclude(&view.with_bounced(bounced, progress.counted()), &report, &common.demands())
}

/// Checks that packets can wait for verdicts. A waiting packet is copied, because its port needs
/// the frame back. A port that takes queues exclusively cannot be opened in both directions without
/// shared frames.
fn check_inline(args: &BounceArgs) -> Result<(), Failure> {
    let takes_away = [&args.from, &args.to].into_iter().find(|end| end.takes_away());
    match takes_away {
        Some(end) if args.both => Err(Failure::usage(format!(
            "{end}: --inline with --both needs separate sockets to receive and to send, and an \
             xdp: port has one per queue: use the interface's name alone, or one direction"
        ))),
        _ => Ok(()),
    }
}

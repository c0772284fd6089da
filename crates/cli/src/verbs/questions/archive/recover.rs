//! `burstline recover`.

use std::process::ExitCode;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::EngineError;
use burstline_port::{Loss, OpenOptions, open_sink};

use super::{code, open, paths_of};
use crate::args::RecoverArgs;
use crate::confinement;
use crate::failure::{Failure, complain_of_ledger};
use crate::paths::address_of;
use crate::signals;
use crate::view::archive::Bar;
use crate::view::{Stream, archive};

/// Writes the intact packets of files.
pub(crate) fn recover(args: &RecoverArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    // A helper opens the files.
    confinement::give_up()?;
    let sink = address_of(&args.write, args.format)?;
    let stream = Stream::beside(slice::from_ref(&sink));
    let (stop_flag, output) = (Some(Arc::clone(&stop)), args.links.options());
    let options = OpenOptions { stop: stop_flag, output, ..OpenOptions::default() };
    let paths = paths_of(files)?;
    let mut readers = Vec::new();
    for path in &paths {
        readers.push(open(path, &options.files)?.until(&stop));
    }
    let (mut bar, mut shown) = (Bar::of(&paths[0], files.quiet), 0);
    let mut watch = |number: usize, bytes| {
        if number != shown {
            (bar, shown) = (Bar::of(&paths[number], files.quiet), number);
        }
        bar.show(bytes);
        // The flag carries no memory.
        !stop.load(Relaxed)
    };
    let sink = open_sink(&sink, &options).map_err(EngineError::from)?;
    let recovered = burstline_engine::recover(readers, &options, sink, &mut watch);
    bar.clear();
    let recovered = recovered?;
    let is_closed = recovered.unaccounted() == 0;
    // Intact packets that the new file could not take, such as those of a second link type.
    let left_out = recovered.lost.of(Loss::LinkMismatch) + recovered.lost.of(Loss::TooLong);
    let is_success = is_closed && left_out == 0 && !stop.load(Relaxed);
    match (files.json, files.quiet) {
        (true, _) => stream.print(&archive::recover_object(&recovered, is_success))?,
        (false, true) => {}
        (false, false) => stream.print(&archive::recovered(&recovered, &args.write))?,
    }
    if !is_closed {
        complain_of_ledger(recovered.unaccounted());
    }
    Ok(code(is_success))
}

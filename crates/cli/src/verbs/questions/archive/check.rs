//! `burstline check`.

use std::process::ExitCode;

use burstline_engine::EngineError;
use burstline_port::{OpenedFiles, RunPiece, run_gaps, unfilled_gaps};

use super::{code, for_each, open};
use crate::args::CheckArgs;
use crate::confinement;
use crate::failure::Failure;
use crate::{signals, view};

/// Checks files.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    // A helper opens the files.
    confinement::give_up()?;
    let opened = OpenedFiles::default();
    let mut pieces = Vec::new();
    let (checked, is_whole) = for_each(files, &stop, |path, watch| {
        let mut reader = open(path, &opened)?.until(&stop);
        let place = reader.read_run_place().map_err(EngineError::from)?;
        let checked = burstline_engine::check(reader, watch)?;
        let is_silent = files.json || (files.quiet && checked.is_sound());
        if !is_silent {
            view::print(&view::archive::checked(&checked))?;
        }
        let path = path.to_owned();
        let packets = checked.packets + checked.lost.total();
        pieces.extend(place.map(|place| RunPiece { path, place, packets }));
        Ok(checked)
    })?;
    let is_stopped = checked.iter().any(|file| file.is_stopped);
    // A file that is there, but was not named, is not missing.
    let gaps = if is_stopped { Vec::new() } else { unfilled_gaps(run_gaps(&pieces)) };
    if !files.json {
        for gap in &gaps {
            view::print(&view::archive::gap_line(gap))?;
        }
    }
    let is_sound = checked.iter().all(|file| file.is_sound() && !file.is_stopped);
    let is_success = is_sound && is_whole && gaps.is_empty();
    if files.json {
        view::print(&view::archive::check_object(&checked, &gaps, is_success))?;
    }
    Ok(code(is_success))
}

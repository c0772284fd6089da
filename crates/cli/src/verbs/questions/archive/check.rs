//! `burstline check`.

use std::process::ExitCode;

use burstline_port::OpenedFiles;

use super::{code, for_each, open, without_rights};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::{signals, view};

/// Checks files.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    let opened = OpenedFiles::default();
    let (checked, is_whole) = for_each(files, &stop, |path, watch| {
        let reader = open(path, &opened)?;
        let checked = without_rights(|| burstline_engine::check(reader, watch))?;
        let is_silent = files.json || (files.quiet && checked.is_sound());
        if !is_silent {
            view::print(&view::archive::checked(&checked))?;
        }
        Ok(checked)
    })?;
    let is_sound = checked.iter().all(|file| file.is_sound() && !file.is_stopped);
    let is_success = is_sound && is_whole;
    if files.json {
        view::print(&view::archive::check_object(&checked, is_success))?;
    }
    Ok(code(is_success))
}

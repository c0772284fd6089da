//! `burstline info`.

use std::process::ExitCode;

use burstline_port::OpenedFiles;

use super::{code, for_each, open, without_rights};
use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::{signals, view};

/// Describes files.
pub(crate) fn info(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    let opened = OpenedFiles::default();
    let (surveys, is_whole) = for_each(files, &stop, |path, watch| {
        let reader = open(path, &opened)?;
        let survey = without_rights(|| burstline_engine::survey(reader, watch))?;
        if !files.json {
            view::print(&view::archive::info::text(&survey))?;
        }
        Ok(survey)
    })?;
    let is_sound = surveys.iter().all(|file| file.scanned.is_sound() && !file.scanned.is_stopped);
    let is_success = is_sound && is_whole;
    if files.json {
        view::print(&view::archive::info::object(&surveys, is_success))?;
    }
    Ok(code(is_success))
}

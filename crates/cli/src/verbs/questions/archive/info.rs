//! `burstline info`.

use std::process::ExitCode;

use burstline_engine::Scanned;
use burstline_port::OpenedFiles;

use super::{code, for_each, open};
use crate::args::InfoArgs;
use crate::confinement;
use crate::failure::Failure;
use crate::view::archive::info::Described;
use crate::{signals, view};

/// Describes files.
pub(crate) fn info(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    // A helper opens the files.
    confinement::give_up()?;
    let opened = OpenedFiles::default();
    let (described, is_whole) = for_each(files, &stop, |path, watch| {
        let reader = open(path, &opened)?.until(&stop);
        let section = reader.first_section();
        let survey = burstline_engine::survey(reader, watch)?;
        let described = Described { survey, section };
        if !files.json {
            view::print(&view::archive::info::text(&described))?;
        }
        Ok(described)
    })?;
    let is_sound = |file: &Scanned| file.is_sound() && !file.is_stopped;
    let is_sound = described.iter().all(|file| is_sound(&file.survey.scanned));
    let is_success = is_sound && is_whole;
    if files.json {
        view::print(&view::archive::info::object(&described, is_success))?;
    }
    Ok(code(is_success))
}

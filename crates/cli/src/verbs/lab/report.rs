//! `burstline lab report`.

use std::path::Path;
use std::process::ExitCode;

use burstline_lab::reports::{self, Collection};
use burstline_sys::inode::write_own;
use burstline_sys::late::create_folders;

use crate::args::ReportArgs;
use crate::confinement::give_up;
use crate::failure::{Failure, complain};
use crate::foreign::path_text;
use crate::view;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// Reads the records and writes the requested report.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    give_up()?;
    let collection = Collection::read(&args.folder).map_err(|e| Failure::new(e.to_string()))?;
    collection.problems.iter().for_each(|problem| complain(problem));
    let page = args.page();
    write(&page, &reports::html(&collection))?;
    if let Some(folder) = &args.charts {
        let failed = |error| Failure::new(format!("folder {}: {error}", folder.display()));
        create_folders(folder).map_err(failed)?;
        for chart in reports::charts(&collection) {
            write(&folder.join(&chart.name), &chart.text)?;
        }
    }
    if let Some(file) = &args.markdown {
        let is_beside = args.charts.as_deref().is_some_and(|charts| file.parent() == Some(charts));
        let text = match is_beside {
            true => reports::markdown_beside_charts(&collection),
            false => reports::markdown(&collection),
        };
        write(file, &text)?;
    }
    if let Some(file) = &args.csv {
        write(file, &reports::csv(&collection))?;
    }
    let count = match collection.entries.len() {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    };
    if page != Path::new(STANDARD_OUTPUT) {
        view::print(&format!("{}: report of {count}\n", path_text(&page)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if file == Path::new(STANDARD_OUTPUT) {
        return Ok(view::print(text)?);
    }
    let failed = |error| Failure::new(format!("write to {}: {error}", file.display()));
    write_own(file, text.as_bytes()).map_err(failed)
}

//! `burstline index`.

use std::process::ExitCode;

use burstline_engine::EngineError;
use burstline_port::{NotIndexed, write_index};

use super::{code, for_each};
use crate::args::IndexArgs;
use crate::confinement;
use crate::failure::{Failure, complain};
use crate::{signals, view};

/// Writes indexes beside files.
pub(crate) fn index(args: &IndexArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    // A helper opens the files and writes the indexes.
    confinement::give_up()?;
    let (made, is_whole) = for_each(files, &stop, |path, watch| {
        let made = write_index(path, watch).map_err(EngineError::from)?;
        let name = path.display();
        let reason = match &made {
            Ok(made) => {
                if !files.json && !files.quiet {
                    view::print(&view::archive::indexed(path, made))?;
                }
                return Ok((path.to_owned(), Some(made.clone())));
            }
            Err(NotIndexed::Segmented) => format!("{name}: has an index in each segment"),
            Err(NotIndexed::Compressed) => {
                let what = "compressed, or not a regular file: decompress it first";
                return Err(Failure::new(format!("{name}: {what}")));
            }
            Err(NotIndexed::Stopped) => {
                return Err(Failure::new(format!("{name}: stopped, no index written")));
            }
        };
        if !files.quiet {
            complain(&reason);
        }
        Ok((path.to_owned(), None))
    })?;
    if files.json {
        view::print(&view::archive::index_object(&made, is_whole))?;
    }
    Ok(code(is_whole))
}

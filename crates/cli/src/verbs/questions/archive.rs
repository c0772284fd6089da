//! Verbs that process whole capture files: check, recover, info, extract, index.

mod check;
mod extract;
mod index;
mod info;
mod recover;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::{EngineError, Watch};
use burstline_port::{CaptureReader, OpenedFiles, captures_of};

use crate::args::FilesArgs;
use crate::failure::{FAILED, Failure, complain};
use crate::view::archive::Bar;

pub(crate) use check::check;
pub(crate) use extract::extract;
pub(crate) use index::index;
pub(crate) use info::info;
pub(crate) use recover::recover;

/// Returns the capture files that the arguments name, each once.
fn paths_of(args: &FilesArgs) -> Result<Vec<PathBuf>, Failure> {
    let look = |target: &str| Ok(captures_of(target).map_err(EngineError::from)?);
    find(args, PathBuf::as_path, look)
}

/// Collects what `look` finds for each argument, each path once, and reports skipped files.
fn find<T>(
    args: &FilesArgs,
    path_of: impl Fn(&T) -> &Path,
    mut look: impl FnMut(&str) -> Result<(Vec<T>, usize), Failure>,
) -> Result<Vec<T>, Failure> {
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for target in args.targets() {
        let (captures, skipped) = look(target)?;
        if skipped > 0 && !args.quiet {
            complain(&format!("{target}: skipped files that are not captures: {skipped}"));
        }
        all.extend(captures.into_iter().filter(|one| known.insert(path_of(one).to_owned())));
    }
    Ok(all)
}

/// Opens a capture file.
pub(crate) fn open(path: &Path, files: &OpenedFiles) -> Result<CaptureReader, Failure> {
    let opened = CaptureReader::open(&path.to_string_lossy(), files);
    Ok(opened.map_err(EngineError::from)?)
}

/// Runs `work` on each file, and continues after an unreadable one. Returns the results, and
/// whether all files could be read.
fn for_each<T>(
    args: &FilesArgs,
    stop: &AtomicBool,
    mut work: impl FnMut(&Path, &mut Watch<'_>) -> Result<T, Failure>,
) -> Result<(Vec<T>, bool), Failure> {
    let (mut done, mut is_whole) = (Vec::new(), true);
    for path in paths_of(args)? {
        let mut bar = Bar::of(&path, args.quiet);
        // The flag carries no memory.
        let mut watch = |bytes| {
            bar.show(bytes);
            !stop.load(Relaxed)
        };
        let worked = work(&path, &mut watch);
        bar.clear();
        match worked {
            Ok(outcome) => done.push(outcome),
            Err(failure) => {
                is_whole = false;
                complain(&failure.to_string());
            }
        }
        if stop.load(Relaxed) {
            break;
        }
    }
    Ok((done, is_whole))
}

fn code(is_success: bool) -> ExitCode {
    if is_success { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

//! `burstline capture --resume`: what is there of a recording, and the file that it goes on in.
//!
//! Nothing is appended to a file that a crash has left: its tail may be torn. What it has is
//! counted once more, without rights, and stands in the comment of the next file.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_engine::{EngineError, Scanned};
use burstline_port::{OpenedFiles, Resumed, newest_numbered, numbered, striped_paths};

use super::archive;
use crate::args::CaptureArgs;
use crate::failure::{Failure, complain};

/// How a recording goes on.
pub(super) struct Plan {
    /// What is written to.
    pub(super) path: String,
    pub(super) resumed: Resumed,
}

/// Looks at what is there. `None`: nothing, and the recording begins.
pub(super) fn plan(args: &CaptureArgs) -> Result<Option<Plan>, Failure> {
    let path = args.write();
    let is_one = striped_paths(path).is_ok_and(|paths| paths.len() == 1);
    if path == "-" || !is_one {
        return Err(Failure::usage("--resume continues one regular file: name one with --write"));
    }
    let (last, next) = match args.files.rotation() {
        Some(_) => {
            let newest = newest_numbered(Path::new(path)).map_err(EngineError::from)?;
            (newest, path.to_owned())
        }
        None => {
            let is_there = |number: &u32| fs::symlink_metadata(numbered(path, *number)).is_ok();
            let there = (1..).take_while(is_there).count() as u32;
            let last = (there > 0).then(|| PathBuf::from(numbered(path, there)));
            (last, numbered(path, there + 1))
        }
    };
    let Some(last) = last else { return Ok(None) };
    let resumed = look_at(&last)?;
    if !args.common.quiet {
        complain(&resumed.comment);
    }
    Ok(Some(Plan { path: next, resumed }))
}

/// What a file has, and what was lost in it.
fn look_at(path: &Path) -> Result<Resumed, Failure> {
    let name = path.display().to_string();
    if fs::metadata(path).is_ok_and(|found| found.len() == 0) {
        let comment = format!("resumes after {name}, which is empty");
        return Ok(Resumed { first_packet: 0, comment });
    }
    let reader = archive::open(path, &OpenedFiles::default())?;
    let checked = archive::without_rights(|| burstline_engine::check(reader, &mut |_| true))?;
    let first_packet = next_packet(&checked);
    let state = if checked.is_sound() { "is whole" } else { "was broken off" };
    let (packets, corrupt, missing) = (checked.packets, checked.lost.corrupt, checked.lost.missing);
    let comment = format!(
        "resumes after {name}, which {state}: {packets} packets, {corrupt} corrupt, \
         {missing} missing; what came between the two files is not counted"
    );
    Ok(Resumed { first_packet, comment })
}

/// The number of the packet that comes next.
fn next_packet(checked: &Scanned) -> u64 {
    let unchecked = checked.packets - checked.checked;
    match checked.recorded.last {
        Some(last) => last.first_packet + u64::from(last.packets) + unchecked,
        None => checked.packets,
    }
}

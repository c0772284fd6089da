//! `burstline capture --resume`: what is there of a recording, and the file that it goes on in.
//!
//! Nothing is appended to a file that a crash has left: its tail may be torn. What it has is
//! counted once more, without rights, and stands in the comment of the next file.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_engine::Scanned;
use burstline_port::{OpenedFiles, Resumed, numbered, striped_paths};

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
        return Err(Failure::usage(
            "--resume goes on with one regular file: name one with --write",
        ));
    }
    let (last, next) = match args.files.rotation() {
        Some(_) => (newest(Path::new(path))?, path.to_owned()),
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

/// The newest file of a rotation: `stem_NUMBER_TIME.ext` of the latest time and number.
fn newest(path: &Path) -> Result<Option<PathBuf>, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let fail = |error| Failure::new(format!("{}: {error}", folder.display()));
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, extension) = (text(path.file_stem()), text(path.extension()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?.path();
        let name = text(entry.file_stem());
        let Some(rest) = name.strip_prefix(&format!("{stem}_")) else { continue };
        let Some((number, time)) = rest.split_once('_') else { continue };
        let is_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_digits(number) && is_digits(time) && text(entry.extension()) == extension {
            found.push(((time.to_owned(), number.to_owned()), entry));
        }
    }
    Ok(found.into_iter().max().map(|(_, entry)| entry))
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

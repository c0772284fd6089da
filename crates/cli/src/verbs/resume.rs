//! `burstline capture --resume`: examines an interrupted recording and chooses the next file.
//!
//! Nothing is appended to the last file: a crash may have left a torn tail. Its packets are counted
//! again without privileges, and the comment of the next file reports them.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_engine::{EngineError, Scanned};
use burstline_port::{OpenedFiles, Resumed, numbered, rotated, striped_paths};
use burstline_wire::files::MAX_NEED;

use super::archive;
use crate::args::CaptureArgs;
use crate::failure::{Failure, complain};

/// How a recording continues.
pub(super) struct Plan {
    /// The file to write to.
    pub(super) path: String,
    pub(super) resumed: Resumed,
}

/// Examines the existing files. Returns `None` if there are none, so that a new recording begins.
pub(super) fn plan(args: &CaptureArgs) -> Result<Option<Plan>, Failure> {
    let path = args.write();
    let is_one = striped_paths(path).is_ok_and(|paths| paths.len() == 1);
    if path == "-" || !is_one {
        return Err(Failure::usage("--resume continues one regular file: name one with --write"));
    }
    let (files, next) = match args.files.rotation() {
        Some(_) => (rotated(Path::new(path)).map_err(EngineError::from)?, path.to_owned()),
        None => {
            let is_there = |number: &u32| fs::symlink_metadata(numbered(path, *number)).is_ok();
            let there = (1..).take_while(is_there).count() as u32;
            let files = (1..=there).map(|number| PathBuf::from(numbered(path, number)));
            (files.collect(), numbered(path, there + 1))
        }
    };
    let Some((last, before)) = files.split_last() else { return Ok(None) };
    let resumed = look_at(last, before)?;
    if !args.common.quiet {
        complain(&resumed.comment);
    }
    Ok(Some(Plan { path: next, resumed }))
}

/// Counts the packets and losses of the last file. `before`: the files before it, oldest first.
fn look_at(path: &Path, before: &[PathBuf]) -> Result<Resumed, Failure> {
    let name = path.display().to_string();
    if is_empty(path) {
        let comment = format!("resumes after {name}, which is empty");
        return Ok(Resumed { first_packet: packets_of(before), comment });
    }
    let checked = check(path)?;
    let first_packet = next_packet(&checked).unwrap_or_else(|| match is_long(path) {
        true => checked.packets,
        false => packets_of(before) + checked.packets,
    });
    let state = if checked.is_sound() { "is whole" } else { "was broken off" };
    let (packets, corrupt, missing) = (checked.packets, checked.lost.corrupt, checked.lost.missing);
    let comment = format!(
        "resumes after {name}, which {state}: {packets} packets, {corrupt} corrupt, \
         {missing} missing; packets between the two files are not counted"
    );
    Ok(Resumed { first_packet, comment })
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() == 0)
}

/// Returns whether a file is longer than any segment.
fn is_long(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > MAX_NEED as u64)
}

fn check(path: &Path) -> Result<Scanned, Failure> {
    let reader = archive::open(path, &OpenedFiles::default())?;
    archive::without_rights(|| burstline_engine::check(reader, &mut |_| true))
}

/// Returns the number of the packet after those of a file. `None` if the file is plain pcapng and
/// does not contain it, like one that ended within its first segment.
fn next_packet(checked: &Scanned) -> Option<u64> {
    let unchecked = checked.packets - checked.checked;
    let last = checked.recorded.last?;
    Some(last.first_packet + u64::from(last.packets) + unchecked)
}

/// Returns the number of the packet after those of all files. It is that of the last file with
/// segments, plus the packets of plain files after it. A plain file longer than a segment, or an
/// unreadable one, was never part of such a recording. Files before it do not count.
fn packets_of(files: &[PathBuf]) -> u64 {
    let mut packets = 0;
    for path in files.iter().rev().filter(|path| !is_empty(path)) {
        let Ok(checked) = check(path) else { break };
        if let Some(number) = next_packet(&checked) {
            return number + packets;
        }
        packets += checked.packets;
        if is_long(path) {
            break;
        }
    }
    packets
}

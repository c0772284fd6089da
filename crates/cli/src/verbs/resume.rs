//! `burstline capture --resume`: what is there of a recording, and the file that it goes on in.
//!
//! Nothing is appended to a file that a crash has left: its tail may be torn. What it has is
//! counted once more, without rights, and stands in the comment of the next file.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_engine::{EngineError, Scanned};
use burstline_port::{OpenedFiles, Resumed, numbered, rotated, striped_paths};
use burstline_wire::files::MAX_NEED;

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

/// What the last file has, and what was lost in it. `before`: those before it, oldest first.
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
         {missing} missing; what came between the two files is not counted"
    );
    Ok(Resumed { first_packet, comment })
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() == 0)
}

/// Whether a file is longer than any segment.
fn is_long(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > MAX_NEED as u64)
}

fn check(path: &Path) -> Result<Scanned, Failure> {
    let reader = archive::open(path, &OpenedFiles::default())?;
    archive::without_rights(|| burstline_engine::check(reader, &mut |_| true))
}

/// The number of the packet that comes behind those of a file. `None`: it is plain pcapng, as one
/// that ended within its first segment is, and does not say it.
fn next_packet(checked: &Scanned) -> Option<u64> {
    let unchecked = checked.packets - checked.checked;
    let last = checked.recorded.last?;
    Some(last.first_packet + u64::from(last.packets) + unchecked)
}

/// The number of the packet that comes behind those of all files: what the last file with segments
/// says, and the packets of the plain ones behind it. A plain one that is longer than a segment was
/// never part of such a recording, nor was one that cannot be read: no number is in front of it.
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

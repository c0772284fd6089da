//! Shared code of verbs that write files: the options of an output.

use std::path::Path;

use burstline_port::{FileNaming, OutputOptions, steady_folder, striped_paths};
use burstline_sys::calendar::format_local;
use burstline_sys::clock;
use burstline_sys::inode::{folder_of, or_here};
use burstline_sys::late;
use burstline_sys::users::{self, Account};

use super::flight;
use crate::args::{CommonArgs, OutputArgs};
use crate::failure::Failure;

/// Returns the options for output files. Checks them before anything is opened, so that a file that
/// cannot be created is reported now and not when it is needed.
pub(super) fn output_options(
    files: &OutputArgs,
    path: &str,
    common: &CommonArgs,
) -> Result<OutputOptions, Failure> {
    files.check().map_err(Failure::usage)?;
    let keeps_privileges = common.keep_privileges;
    let mut options = files.options(keeps_privileges);
    let Some(rotation) = &options.rotation else {
        // Created before privileges are dropped. Files of a rotation are created by that user.
        if let Some(successor) = &common.successor {
            let creation = &mut options.creation;
            creation.user.get_or_insert(successor.user);
            creation.group.get_or_insert(successor.group);
        }
        return Ok(options);
    };
    let owner = &options.creation;
    if !keeps_privileges && !may_give(owner.user, owner.group, common.successor.as_ref()) {
        let what = "--owner with several files needs --keep-privileges: later files are made \
                    without root's rights; or -Z USER, who then makes the files and owns them";
        return Err(Failure::usage(what));
    }
    let is_timed = rotation.naming == FileNaming::Timed;
    for path in striped_paths(path).map_err(Failure::usage)? {
        if path == "-" {
            continue;
        }
        let path = if is_timed { rehearsed(Path::new(&path)) } else { path };
        if late::metadata(Path::new(&path)).map_or(true, |found| found.is_file()) {
            flight::Names::new(&path).rehearse(keeps_privileges)?;
        }
    }
    Ok(options)
}

/// Returns the path at which to try whether files can be made: the name that a file would have now,
/// in its deepest folder that exists. The recorder makes the other folders with the first packet.
fn rehearsed(path: &Path) -> String {
    let text = path.to_string_lossy();
    let now = format_local(clock::realtime_ns() / 1_000_000_000, &text).unwrap_or(text.into());
    let (now, steady) = (Path::new(&now), steady_folder(path));
    let is_there = |folder: &&Path| *folder == steady || late::is_folder(or_here(folder));
    let folder = folder_of(now).ancestors().find(is_there).unwrap_or(steady);
    folder.join(now.file_name().unwrap_or_default()).to_string_lossy().into_owned()
}

/// Whether a job without rights may give a file that it makes to this user and group: to itself,
/// and to groups of the user that it becomes.
fn may_give(user: Option<u32>, group: Option<u32>, successor: Option<&Account>) -> bool {
    let own = successor.map_or_else(users::effective_user, |account| account.user);
    let is_member =
        |group: u32| successor.is_some_and(|own| own.group == group || own.groups.contains(&group));
    user.is_none_or(|user| user == own) && group.is_none_or(is_member)
}

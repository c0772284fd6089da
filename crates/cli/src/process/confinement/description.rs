//! The rights of verbs that read the description of another machine: `doctor --machine`.
//!
//! It may come from anyone. So the file is opened, and a folder for its parts made, before the
//! threads give up their rights; then it is read. A description may also be a folder of files,
//! which may be root's alone. Root reads it without capabilities, with Landlock and listed calls.

use std::fs;
use std::path::{Path, PathBuf};

use burstline_sys::helper::{Grant, GrantKind};
use burstline_sys::kept;
use burstline_sys::privileges::Need;
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::users::Account;

use super::wants::Wants;
use super::{can_reach, give_folder, give_up, name_successor, name_what, nobody, refusal, refused};
use crate::failure::Failure;

/// What the folder's name begins with.
const PREFIX: &str = "burstline-machine-";

/// Gives up the caller's rights before it reads a description. Returns a folder where the parts of
/// a file are laid out, and `None` if `path` is a folder itself.
pub(crate) fn give_up_before_description(path: &Path) -> Result<Option<TemporaryFolder>, Failure> {
    let failed = |error| Failure::new(format!("read {}: {error}", path.display()));
    let found = fs::metadata(path).map_err(failed)?;
    let mut wants = Wants::default();
    let (mut folder, refusal) = (None, refusal()?);
    if found.is_dir() {
        wants.grants.push(Grant::of(path.to_owned(), GrantKind::Read));
        wants.stay_of_this_user();
    } else {
        kept::keep(path, false);
        let user = nobody().map_err(|error| refused(&error))?.filter(|_| refusal.is_some());
        let lent = user.as_ref().and_then(lent_folder);
        if user.is_some() && lent.is_none() {
            wants.stay_of_this_user();
        }
        let made = lent.map_or_else(|| TemporaryFolder::create(PREFIX), Ok);
        let made = made.map_err(|error| Failure::new(error.to_string()))?;
        wants.temporary = Some(made.path().to_owned());
        wants.calls.push(Need::Folders);
        folder = Some(made);
    }
    match refusal {
        Some(refusal) => name_what(wants, refusal, None, false, refused)?,
        None => name_successor(None)?,
    }
    give_up()?;
    Ok(folder)
}

/// Makes a folder that this user owns and may reach. Root's own place may be closed to others.
fn lent_folder(user: &Account) -> Option<TemporaryFolder> {
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/tmp")];
    places.iter().find_map(|place| {
        let folder = TemporaryFolder::create_in(place, PREFIX).ok()?;
        give_folder(folder.path(), user).ok()?;
        can_reach(folder.path(), user).then_some(folder)
    })
}

//! The rights of what reads descriptions: of another machine, as `doctor --machine`, or of an
//! experiment, as `lab run`.
//!
//! It may come from anyone. So the file is opened, and a folder for its parts made, before the
//! threads give up their rights; then it is read. A description may also be a folder of files,
//! which may be root's alone. Root reads it without capabilities, with Landlock and listed calls.

use std::path::{Path, PathBuf};
use std::{fs, io};

use burstline_sys::helper::{Grant, GrantKind};
use burstline_sys::inode::read_text;
use burstline_sys::kept;
use burstline_sys::privileges::{self, CallFilter, Confinement, LateFiles, Need, Ruleset};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::users::Account;

use super::wants::Wants;
use super::{can_reach, give_folder, give_up, name_successor, name_what, nobody, refusal, refused};
use crate::failure::Failure;
use crate::job::apart;

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

/// Has `work` read the text at `path`, which is opened here, and understand it. It runs on a thread
/// of nobody's that may open nothing. The verb keeps its rights, as that of an experiment, which
/// starts programs with them.
pub(crate) fn read_by_nobody<T: Send>(
    path: &Path,
    work: impl FnOnce(io::Result<String>) -> T + Send,
) -> Result<T, Failure> {
    let Some(refusal) = refusal()? else { return Ok(work(read_text(path))) };
    kept::keep(path, false);
    let made = || -> io::Result<Confinement> {
        let calls = CallFilter::is_supported()
            .then(|| CallFilter::with_late_files(&[], LateFiles::default(), refusal));
        Ok(Confinement { user: nobody()?, files: Ruleset::new()?, calls })
    };
    let confinement = made().map_err(|error| refused(&error))?;
    let read = || privileges::give_up_as(&confinement).map(|()| work(read_text(path)));
    apart("description", read)?.map_err(|error| refused(&error))
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

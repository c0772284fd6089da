//! Where the files of a set are: what its job may open when it has dropped its rights.

use std::path::{Path, PathBuf};

use burstline_sys::limits;

use super::super::super::place::folder_of;
use super::super::super::several::stripes::striped_paths;
use super::KEYS;
use super::listing::{files_of, folder_looked_in};
use crate::Address;

/// Descriptors reserved for the rest of the job, and a number of files that always fits.
const SPARE_FILES: u64 = 512;
const FEW: usize = 256;

/// What a job may have to open for a set after it has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetPlaces {
    /// The folders of its files, or the path of a file that is named by itself.
    pub paths: Vec<PathBuf>,
    /// The number of files, including those that are no captures.
    pub files: usize,
}

impl SetPlaces {
    /// Looks up what a path or pattern names, as for [`captures_of`](super::captures_of). What
    /// cannot be listed is left out: opening the set reports it. Cost: opens no file.
    pub fn of(target: &str) -> Self {
        let mut places = Self::default();
        let several = striped_paths(target).unwrap_or_else(|_| vec![target.to_owned()]);
        for target in several {
            let path = Path::new(&target);
            if path.is_file() {
                places.paths.push(path.to_owned());
                places.files += 1;
            } else if let Ok(files) = files_of(path) {
                places.paths.push(folder_of(&files[0]).to_owned());
                places.files += files.len();
            }
        }
        places
    }

    /// The same for the address of a set: one that is followed opens any number of files later.
    pub fn of_address(address: &Address) -> Self {
        let is_followed = address.values(KEYS).and_then(|values| values.switch("follow"));
        if !is_followed.unwrap_or(false) {
            return Self::of(address.target());
        }
        let several = striped_paths(address.target()).unwrap_or_default();
        let folders = several.iter().map(|target| folder_looked_in(Path::new(target)).to_owned());
        Self { paths: folders.collect(), files: usize::MAX }
    }

    /// Whether a set of these files opens some of them only when their time has come: there are
    /// more than this process may have open.
    pub fn opens_later(&self) -> bool {
        self.files > kept_open(self.files)
    }
}

/// Returns how many files of a set of this many stay open until they are read.
pub(super) fn kept_open(files: usize) -> usize {
    let limit = if files > FEW { limits::raise_open_files() } else { limits::open_files() };
    limit.map_or(usize::MAX, |most| most.saturating_sub(SPARE_FILES) as usize)
}

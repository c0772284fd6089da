//! Looks where the open file is, and removes it if it is empty.

use std::fs::File;

use burstline_sys::late;

use super::super::super::recording::{Mark, Unsafe, Whereabouts, removed};
use super::Files;

impl Files {
    /// Looks where the open file is. If it was removed, [`failed_sync`](Self::failed_sync) has it.
    pub(in super::super) fn look_at_place(&mut self) -> Whereabouts {
        let of = |file: &File| Whereabouts::of(file, &self.path);
        let found = self.held.as_ref().map_or(Whereabouts::InPlace, of);
        if found == Whereabouts::Removed {
            let (path, synced) = (self.path.clone(), Mark::default());
            self.gone = Some(Unsafe { path, error: removed(), synced, lost: Vec::new() });
        }
        found
    }

    /// Removes the open file of several, if there is nothing in it.
    pub(in super::super) fn remove_empty(&mut self) {
        let is_empty = |file: &File| file.metadata().is_ok_and(|found| found.len() == 0);
        let is_of_several = self.rotating.is_some() && self.held.as_ref().is_some_and(is_empty);
        if is_of_several && self.look_at_place() == Whereabouts::InPlace {
            // If it fails, an empty file stays.
            let _ = late::remove_file(&self.path);
        }
    }
}

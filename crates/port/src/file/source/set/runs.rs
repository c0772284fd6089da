//! Counts the packets that are missing because a file of a folder is gone.

use std::path::PathBuf;

use super::super::super::recording::{RunPiece, RunPlace, run_gaps, unfilled_gaps};
use crate::{Loss, PortAccount};

/// The files of a set that were read to their end, by their places in the runs that made them.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Whether the set has all files of a folder, and all their packets. Only then is what is
    /// missing between two of them lost, and not merely unwanted.
    is_whole: bool,
    /// Whether other files of the folder may hold what is missing.
    looks_around: bool,
    pieces: Vec<RunPiece>,
}

impl Runs {
    pub(super) fn new(is_whole: bool) -> Self {
        Self { is_whole, ..Self::default() }
    }

    /// The same for the files of a set that is followed: a pattern may leave some out.
    pub(super) fn of_followed(is_whole: bool) -> Self {
        Self { is_whole, looks_around: true, ..Self::default() }
    }

    /// Notes a file, and the packets that it was written with.
    pub(super) fn have_read(&mut self, path: PathBuf, place: Option<RunPlace>, packets: u64) {
        if let Some(place) = place.filter(|_| self.is_whole) {
            self.pieces.push(RunPiece { path, place, packets });
        }
    }

    /// Adds what is missing between the files to an account, once: when all of them are read.
    pub(super) fn count_gaps(&mut self, account: &mut PortAccount) {
        let gaps = run_gaps(&std::mem::take(&mut self.pieces));
        for gap in if self.looks_around { unfilled_gaps(gaps) } else { gaps } {
            account.offered += gap.packets();
            account.lost.add(Loss::MissingSegments, gap.packets());
            account.is_damaged = true;
            account.note(|| gap.to_string());
        }
    }
}

//! Which packets are missing between the files of one run of a recorder.
//!
//! ```text
//!  files of one run    | 0 to 999 | 1000 to 1999 |                | 3000 to 3999 |
//!                                                 gap: a file is gone
//! ```
//!
//! Each file of a rotation says which run made it, and how many packets of the recording are before
//! it. Nothing else is certain. Names may be changed, and a recorder that begins again uses other
//! numbers. A ring removes the oldest files of its run: what is missing in front is not lost. What
//! is missing at the end, or between two runs, nobody can know.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::path::{Path, PathBuf};

use burstline_sys::late;

use super::super::CaptureReader;
use super::super::place::folder_of;
use crate::opened::OpenedFiles;

/// The place of a file in the run of a recorder that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunPlace {
    /// A random number of the run.
    pub run: u64,
    /// Packets of the recording in the files before it.
    pub packets_before: u64,
}

/// A file that was read from start to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPiece {
    /// Its path.
    pub path: PathBuf,
    /// Its place.
    pub place: RunPlace,
    /// The packets that it was written with, as far as it tells.
    pub packets: u64,
}

/// Packets that are in none of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGap {
    /// The file before them.
    pub after: PathBuf,
    /// The file behind them.
    pub before: PathBuf,
    /// The run.
    pub run: u64,
    /// Their numbers in the recording, from 0.
    pub numbers: Range<u64>,
}

impl RunGap {
    /// Returns how many packets are missing.
    pub fn packets(&self) -> u64 {
        self.numbers.end - self.numbers.start
    }

    fn is_filled_by(&self, file: &(PathBuf, RunPlace)) -> bool {
        let (path, place) = file;
        path.file_name() != self.after.file_name()
            && place.run == self.run
            && self.numbers.contains(&place.packets_before)
    }
}

/// Returns the gaps of which no packets are in another file of the folder of the file before them:
/// such a file is not gone. Cost: opens the files of each folder once.
pub fn unfilled_gaps(mut gaps: Vec<RunGap>) -> Vec<RunGap> {
    let mut known: BTreeMap<PathBuf, Vec<(PathBuf, RunPlace)>> = BTreeMap::new();
    gaps.retain(|gap| {
        let folder = folder_of(&gap.after).to_owned();
        let files = known.entry(folder).or_insert_with_key(|folder| places_in(folder));
        !files.iter().any(|file| gap.is_filled_by(file))
    });
    gaps
}

/// Returns the files of a folder that say their place in a run.
fn places_in(folder: &Path) -> Vec<(PathBuf, RunPlace)> {
    let Ok(names) = late::names_in(folder) else { return Vec::new() };
    let place = |path: PathBuf| {
        let path = late::is_file(&path).then_some(path)?;
        let opened = CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default());
        Some((path, opened.ok()?.read_run_place().ok()??))
    };
    names.into_iter().filter_map(|name| place(folder.join(name))).collect()
}

impl Display for RunGap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (packets, after) = (self.packets(), self.after.display());
        let before = self.before.display();
        let what = "a file is gone, or the end of the first one";
        write!(f, "{packets} packets between {after} and {before} are missing: {what}")
    }
}

/// Returns the packets that are missing between files of one run, in order.
pub fn run_gaps(pieces: &[RunPiece]) -> Vec<RunGap> {
    let mut pieces: Vec<_> = pieces.iter().collect();
    pieces.sort_by_key(|piece| piece.place);
    let (mut gaps, mut last): (Vec<RunGap>, Option<&RunPiece>) = (Vec::new(), None);
    // The number behind all packets of the run so far.
    let mut end = 0;
    for piece in pieces {
        let RunPlace { run, packets_before } = piece.place;
        let before = last.filter(|last| last.place.run == run);
        if let Some(before) = before
            && packets_before > end
        {
            let (after, before) = (before.path.clone(), piece.path.clone());
            gaps.push(RunGap { after, before, run, numbers: end..packets_before });
        }
        let piece_end = packets_before.saturating_add(piece.packets);
        end = if before.is_some() { end.max(piece_end) } else { piece_end };
        last = Some(piece);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: &str, run: u64, packets_before: u64, packets: u64) -> RunPiece {
        RunPiece { path: name.into(), place: RunPlace { run, packets_before }, packets }
    }

    #[test]
    fn only_what_is_missing_between_files_of_one_run_is_a_gap() {
        let [a, b, c, d] = [0, 10, 20, 30].map(|at| piece(&format!("x{at}"), 7, at, 10));
        let of = |pieces: &[&RunPiece]| {
            let pieces: Vec<_> = pieces.iter().map(|piece| (*piece).clone()).collect();
            let gaps = run_gaps(&pieces).into_iter();
            gaps.map(|gap| (gap.after, gap.before, gap.numbers)).collect::<Vec<_>>()
        };
        let gap = |after: &RunPiece, before: &RunPiece, numbers: Range<u64>| {
            (after.path.clone(), before.path.clone(), numbers)
        };
        assert!(of(&[&d, &c, &b, &a]).is_empty(), "in any order");
        assert!(of(&[&c, &d]).is_empty(), "a ring has removed those in front");
        assert!(of(&[&a, &b]).is_empty(), "nobody knows what came later");
        assert_eq!(of(&[&a, &d, &a]), [gap(&a, &d, 10..30)]);
        let torn = RunPiece { packets: 4, ..b.clone() };
        assert_eq!(of(&[&a, &torn, &c]), [gap(&torn, &c, 14..20)]);
        // Another run, whose ring has removed its first files, or that went on with the numbers.
        let other = piece("y", 8, 50, 10);
        assert!(of(&[&a, &b, &other]).is_empty());
        assert!(of(&[]).is_empty());
    }
}

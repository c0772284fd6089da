//! The space that the files of a job take: a ring of files, and a floor of free space.

use std::io;

use burstline_sys::direct::free_bytes;

use super::super::super::recording::Safe;
use super::Files;
use crate::Loss;

/// Bytes written between two checks of the file system's free space.
const LOOK_BYTES: u64 = 1 << 20;

impl Files {
    /// Removes the oldest files of a ring that has one too many with the open one.
    pub(super) fn trim_ring(&mut self) {
        if let (Some(rotating), Some(safe)) = (&mut self.rotating, &self.safe) {
            let stay = rotating.rotation.ring_files.map_or(usize::MAX, |files| files as usize);
            while rotating.made.len() >= stay
                && let Some(oldest) = rotating.made.pop_front()
            {
                safe.remove(oldest);
            }
        }
    }

    /// Ends the job, or removes the oldest files of a ring, if the file system has too little
    /// space.
    pub(in super::super) fn look_at_space(&mut self, bytes: u64, pending: u64) {
        let Some(space) = &self.space else { return };
        if bytes < self.next_look {
            return;
        }
        self.next_look = bytes + LOOK_BYTES;
        let least = self.options.least_free_bytes;
        // First: a file that is removed in between counts twice, and none is removed too many.
        let mut freeing = self.safe.as_ref().map_or(0, Safe::freeing);
        // If unknown, the write that fills the disk fails.
        let free = free_bytes(space).unwrap_or(u64::MAX);
        // Space for unwritten bytes, for those until the next check, and for the end of the file.
        let wanted = least.saturating_add(pending + 2 * LOOK_BYTES);
        if let (Some(rotating), Some(safe)) = (&mut self.rotating, &self.safe)
            && rotating.rotation.ring_files.is_some()
        {
            while free.saturating_add(freeing) < wanted
                && let Some(oldest) = rotating.made.pop_front()
            {
                freeing += oldest.bytes;
                safe.remove(oldest);
            }
        }
        if free >= wanted || freeing > 0 {
            return;
        }
        let what = format!("only {free} bytes are free, close to the limit --min-free {least}");
        let error = io::Error::new(io::ErrorKind::StorageFull, what);
        (self.refuses, self.last_word) =
            (Some(Loss::DiskFull), Some(self.failed("write to", error)));
    }
}

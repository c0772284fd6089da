//! What the comment of a recorded file's section says of its place in the recording.

use super::super::super::recording::{
    RunPlace, START_BYTES, packets_before, run_place, run_place_bytes,
};
use super::CaptureReader;
use crate::PortError;

impl CaptureReader {
    /// Returns how many packets of its recording are in the files before an unread one, if the
    /// comment of its section says so. `None` for a pipe.
    ///
    /// # Errors
    /// [`PortError::Io`].
    ///
    /// Cost: none beyond opening the file, as a rule.
    pub fn read_packets_before(&mut self) -> Result<Option<u64>, PortError> {
        self.read_of_start(|_| START_BYTES, packets_before)
    }

    /// Returns the place of an unread file in the run of a recorder that made it, if the comment of
    /// its section says so. `None` for a pipe.
    ///
    /// # Errors
    /// [`PortError::Io`].
    ///
    /// Cost: none beyond opening the file, as a rule.
    pub fn read_run_place(&mut self) -> Result<Option<RunPlace>, PortError> {
        self.read_of_start(run_place_bytes, run_place)
    }

    /// Returns what `of` finds in the first bytes of an unread file. `needed` says how many it
    /// needs, as far as those that are there tell.
    fn read_of_start<T: Send>(
        &mut self,
        needed: fn(&[u8]) -> usize,
        of: fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, PortError> {
        if self.input.is_pipe() {
            return Ok(None);
        }
        self.without_rights(|reader| {
            while !reader.is_read && reader.window.rest().len() < needed(reader.window.rest()) {
                reader.refill()?;
            }
            Ok(of(reader.window.rest()))
        })
    }
}

//! The place of a file in the run of a recorder.

use super::super::super::recording::{RunPlace, run_place, run_place_bytes};
use super::CaptureReader;
use crate::PortError;

impl CaptureReader {
    /// Returns the place of an unread file in the run of a recorder that made it, if the comment of
    /// its section says so. `None` for a pipe.
    ///
    /// # Errors
    /// [`PortError::Io`].
    ///
    /// Cost: none beyond opening the file, as a rule.
    pub fn read_run_place(&mut self) -> Result<Option<RunPlace>, PortError> {
        if self.input.is_pipe() {
            return Ok(None);
        }
        self.without_rights(|reader| {
            let window = |reader: &Self| reader.window.rest().len();
            while !reader.is_read && window(reader) < run_place_bytes(reader.window.rest()) {
                reader.refill()?;
            }
            Ok(run_place(reader.window.rest()))
        })
    }
}

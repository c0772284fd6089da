//! Files that are still being written: what they lack is their end, and no damage.

use std::time::SystemTime;

use burstline_wire::files::{Damage, DamageKind, Trust};

use super::super::super::input::Input;
use super::CaptureReader;

/// A regular file's size and time of modification: not its change, which a new name is, too.
pub(super) type State = Option<(u64, SystemTime)>;

pub(super) fn state_of(input: &Input) -> State {
    let metadata = input.metadata()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

impl CaptureReader {
    /// Whether a recorder has the file locked, or has written it since it was opened here.
    pub fn is_being_written(&self) -> bool {
        self.input.is_locked() || state_of(&self.input) != self.state
    }

    /// Whether damage is only the end that the file does not have yet, because it is being written.
    pub fn is_end_to_come(&self, damage: &Damage) -> bool {
        let is_end =
            self.is_open_end(damage) || matches!(damage.kind, DamageKind::Truncated { .. });
        is_end && self.is_being_written()
    }

    /// Whether damage looks like the end of a recording in progress.
    pub(in super::super) fn is_open_end(&self, damage: &Damage) -> bool {
        let is_behind = self.decoder.is_segmented() && self.decoder.trust() == Trust::Unchecked;
        is_behind || matches!(damage.kind, DamageKind::NotClosed { .. })
    }
}

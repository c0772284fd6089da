//! Files that are still being written: what they lack is their end, and no damage.

use burstline_wire::files::{Damage, DamageKind, Trust};

use super::super::super::input::Input;
use super::CaptureReader;

/// Returns a regular file's size.
pub(super) fn size_of(input: &Input) -> Option<u64> {
    Some(input.metadata()?.len())
}

impl CaptureReader {
    /// Whether a program has the file locked, as a recorder does, or it has another size since it
    /// was opened here. Whoever may read the file can lock it.
    pub fn is_being_written(&self) -> bool {
        self.input.is_locked() || size_of(&self.input) != self.size
    }

    /// Whether a compressed stream only lacks the end that is still to be written.
    pub fn is_stream_end_to_come(&self) -> bool {
        self.is_cut && self.is_being_written()
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

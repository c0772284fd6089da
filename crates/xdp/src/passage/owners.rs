//! Who has each frame: known in debug builds, believed in others.

/// One who may have a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Fill ring, kernel or rx ring.
    Entry,
    /// This process.
    Us,
    /// Tx ring, kernel or completion ring.
    Exit,
}

/// The owners of the frames `[first, first + frames)`.
pub(super) struct Owners {
    #[cfg(debug_assertions)]
    first: u32,
    #[cfg(debug_assertions)]
    owners: Vec<Owner>,
}

impl Owners {
    /// All are the entry's.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "nothing is kept"))]
    pub(super) fn new(first: u32, frames: u32) -> Self {
        Self {
            #[cfg(debug_assertions)]
            first,
            #[cfg(debug_assertions)]
            owners: vec![Owner::Entry; frames as usize],
        }
    }

    /// Moves a frame. False: it is not one of our frames, or another owner's to give.
    #[inline]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, clippy::unused_self))]
    pub(super) fn hand_over(&mut self, frame: u32, from: Owner, to: Owner) -> bool {
        #[cfg(debug_assertions)]
        {
            let index = frame.wrapping_sub(self.first) as usize;
            let Some(owner) = self.owners.get_mut(index).filter(|owner| **owner == from) else {
                return false;
            };
            *owner = to;
        }
        true
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_a_frame_hands_it_over() {
        let mut owners = Owners::new(64, 64);
        assert!(owners.hand_over(64, Owner::Entry, Owner::Us));
        assert!(!owners.hand_over(64, Owner::Entry, Owner::Us), "a second time");
        assert!(owners.hand_over(64, Owner::Us, Owner::Exit));
        assert!(!owners.hand_over(64, Owner::Us, Owner::Entry));
        assert!(owners.hand_over(64, Owner::Exit, Owner::Us));
        assert!(owners.hand_over(127, Owner::Entry, Owner::Us));
        for frame in [0, 63, 128, u32::MAX] {
            assert!(!owners.hand_over(frame, Owner::Entry, Owner::Us), "another direction's");
        }
    }
}

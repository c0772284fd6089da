//! Owners of frames: tracked in debug builds, assumed in release builds.

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
    /// All frames belong to the entry.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "nothing is kept"))]
    pub(super) fn new(first: u32, frames: u32) -> Self {
        Self {
            #[cfg(debug_assertions)]
            first,
            #[cfg(debug_assertions)]
            owners: vec![Owner::Entry; frames as usize],
        }
    }

    /// Moves a frame to another owner. False if the frame is not ours, or not owned by `from`.
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
    use super::super::Census;
    use super::*;

    /// xorshift64. Source: Marsaglia, "Xorshift RNGs", 2003.
    fn next(random: &mut u64, limit: u32) -> u32 {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        (*random % u64::from(limit)) as u32
    }

    /// Frames circulate by the hundred. Then one is returned twice, comes from the wrong place, or
    /// never comes back.
    #[test]
    fn seeded_double_frees_stale_frames_and_leaks_are_all_found() {
        const FRAMES: u32 = 64;
        let round = [(Owner::Entry, Owner::Us), (Owner::Us, Owner::Exit), (Owner::Exit, Owner::Us)];
        let mut found = [0_u64; 3];
        for seed in 1..=1000_u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut owners = Owners::new(0, FRAMES);
            // Steps of its round trip that each frame has made.
            let mut steps = [0_usize; FRAMES as usize];
            let step = |owners: &mut Owners, steps: &mut [usize], frame: u32| {
                let back = (Owner::Us, Owner::Entry);
                let (from, to) = *round.get(steps[frame as usize] % 4).unwrap_or(&back);
                steps[frame as usize] += 1;
                owners.hand_over(frame, from, to)
            };
            for _ in 0..200 {
                let frame = next(&mut random, FRAMES);
                assert!(step(&mut owners, &mut steps, frame), "seed {seed}: {frame} is sound");
            }
            let (kind, frame) = (seed as usize % 3, next(&mut random, FRAMES));
            let is_found = match kind {
                0 => {
                    // Given to the kernel twice.
                    while steps[frame as usize] % 4 != 0 {
                        step(&mut owners, &mut steps, frame);
                    }
                    !owners.hand_over(frame, Owner::Us, Owner::Entry)
                }
                1 => {
                    // Completed although it is in the fill ring.
                    while steps[frame as usize] % 4 != 0 {
                        step(&mut owners, &mut steps, frame);
                    }
                    !owners.hand_over(frame, Owner::Exit, Owner::Us)
                }
                _ => {
                    // The device keeps this one; all others come back.
                    for other in 0..FRAMES {
                        let goal = if other == frame { 2 } else { 0 };
                        while steps[other as usize] % 4 != goal {
                            step(&mut owners, &mut steps, other);
                        }
                    }
                    let back = owners.owners.iter().filter(|owner| **owner == Owner::Entry).count();
                    let census = Census { frames: FRAMES, fill: back as u32, ..Census::default() };
                    census.elsewhere() == 1
                }
            };
            found[kind] += u64::from(is_found);
        }
        burstline_skip::ledger(1000, found.iter().sum(), &[]);
    }

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

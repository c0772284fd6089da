//! What peers of a port have in common, whichever protocol they speak: memory that is shared, and
//! rings in it.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use burstline_peer::{FromPeer, LONGEST, Lane, OFFLOAD_BYTES, PeerMemory, Put, Taken, ToPeer};

use crate::{Input, event, file, pipe};

/// Bytes of a peer's memory.
pub const MEMORY: u64 = 1 << 16;
/// Bytes at its beginning that have both rings.
const RINGS: u64 = 0x2000;
/// Steps of an input.
const STEPS: usize = 200;
/// Packets that a ring of [`MEMORY`] never has.
const TOO_MANY: u64 = 1 << 16;

/// A peer: what it shares with the device.
pub struct Shared {
    /// The memory, as the peer sees it.
    pub memory: Arc<PeerMemory>,
    file: OwnedFd,
    room: Vec<u8>,
}

impl Shared {
    /// With memory of zeros.
    pub fn new() -> Self {
        let file = file(MEMORY);
        let memory = Arc::new(PeerMemory::map(file.as_fd(), MEMORY).expect("it is that long"));
        Self { memory, file, room: vec![0; LONGEST] }
    }

    /// A descriptor of the memory.
    pub fn descriptor(&self) -> OwnedFd {
        self.file.try_clone().expect("a descriptor")
    }

    /// A descriptor of one kind or another.
    pub fn any_descriptor(&self, input: &mut Input<'_>) -> OwnedFd {
        match input.byte() % 4 {
            0 => pipe(),
            1 => event(),
            _ => self.descriptor(),
        }
    }

    /// Writes a word of the rings, which are where most of it matters.
    pub fn scribble(&self, input: &mut Input<'_>) {
        let at = input.word() % RINGS;
        let value = input.word().to_le_bytes();
        let _ = self.memory.write(at as usize & !1, &value[..2 << (at & 1)]);
    }

    /// Cuts the file, so that pages of the memory are gone.
    pub fn cut(&self, input: &mut Input<'_>) {
        let _ = rustix::fs::ftruncate(&self.file, input.word() % MEMORY);
    }

    /// Has the device take all packets that the peer has for it.
    ///
    /// # Panics
    /// A packet has a length that none has, there is no end of them, or the device publishes
    /// another number of them.
    pub fn take<F: FromPeer, T>(&mut self, lane: &Lane<F, T>) {
        let Some(mut ring) = lane.from.take() else { return };
        let mut taken = 0;
        loop {
            match ring.take(&mut self.room) {
                Taken::Nothing => break,
                Taken::Packet { bytes, .. } => assert!((1..=LONGEST).contains(&bytes), "{bytes}"),
                Taken::Refused(_) => {}
            }
            taken += 1;
            assert!(taken <= TOO_MANY, "a ring has no more");
        }
        assert_eq!(u64::from(ring.publish()), taken, "packets, not slots");
        lane.from.give_back(ring);
    }

    /// Has the device give the peer packets, until there is no room or there were `most`.
    pub fn put<F, T: ToPeer>(&self, lane: &Lane<F, T>, most: u32, input: &mut Input<'_>) {
        let length = 14 + usize::from(input.byte()) * 16;
        let Some(mut ring) = lane.to.take() else { return };
        for _ in 0..most {
            if ring.put(&self.room[..length], &[0; OFFLOAD_BYTES]) == Put::NoRoom {
                break;
            }
        }
        ring.publish();
        lane.to.give_back(ring);
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}

/// Does one step after the other, until the input has no more.
pub fn step_by_step(mut input: Input<'_>, mut step: impl FnMut(&mut Input<'_>)) {
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        step(&mut input);
    }
}

/// Descriptors that this process has.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

//! What targets with state have in common: an input that is read step by step, and files of a peer.

pub mod peer;

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// What is left of an input. At its end there are zeros.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to this many bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(most.min(self.0.len()));
        self.0 = later;
        now
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A number: its first byte says how many bytes it has, and how far they are shifted.
    pub fn word(&mut self) -> u64 {
        let shape = self.byte();
        let bytes = self.bytes(usize::from(shape % 9));
        let value = bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
        value << (shape / 9 % 4 * 16)
    }
}

/// A file for memory.
pub fn file(bytes: u64) -> OwnedFd {
    let file = memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("a file in memory");
    ftruncate(&file, bytes).expect("room in memory");
    file
}

/// A bell.
pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor")
}

/// What is neither.
pub fn pipe() -> OwnedFd {
    std::io::pipe().expect("two descriptors").0.into()
}

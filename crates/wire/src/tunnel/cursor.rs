//! A position in a packet that only moves forward.

use crate::headers::bytes_at;

/// The bytes of a packet up to the end that its headers declare, and the read position.
///
/// `at <= bytes.len()` always holds.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at `at`, or at the end if that is smaller.
    pub(super) fn new(bytes: &'a [u8], at: u32) -> Self {
        Self { bytes, at: (at as usize).min(bytes.len()) }
    }

    /// Returns the bytes of the whole packet.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the position from the start of the packet.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next `N` bytes without moving.
    pub(super) fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        bytes_at(self.bytes, self.at)
    }

    /// Reads the next `N` bytes and moves past them.
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.peek()?;
        self.at += N;
        Some(bytes)
    }

    /// Moves forward by `count` bytes, if that many are left.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        let at = self.at.checked_add(count).filter(|at| *at <= self.bytes.len())?;
        self.at = at;
        Some(())
    }

    /// Drops the bytes from `count` ahead: a header says that they are not its own.
    pub(super) fn cut(&mut self, count: usize) {
        let left = self.bytes.len() - self.at;
        self.bytes = &self.bytes[..self.at + left.min(count)];
    }
}

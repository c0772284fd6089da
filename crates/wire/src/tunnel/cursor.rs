//! A place in a packet that only moves forward.

use crate::headers::bytes_at;

/// The bytes of a packet up to the end that its headers declare, and how far they were read.
///
/// `at <= bytes.len()` always holds.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at `at`, or at the end if that is before it.
    pub(super) fn new(bytes: &'a [u8], at: u32) -> Self {
        Self { bytes, at: (at as usize).min(bytes.len()) }
    }

    /// The packet from its very start.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes behind us, from the very start.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next `N` bytes without moving.
    pub(super) fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        bytes_at(self.bytes, self.at)
    }

    /// Reads the next `N` bytes and moves behind them.
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.peek()?;
        self.at += N;
        Some(bytes)
    }

    /// Moves forward by `count` bytes, if there are as many.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        let at = self.at.checked_add(count).filter(|at| *at <= self.bytes.len())?;
        self.at = at;
        Some(())
    }

    /// Forgets the bytes that lie `count` or more ahead: a header says they are not its.
    pub(super) fn cut(&mut self, count: usize) {
        let left = self.bytes.len() - self.at;
        self.bytes = &self.bytes[..self.at + left.min(count)];
    }
}

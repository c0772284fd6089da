//! The general pass: a cursor that the layers move forward.

use super::{Headers, LinkType, Outcome, bytes_at};

/// A cursor over one packet and what it has found so far.
///
/// `bytes` shrinks from the back when a layer declares a shorter length, so that no later layer can
/// read link padding. `at <= bytes.len()` always holds.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    pub(super) headers: &'a mut Headers,
}

impl<'a> Walk<'a> {
    /// Walks through all layers of `packet` from `start` on, and enters what it finds into the
    /// empty `headers`.
    pub(super) fn run(link: LinkType, packet: &'a [u8], start: usize, headers: &'a mut Headers) {
        // Offsets are u32; no real packet comes near the limit.
        let bytes = &packet[..packet.len().min(u32::MAX as usize)];
        let mut walk = Self { bytes, at: start.min(bytes.len()), headers };
        walk.headers.outcome = walk.layers(link).err().unwrap_or(Outcome::Complete);
        walk.headers.end = walk.bytes.len() as u32;
    }

    fn layers(&mut self, link: LinkType) -> Result<(), Outcome> {
        let link_end = self.link(link);
        self.enter_network();
        link_end?;
        self.network()?;
        self.transport()
    }

    /// Reads the next `N` bytes without moving.
    ///
    /// # Errors
    /// `truncated` if fewer are left.
    pub(super) fn peek<const N: usize>(&self, truncated: Outcome) -> Result<[u8; N], Outcome> {
        bytes_at(self.bytes, self.at).ok_or(truncated)
    }

    /// Reads the next `N` bytes and moves behind them.
    ///
    /// # Errors
    /// `truncated` if fewer are left.
    pub(super) fn take<const N: usize>(&mut self, truncated: Outcome) -> Result<[u8; N], Outcome> {
        let bytes = self.peek(truncated)?;
        self.at += N;
        Ok(bytes)
    }

    /// Moves forward by `count` bytes.
    ///
    /// # Errors
    /// `truncated` if fewer are left.
    pub(super) fn skip(&mut self, count: usize, truncated: Outcome) -> Result<(), Outcome> {
        if self.bytes.len() - self.at < count {
            return Err(truncated);
        }
        self.at += count;
        Ok(())
    }

    /// Forgets the bytes that lie `count` or more ahead: they are padding.
    pub(super) fn cut(&mut self, count: usize) {
        let left = self.bytes.len() - self.at;
        self.bytes = &self.bytes[..self.at + left.min(count)];
    }

    /// Marks this place as the start of the network header, and for now of all above it.
    fn enter_network(&mut self) {
        self.headers.network_offset = self.at as u32;
        self.enter_transport();
    }

    /// Marks this place as the start of the transport header, and for now of the payload.
    pub(super) fn enter_transport(&mut self) {
        self.headers.transport_offset = self.at as u32;
        self.enter_payload();
    }

    /// Marks this place as the start of the payload.
    pub(super) fn enter_payload(&mut self) {
        self.headers.payload_offset = self.at as u32;
    }
}

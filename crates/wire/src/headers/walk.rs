//! The general pass: a cursor that each layer moves forward.

use super::{Headers, LinkType, Outcome, bytes_at};

/// A cursor over one packet, with the headers found so far.
///
/// `bytes` shrinks from the back if a layer declares a shorter length, so that no later layer can
/// read link padding. `at <= bytes.len()` always holds.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    pub(super) headers: &'a mut Headers,
}

impl<'a> Walk<'a> {
    /// Walks through all layers of `packet` and stores the results in the empty `headers`.
    // Inlined into its one caller, so that the cursor is in registers.
    #[inline(always)]
    pub(super) fn run(link: LinkType, packet: &'a [u8], headers: &'a mut Headers) {
        // Offsets are u32; no real packet comes near the limit.
        let bytes = &packet[..packet.len().min(u32::MAX as usize)];
        let mut walk = Self { bytes, at: 0, headers };
        walk.headers.outcome = walk.layers(link).err().unwrap_or(Outcome::Complete);
        walk.headers.end = walk.bytes.len() as u32;
    }

    #[inline(always)]
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

    /// Reads the next `N` bytes and moves past them.
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

    /// Drops the bytes from `count` ahead: they are padding.
    pub(super) fn cut(&mut self, count: usize) {
        let left = self.bytes.len() - self.at;
        self.bytes = &self.bytes[..self.at + left.min(count)];
    }

    /// Sets the network header, and for now all later offsets, to this position.
    fn enter_network(&mut self) {
        self.headers.network_offset = self.at as u32;
        self.enter_transport();
    }

    /// Sets the transport header, and for now the payload, to this position.
    pub(super) fn enter_transport(&mut self) {
        self.headers.transport_offset = self.at as u32;
        self.enter_payload();
    }

    /// Sets the payload to this position.
    pub(super) fn enter_payload(&mut self) {
        self.headers.payload_offset = self.at as u32;
    }
}

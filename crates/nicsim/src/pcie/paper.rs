//! The arithmetic of the paper: "64-byte alignment, upload path only".

use super::{DESCRIPTOR_BYTES, stride};
use crate::Mode;

/// The paper's rules: it counts traffic from device to host, each TLP padded to a multiple of
/// `alignment`. Fetching descriptors is the same in every mode there, and left out.
///
/// Source: Bi and Wang, DPDK-based Improvement of Packet Forwarding, section 4. It does not state
/// the length of a TLP's header; 20 bytes match its 192 and 128 (anything up to 28 does, for
/// packets of 64 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperRules {
    /// The most bytes of payload in a TLP.
    pub max_payload: u64,
    /// Alignment of a TLP in bytes.
    pub alignment: u64,
    /// Bytes of a TLP's header.
    pub header: u64,
}

impl Default for PaperRules {
    fn default() -> Self {
        Self { max_payload: 256, alignment: 64, header: 20 }
    }
}

impl PaperRules {
    /// Returns the bus bytes of one transfer of `bytes`.
    #[must_use]
    pub fn transfer(&self, bytes: u64) -> u64 {
        let aligned = |payload: u64| (payload + self.header).next_multiple_of(self.alignment);
        let (whole, rest) = (bytes / self.max_payload, bytes % self.max_payload);
        whole * aligned(self.max_payload) + if rest > 0 { aligned(rest) } else { 0 }
    }

    /// Returns the bus bytes to upload a packet of `length`. Contiguous packets share full TLPs, so
    /// theirs is a mean over many.
    #[must_use]
    pub fn upload(&self, mode: Mode, length: u64) -> f64 {
        match mode {
            Mode::Writeback => (self.transfer(length) + self.transfer(DESCRIPTOR_BYTES)) as f64,
            Mode::Inline => self.transfer(DESCRIPTOR_BYTES + length) as f64,
            Mode::Contiguous => {
                let a_byte = self.transfer(self.max_payload) as f64 / self.max_payload as f64;
                stride(length) as f64 * a_byte
            }
        }
    }

    /// Returns how many per cent fewer bytes `mode` takes than descriptor write-back.
    #[must_use]
    pub fn saved_percent(&self, mode: Mode, length: u64) -> f64 {
        let before = self.upload(Mode::Writeback, length);
        (before - self.upload(mode, length)) / before * 100.0
    }
}

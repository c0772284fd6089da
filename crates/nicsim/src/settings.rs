//! The options of a simulated card.

use std::fmt;
use std::ops::Range;

use crate::pcie::Bus;

/// How the device delivers packets to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Into scattered buffers; the descriptor is written back, as real cards do.
    Writeback,
    /// Into scattered buffers with the metadata before the packet; nothing is written back. The
    /// paper on Minimum-Overhead DMA proposes this.
    Inline,
    /// Contiguous in a segment of a log, with its worklist, as in the article on bursts.
    Contiguous,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Writeback, Self::Inline, Self::Contiguous];

    /// Returns the mode with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns the name in addresses and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Writeback => "writeback",
            Self::Inline => "inline",
            Self::Contiguous => "contiguous",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Settings of a card and its driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A display name.
    pub name: String,
    /// How packets are delivered.
    pub mode: Mode,
    /// Receive queues, in `[1, 16]`.
    pub queues: usize,
    /// Descriptors of a ring: a power of two in `[1, 32768]`.
    pub ring: u32,
    /// Bytes of a buffer: a power of two in `[256, 16384]`.
    pub buffer: u32,
    /// Buffers of a queue's pool in addition to those of its ring, up to 1048576; `None` for as
    /// many as the ring has. This many packets can be kept.
    pub spare: Option<u32>,
    /// Segments that a driver can hold at the same time in contiguous mode, in `[1, 8]`.
    pub window: usize,
    /// Bytes of the packet buffer on the chip, shared out among the queues.
    pub fifo: usize,
    /// The longest frame, in bytes without FCS, in `[60, 16128]`.
    pub longest: usize,
    /// Rate of the line in bit/s, with FCS, preamble and gap, in `[10^7, 10^12]`. `None` if frames
    /// take no time.
    pub line_bits_per_s: Option<f64>,
    /// The bus that is accounted for.
    pub bus: Bus,
    /// Whether packets are hashed even with one queue.
    pub is_hashing: bool,
    /// Bytes of a segment, and of a queue's log, in contiguous mode. A segment is a power of two in
    /// `[4096, 2097152]`; the log has room for 3 to 65536 of them.
    pub segment: usize,
    /// See `segment`.
    pub log_bytes: usize,
    /// The device restarts after this many frames have arrived.
    pub restart_after: Option<u64>,
    /// The link is down while frames with these numbers arrive.
    pub link_down: Range<u64>,
}

impl Settings {
    /// Values of the 82599, if it has them: rings of 512 descriptors, 512 KiB of packet buffer.
    /// Source: Intel 82599 Datasheet, 1.2.
    #[must_use]
    pub fn new(mode: Mode, bus: Bus) -> Self {
        Self {
            name: "nicsim".to_owned(),
            mode,
            queues: 1,
            ring: 512,
            buffer: 2048,
            spare: None,
            window: 1,
            fifo: 512 << 10,
            longest: 1514,
            line_bits_per_s: None,
            bus,
            is_hashing: false,
            segment: 256 << 10,
            log_bytes: 4 << 20,
            restart_after: None,
            link_down: 0..0,
        }
    }

    /// Returns the buffers of a pool.
    pub(crate) fn spare(&self) -> u32 {
        self.spare.unwrap_or(self.ring)
    }

    pub(crate) fn hashes(&self) -> bool {
        self.is_hashing || self.queues > 1
    }
}

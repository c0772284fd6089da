//! The options of a simulated card.

use std::fmt;
use std::ops::Range;

use crate::pcie::Bus;

/// How the device brings packets to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Into scattered buffers; the descriptor is written back. As cards do.
    Writeback,
    /// Into scattered buffers, what is known of a packet in front of it; nothing is written back.
    /// As the paper on Minimum-Overhead DMA proposes.
    Inline,
    /// Back to back into a segment of a log, with its worklist. As the article on bursts has it.
    Contiguous,
}

impl Mode {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Writeback, Self::Inline, Self::Contiguous];

    /// The mode of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The name in addresses and reports.
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

/// A card and its driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A name for people.
    pub name: String,
    /// How packets come to memory.
    pub mode: Mode,
    /// Receive queues, in `[1, 16]`.
    pub queues: usize,
    /// Descriptors of a ring: a power of two in `[1, 32768]`.
    pub ring: u32,
    /// Bytes of a buffer: a power of two in `[256, 16384]`.
    pub buffer: u32,
    /// Buffers of a queue's pool beside those of its ring, up to 1048576; as many as those if
    /// `None`. This many packets can be kept.
    pub spare: Option<u32>,
    /// Segments that a driver can hold at once in contiguous mode, in `[1, 8]`.
    pub window: usize,
    /// Bytes of the packet buffer on the chip, shared out among the queues.
    pub fifo: usize,
    /// The longest frame, in bytes without FCS, in `[60, 16128]`.
    pub longest: usize,
    /// Bits a second of the line, with FCS, preamble and gap, in `[10^7, 10^12]`. `None`: frames
    /// take no time.
    pub line_bits_per_s: Option<f64>,
    /// The bus that the account is of.
    pub bus: Bus,
    /// Whether packets are hashed although there is one queue.
    pub is_hashing: bool,
    /// Bytes of a segment, and of a queue's log, in contiguous mode. A segment is a power of two in
    /// `[4096, 2097152]`; the log has room for 3 to 65536 of them.
    pub segment: usize,
    /// See `segment`.
    pub log_bytes: usize,
    /// The device restarts when this many frames have arrived.
    pub restart_after: Option<u64>,
    /// While frames with these numbers arrive, the link is down.
    pub link_down: Range<u64>,
}

impl Settings {
    /// The 82599's, as far as it has them: rings of 512 descriptors, 512 KiB of packet buffer.
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

    /// Buffers of a pool.
    pub(crate) fn spare(&self) -> u32 {
        self.spare.unwrap_or(self.ring)
    }

    /// Whether packets are hashed.
    pub(crate) fn hashes(&self) -> bool {
        self.is_hashing || self.queues > 1
    }
}

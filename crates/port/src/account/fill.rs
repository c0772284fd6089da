//! Fill levels of the queues in front of a source.

/// A snapshot of a queue in front of a source, taken by the source's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFill {
    /// Which of the source's rings.
    pub ring: RingKind,
    /// The unit of its entries: `blocks`, `frames`, `slots`.
    pub unit: &'static str,
    /// Entries in the ring.
    pub filled: u64,
    /// Capacity in entries.
    pub size: u64,
}

/// The purpose of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// Received packets that wait to be taken. If it is full, packets are lost.
    Rx,
    /// Free buffers for the kernel to fill. If it is empty, packets are lost.
    Fill,
}

impl RingKind {
    /// The name in metrics and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Fill => "fill",
        }
    }
}

impl RingFill {
    /// Describes a ring of waiting packets.
    pub(crate) fn rx(unit: &'static str, filled: u64, size: u64) -> Self {
        Self { ring: RingKind::Rx, unit, filled, size }
    }

    /// Describes both rings of an XDP queue.
    pub(crate) fn of_queue(now: burstline_xdp::RingsNow) -> Vec<Self> {
        let (unit, size) = ("frames", u64::from(now.frames));
        let fill = Self { ring: RingKind::Fill, unit, filled: now.fill.into(), size };
        vec![Self::rx(unit, now.rx.into(), now.rx_entries.into()), fill]
    }
}

//! How full the queues in front of a source are.

/// A queue in front of a source, as it was when its thread looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFill {
    /// Which of the source's rings.
    pub ring: RingKind,
    /// What its entries are: `blocks`, `frames`, `slots`.
    pub unit: &'static str,
    /// Entries that are in it.
    pub filled: u64,
    /// Entries that it has room for.
    pub size: u64,
}

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// What has come and waits to be taken: full, packets are lost.
    Rx,
    /// Room that the kernel has for packets: empty, packets are lost.
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
    /// A ring of packets that wait.
    pub(crate) fn rx(unit: &'static str, filled: u64, size: u64) -> Self {
        Self { ring: RingKind::Rx, unit, filled, size }
    }

    /// Both rings of an XDP queue.
    pub(crate) fn of_queue(now: burstline_xdp::RingsNow) -> Vec<Self> {
        let (unit, size) = ("frames", u64::from(now.frames));
        let fill = Self { ring: RingKind::Fill, unit, filled: now.fill.into(), size };
        vec![Self::rx(unit, now.rx.into(), now.rx_entries.into()), fill]
    }
}

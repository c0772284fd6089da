//! What a ring is opened with.

use burstline_sys::filter::Instruction;

/// Which packets to take, by where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Those that arrive from the wire.
    In,
    /// Those that this host sends.
    Out,
    /// All.
    #[default]
    Both,
}

/// Whose clock stamps packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// The kernel, when the packet comes from the driver.
    #[default]
    Kernel,
    /// The network card, where it is set up to: `hwstamp_ctl -i IFACE -r 1`. Packets that it did
    /// not stamp get the kernel's time, and lack [`PacketMarks::has_hardware_time`].
    ///
    /// [`PacketMarks::has_hardware_time`]: super::PacketMarks::has_hardware_time
    Hardware,
}

/// How packets are shared out among the sockets of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FanoutMode {
    /// By flow hash: a flow stays with one socket.
    Hash,
    /// In turn.
    RoundRobin,
    /// By the core that the packet arrived on.
    Core,
    /// By the device's receive queue.
    Queue,
    /// By what a cBPF program returns, modulo the number of sockets. It sees arriving packets
    /// from behind their Ethernet header on.
    Program(Vec<Instruction>),
}

/// A group of sockets that share the packets of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// How they share.
    pub mode: FanoutMode,
    /// The group's number in its network namespace: sockets with the same number share the packets.
    pub group: u16,
}

/// What a ring is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Bytes of a block, a power of two. A packet longer than a block is cut, and says so.
    pub block_bytes: usize,
    /// Number of blocks, at least 2: one to fill, one to read.
    pub blocks: usize,
    /// A block with packets in it is handed over after this time at the latest, in ms.
    pub retire_timeout_ms: u32,
    /// Whether to ask the device for packets that are addressed to others.
    pub is_promiscuous: bool,
    /// Which packets to take, by direction.
    pub direction: Direction,
    /// Whose clock.
    pub timestamps: Timestamps,
    /// The descriptor of a packet socket that the parent process left open, to use in place of a
    /// new one: `socket(AF_PACKET, SOCK_RAW, 0)`. Opening it needs `CAP_NET_RAW`; nothing else here
    /// does.
    pub inherited: Option<i32>,
    /// A group to share packets with.
    pub fanout: Option<Fanout>,
    /// A cBPF program. The socket neither takes nor counts packets for which it returns 0.
    /// Others are cut to as many bytes as it returns. Empty: all packets, whole.
    pub filter: Vec<Instruction>,
    /// A cBPF program that accepts what `filter` rejects: a second socket counts those packets,
    /// see [`Ring::rejected`](super::Ring::rejected). Empty: they are not counted. A second socket
    /// gets no share of a fanout group, but sees all packets.
    pub complement: Vec<Instruction>,
}

impl Default for RingOptions {
    /// 32 MiB: a fifth of a second of 64-byte packets at 1 Mpps.
    fn default() -> Self {
        Self {
            block_bytes: 256 << 10,
            blocks: 128,
            retire_timeout_ms: 10,
            is_promiscuous: true,
            direction: Direction::Both,
            timestamps: Timestamps::Kernel,
            inherited: None,
            fanout: None,
            filter: Vec::new(),
            complement: Vec::new(),
        }
    }
}

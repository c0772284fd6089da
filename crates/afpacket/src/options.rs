//! Options of a ring.

use burstline_sys::filter::Instruction;

/// The direction of the packets to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Packets that arrive from the wire.
    In,
    /// Packets that this host sends.
    Out,
    /// All packets.
    #[default]
    Both,
}

/// The source of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// The kernel, when it gets the packet from the driver.
    #[default]
    Kernel,
    /// The network card, if it is configured to: `hwstamp_ctl -i IFACE -r 1`. Packets that it did
    /// not stamp get the kernel's time, and lack [`PacketMarks::has_hardware_time`].
    ///
    /// [`PacketMarks::has_hardware_time`]: super::PacketMarks::has_hardware_time
    Hardware,
}

/// How packets are distributed among the sockets of a group.
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
    /// By the result of a cBPF program, modulo the number of sockets. The program sees arriving
    /// packets without their Ethernet header.
    Program(Vec<Instruction>),
}

/// A group of sockets that share the packets of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// How the packets are distributed.
    pub mode: FanoutMode,
    /// The group's number in its network namespace: sockets with the same number share the packets.
    pub group: u16,
}

/// Options of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Bytes of a block, a power of two. A longer packet is truncated, and marked as such.
    pub block_bytes: usize,
    /// Number of blocks, at least 2: one to fill, one to read.
    pub blocks: usize,
    /// Timeout in ms after which a block with packets is retired even if it is not full.
    pub retire_timeout_ms: u32,
    /// Whether to enable promiscuous mode on the device.
    pub is_promiscuous: bool,
    /// The direction of the packets to take.
    pub direction: Direction,
    /// The source of timestamps.
    pub timestamps: Timestamps,
    /// The descriptor of a packet socket that the parent process left open, used in place of a new
    /// one: `socket(AF_PACKET, SOCK_RAW, 0)`. Opening it needs `CAP_NET_RAW`; nothing else here
    /// does.
    pub inherited: Option<i32>,
    /// A group to share packets with.
    pub fanout: Option<Fanout>,
    /// A cBPF program. The socket neither takes nor counts packets for which it returns 0. Others
    /// are truncated to as many bytes as it returns. Empty for all packets, whole.
    pub filter: Vec<Instruction>,
    /// A cBPF program that accepts exactly the packets that `filter` rejects: a second socket
    /// counts those, see [`Ring::rejected`](super::Ring::rejected). Empty for no counting. In a
    /// fanout group the second socket still sees all packets, not a share.
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

//! The transactions of a batch of packets, in each mode.

use super::{Bus, Cost, DESCRIPTOR_BYTES, Direction, stride};
use crate::Mode;

const REGISTER_BYTES: u64 = 4;
/// Bytes of the pointer that the contiguous mode writes to memory.
const POINTER_BYTES: u64 = 8;

/// Purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The driver announces descriptors by a register write.
    Doorbell,
    /// The device requests descriptors.
    DescriptorRequest,
    /// The descriptors arrive.
    DescriptorCompletion,
    /// A packet is written, with its metadata in front in the modes that do so.
    PacketWrite,
    /// A descriptor is written back.
    WriteBack,
    /// The device's position, written to memory once per batch.
    PointerWrite,
    /// The device requests a packet.
    PacketRequest,
    /// The packet arrives.
    PacketCompletion,
    /// The driver reads the device's position from the head register.
    HeadRequest,
    /// The reply to that read.
    HeadCompletion,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Doorbell,
        Self::DescriptorRequest,
        Self::DescriptorCompletion,
        Self::PacketWrite,
        Self::WriteBack,
        Self::PointerWrite,
        Self::PacketRequest,
        Self::PacketCompletion,
        Self::HeadRequest,
        Self::HeadCompletion,
    ];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Doorbell => "doorbell",
            Self::DescriptorRequest => "descriptor_request",
            Self::DescriptorCompletion => "descriptor_completion",
            Self::PacketWrite => "packet_write",
            Self::WriteBack => "write_back",
            Self::PointerWrite => "pointer_write",
            Self::PacketRequest => "packet_request",
            Self::PacketCompletion => "packet_completion",
            Self::HeadRequest => "head_request",
            Self::HeadCompletion => "head_completion",
        }
    }

    /// Returns its direction.
    #[must_use]
    pub fn direction(self) -> Direction {
        match self {
            Self::Doorbell
            | Self::DescriptorCompletion
            | Self::PacketCompletion
            | Self::HeadRequest => Direction::Down,
            _ => Direction::Up,
        }
    }
}

/// The work done on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Receiving.
    Receive,
    /// Sending.
    Transmit,
    /// Receiving, and sending through a device on the same bus.
    Forward,
}

/// Batch sizes of a device and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Descriptors per fetch, and packets per doorbell.
    pub descriptors: u64,
    /// Descriptors written back in one transaction.
    pub written_back: u64,
    /// Bytes of a contiguous buffer.
    pub buffer_bytes: u64,
}

impl Default for Batch {
    fn default() -> Self {
        Self { descriptors: 32, written_back: 1, buffer_bytes: 256 << 10 }
    }
}

/// A line of an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Purpose of the transactions.
    pub kind: Kind,
    /// Their cost, for all packets of the batch.
    pub cost: Cost,
}

impl Batch {
    /// Returns the bus traffic for `descriptors` packets of `length` bytes, without kinds that do
    /// not occur.
    #[must_use]
    pub fn entries(&self, bus: &Bus, mode: Mode, work: Work, length: u64) -> Vec<Entry> {
        let mut entries = Vec::new();
        if matches!(work, Work::Receive | Work::Forward) {
            self.receive(bus, mode, length, &mut |kind, cost| entries.push(Entry { kind, cost }));
        }
        if matches!(work, Work::Transmit | Work::Forward) {
            self.transmit(bus, mode, length, &mut |kind, cost| entries.push(Entry { kind, cost }));
        }
        entries
    }

    /// Returns the bytes per packet upstream and downstream.
    #[must_use]
    pub fn bytes_a_packet(&self, bus: &Bus, mode: Mode, work: Work, length: u64) -> (f64, f64) {
        let entries = self.entries(bus, mode, work, length);
        let sum = |direction| {
            let own = entries.iter().filter(|entry| entry.kind.direction() == direction);
            own.map(|entry| entry.cost.bytes()).sum::<u64>() as f64 / self.descriptors as f64
        };
        (sum(Direction::Up), sum(Direction::Down))
    }

    fn receive(&self, bus: &Bus, mode: Mode, length: u64, add: &mut impl FnMut(Kind, Cost)) {
        let packets = self.descriptors;
        let descriptors = match mode {
            // At least one of the few descriptors of large buffers per batch: this overestimates.
            Mode::Contiguous => (packets * stride(length)).div_ceil(self.buffer_bytes),
            Mode::Writeback | Mode::Inline => packets,
        };
        add(Kind::Doorbell, bus.write(REGISTER_BYTES));
        let (asked, came) = bus.read(descriptors * DESCRIPTOR_BYTES);
        add(Kind::DescriptorRequest, asked);
        add(Kind::DescriptorCompletion, came);
        match mode {
            Mode::Writeback => {
                add(Kind::PacketWrite, bus.write(length).times(packets));
                let at_a_time = bus.write(self.written_back * DESCRIPTOR_BYTES);
                add(Kind::WriteBack, at_a_time.times(packets.div_ceil(self.written_back)));
            }
            Mode::Inline => {
                add(Kind::PacketWrite, bus.write(DESCRIPTOR_BYTES + length).times(packets));
            }
            Mode::Contiguous => {
                add(Kind::PacketWrite, bus.write(stride(length) * packets));
                add(Kind::PointerWrite, bus.write(POINTER_BYTES));
            }
        }
    }

    fn transmit(&self, bus: &Bus, mode: Mode, length: u64, add: &mut impl FnMut(Kind, Cost)) {
        let packets = self.descriptors;
        add(Kind::Doorbell, bus.write(REGISTER_BYTES));
        let (asked, came) = bus.read(packets * DESCRIPTOR_BYTES);
        add(Kind::DescriptorRequest, asked);
        add(Kind::DescriptorCompletion, came);
        let (asked, came) = bus.read(length);
        add(Kind::PacketRequest, asked.times(packets));
        add(Kind::PacketCompletion, came.times(packets));
        if mode == Mode::Writeback {
            let at_a_time = bus.write(self.written_back * DESCRIPTOR_BYTES);
            add(Kind::WriteBack, at_a_time.times(packets.div_ceil(self.written_back)));
        } else {
            let (asked, came) = bus.read(REGISTER_BYTES);
            add(Kind::HeadRequest, asked);
            add(Kind::HeadCompletion, came);
        }
    }
}

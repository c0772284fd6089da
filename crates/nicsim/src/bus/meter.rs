//! The bus account of a device that runs: what it has really transferred.

use crate::Mode;
use crate::pcie::{Bus, Cost, DESCRIPTOR_BYTES, Direction, Entry, Kind, PaperRules};

/// What a device has transferred so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusAccount {
    costs: [Cost; Kind::ALL.len()],
    /// Packets received and written to memory.
    pub received: u64,
    /// Packets read from memory and sent.
    pub sent: u64,
    /// Bytes of the received ones as the paper counts; of contiguous ones the mean it would be.
    pub paper_bytes: u64,
}

impl BusAccount {
    /// What there was of each kind.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let kinds = Kind::ALL.into_iter().zip(self.costs);
        kinds.filter(|(_, cost)| cost.tlps > 0).map(|(kind, cost)| Entry { kind, cost })
    }

    /// Bytes that went one way.
    #[must_use]
    pub fn bytes(&self, direction: Direction) -> u64 {
        let own = self.entries().filter(|entry| entry.kind.direction() == direction);
        own.map(|entry| entry.cost.bytes()).sum()
    }

    /// With what another has counted.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (cost, more) in self.costs.iter_mut().zip(other.costs) {
            *cost += more;
        }
        self.received += other.received;
        self.sent += other.sent;
        self.paper_bytes += other.paper_bytes;
        self
    }

    /// Adds a transaction.
    #[inline]
    pub(crate) fn add(&mut self, kind: Kind, cost: Cost) {
        self.costs[kind as usize] += cost;
    }
}

/// What decides the cost of a packet on its way up.
#[derive(Clone, Copy, PartialEq)]
struct Way {
    mode: Mode,
    /// Bytes of the packet.
    length: u64,
    descriptors: u64,
}

/// The account, and what it takes to keep it.
pub(crate) struct Meter {
    pub(crate) bus: Bus,
    rules: PaperRules,
    /// Without the packets that `alike` counts.
    pub(crate) account: BusAccount,
    /// The last packet.
    like: Option<Way>,
    /// How many there were of these.
    alike: u64,
}

impl Meter {
    pub(crate) fn new(bus: Bus) -> Self {
        let rules = PaperRules { max_payload: bus.max_payload, ..PaperRules::default() };
        Self { bus, rules, account: BusAccount::default(), like: None, alike: 0 }
    }

    /// A packet that went up, in its own way. Those like the one before are only counted.
    #[inline]
    pub(crate) fn packet_up(&mut self, mode: Mode, length: usize, descriptors: u64) {
        let like = Way { mode, length: length as u64, descriptors };
        if self.like != Some(like) {
            self.settle();
            self.like = Some(like);
        }
        self.alike += 1;
    }

    /// Brings the account up to date.
    pub(crate) fn settle(&mut self) {
        let count = std::mem::take(&mut self.alike);
        let Some(Way { mode, length, descriptors }) = self.like else { return };
        let account = &mut self.account;
        account.received += count;
        if mode == Mode::Writeback {
            account.add(Kind::PacketWrite, self.bus.write(length).times(count));
            let back = self.bus.write(DESCRIPTOR_BYTES).times(descriptors * count);
            account.add(Kind::WriteBack, back);
            let paper = self.rules.transfer(length);
            let back = self.rules.transfer(DESCRIPTOR_BYTES) * descriptors;
            account.paper_bytes += (paper + back) * count;
        } else {
            let write = self.bus.write(DESCRIPTOR_BYTES + length);
            account.add(Kind::PacketWrite, write.times(count));
            account.paper_bytes += self.rules.transfer(DESCRIPTOR_BYTES + length) * count;
        }
    }

    /// Packets that went up back to back: this many, in this many bytes with their metadata.
    pub(crate) fn run_up(&mut self, packets: u64, bytes: u64) {
        let account = &mut self.account;
        account.received += packets;
        account.add(Kind::PacketWrite, self.bus.write(bytes));
        account.add(Kind::PointerWrite, self.bus.write(8));
        let a_full_one = self.rules.transfer(self.rules.max_payload);
        account.paper_bytes += bytes * a_full_one / self.rules.max_payload;
    }

    /// Descriptors that were asked for, and came.
    pub(crate) fn fetched(&mut self, descriptors: u64) {
        let (asked, came) = self.bus.read(descriptors * DESCRIPTOR_BYTES);
        self.account.add(Kind::DescriptorRequest, asked);
        self.account.add(Kind::DescriptorCompletion, came);
    }

    /// A transmit descriptor that was written back.
    pub(crate) fn written_back(&mut self) {
        self.account.add(Kind::WriteBack, self.bus.write(DESCRIPTOR_BYTES));
    }

    /// Packets that were asked for in one run, with their descs, and came.
    pub(crate) fn run_down(&mut self, packets: u64, bytes: u64) {
        self.account.sent += packets;
        let (asked, came) = self.bus.read(bytes);
        self.account.add(Kind::PacketRequest, asked);
        self.account.add(Kind::PacketCompletion, came);
    }

    /// A packet, or a piece of one, that was asked for, and came.
    #[inline]
    pub(crate) fn piece_down(&mut self, length: usize) {
        let (asked, came) = self.bus.read(length as u64);
        self.account.add(Kind::PacketRequest, asked);
        self.account.add(Kind::PacketCompletion, came);
    }
}

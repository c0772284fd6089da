//! Counts what a running device has transferred over the bus.

use crate::Mode;
use crate::pcie::{Bus, Cost, DESCRIPTOR_BYTES, Direction, Entry, Kind, PaperRules};

/// The transfers of a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusAccount {
    costs: [Cost; Kind::ALL.len()],
    /// Packets received and written to memory.
    pub received: u64,
    /// Packets read from memory and sent.
    pub sent: u64,
    /// Bytes of the received ones as the paper counts them; for contiguous ones, the mean.
    pub paper_bytes: u64,
}

impl BusAccount {
    /// Returns the cost of each kind of transaction.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let kinds = Kind::ALL.into_iter().zip(self.costs);
        kinds.filter(|(_, cost)| cost.tlps > 0).map(|(kind, cost)| Entry { kind, cost })
    }

    /// Returns the bytes in one direction.
    #[must_use]
    pub fn bytes(&self, direction: Direction) -> u64 {
        let own = self.entries().filter(|entry| entry.kind.direction() == direction);
        own.map(|entry| entry.cost.bytes()).sum()
    }

    /// Adds the counts of another account.
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

    #[inline]
    pub(crate) fn add(&mut self, kind: Kind, cost: Cost) {
        self.costs[kind as usize] += cost;
    }
}

/// Everything that determines the cost of a packet on its way up.
#[derive(Clone, Copy, PartialEq)]
struct Way {
    mode: Mode,
    /// Bytes of the packet.
    length: u64,
    descriptors: u64,
}

/// The account, and the state to update it.
pub(crate) struct Meter {
    pub(crate) bus: Bus,
    rules: PaperRules,
    /// The account without the packets that `alike` counts.
    pub(crate) account: BusAccount,
    /// The last packet.
    like: Option<Way>,
    /// Number of packets like it since the last update.
    alike: u64,
}

impl Meter {
    pub(crate) fn new(bus: Bus) -> Self {
        let rules = PaperRules { max_payload: bus.max_payload, ..PaperRules::default() };
        Self { bus, rules, account: BusAccount::default(), like: None, alike: 0 }
    }

    /// Counts a packet written alone. A packet like the previous one only increments a counter.
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

    /// Counts packets written back to back, with their bytes including metadata.
    pub(crate) fn run_up(&mut self, packets: u64, bytes: u64) {
        let account = &mut self.account;
        account.received += packets;
        account.add(Kind::PacketWrite, self.bus.write(bytes));
        account.add(Kind::PointerWrite, self.bus.write(8));
        let a_full_one = self.rules.transfer(self.rules.max_payload);
        account.paper_bytes += bytes * a_full_one / self.rules.max_payload;
    }

    /// Counts a request for descriptors and its completions.
    pub(crate) fn fetched(&mut self, descriptors: u64) {
        let (asked, came) = self.bus.read(descriptors * DESCRIPTOR_BYTES);
        self.account.add(Kind::DescriptorRequest, asked);
        self.account.add(Kind::DescriptorCompletion, came);
    }

    /// Counts a transmit descriptor that was written back.
    pub(crate) fn written_back(&mut self) {
        self.account.add(Kind::WriteBack, self.bus.write(DESCRIPTOR_BYTES));
    }

    /// Counts packets that were requested in one run, with their descs, and their completions.
    pub(crate) fn run_down(&mut self, packets: u64, bytes: u64) {
        self.account.sent += packets;
        let (asked, came) = self.bus.read(bytes);
        self.account.add(Kind::PacketRequest, asked);
        self.account.add(Kind::PacketCompletion, came);
    }

    /// Counts a packet, or a piece of one, that was requested, and its completions.
    #[inline]
    pub(crate) fn piece_down(&mut self, length: usize) {
        let (asked, came) = self.bus.read(length as u64);
        self.account.add(Kind::PacketRequest, asked);
        self.account.add(Kind::PacketCompletion, came);
    }
}

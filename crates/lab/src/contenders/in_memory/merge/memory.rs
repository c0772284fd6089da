//! Ports for our packets in memory, and a sink that checks the order.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{Burst, Desc, Flags, Packet, SCRATCH_PACKETS, Scratch, Strand, Writer};
use burstline_port::{
    Capabilities, Lent, LostPackets, Port, PortAccount, PortError, PortInfo, PortState, Received,
    Sink, Source, TimestampSource,
};

use crate::lines::Line;

/// Returns the info of a port or sink of this name.
fn info(name: String) -> PortInfo {
    let capabilities = Capabilities { can_wait: true, is_finite: true, ..Default::default() };
    PortInfo { name, capabilities, timestamps: TimestampSource::Hardware }
}

/// A port that lends a line's packets in place.
pub(super) struct MemoryPort {
    info: PortInfo,
    line: Option<Line>,
    number: u8,
    next: u64,
    most: u64,
    shared: Shared,
    /// For packets that are put into a log, and their bytes.
    scratch: Option<Scratch>,
    copied_bytes: u64,
}

/// State shared by the ports of a merge.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// The newest time from any port; an idle port will send nothing older.
    now_ns: Arc<AtomicU64>,
    /// Packets lent from all lines.
    lent: Arc<AtomicU64>,
    /// Number of packets of all lines.
    all: u64,
}

impl Shared {
    pub(super) fn of(all: u64) -> Self {
        Self { now_ns: Arc::default(), lent: Arc::default(), all }
    }
}

impl MemoryPort {
    /// Creates port `number`, with `most` packets of its line.
    pub(super) fn new(number: u8, line: Option<Line>, most: u64, shared: Shared) -> Self {
        let info = info(format!("line {number}"));
        Self { info, line, number, next: 0, most, shared, scratch: None, copied_bytes: 0 }
    }
}

impl Port for MemoryPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        let (offered, bytes_copied) = (self.next, self.copied_bytes);
        PortAccount { offered, bytes_copied, ..PortAccount::default() }
    }
}

impl Source for MemoryPort {
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        let Some(line) = &self.line else {
            // Relaxed: these are counts, and no memory access depends on them.
            let is_over = self.shared.lent.load(Relaxed) == self.shared.all;
            let state = if is_over { PortState::Ended } else { PortState::Idle };
            scratch.clear();
            return Ok(Lent::new(scratch.burst(&[], 0), state));
        };
        let count = budget.min(SCRATCH_PACKETS as u64).min(self.most - self.next);
        let bytes = line.shape().bytes;
        let (first, port) = (self.next, self.number);
        let base_ns = line.place(first).1;
        let fill = |descs: &mut [Desc]| {
            for (number, desc) in (first..).zip(descs.iter_mut().rev()) {
                let (place, time_ns) = line.place(number);
                let delta_ns = (time_ns - base_ns) as u32; // covers some thousand packets
                *desc = Desc::new(place as u32, bytes, port, Flags::NONE).with(0, delta_ns);
            }
            true
        };
        let newest_ns = match count {
            0 => 0,
            _ => line.place(first + count - 1).1,
        };
        scratch.describe(count as usize, base_ns, fill);
        self.next += count;
        self.shared.lent.fetch_add(count, Relaxed); // as above
        self.shared.now_ns.fetch_max(newest_ns, Relaxed);
        let state = if self.next == self.most { PortState::Ended } else { PortState::Busy };
        Ok(Lent::new(scratch.burst(line.bytes(), 0), state))
    }

    /// Copies packets that lie back to back as one block, as a driver of a card does.
    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let lent = self.lend(&mut scratch, budget)?;
        let (lent_packets, mut state) = (lent.burst.len(), lent.state);
        let strand = Strand::new(&lent.burst, 0, lent_packets, 0);
        let mut strand = strand.expect("the lines' packets are plain and in order");
        let packets = writer.gather_run(&mut strand, lent_packets);
        let (bytes, left) = (strand.taken_bytes(), strand.left() as u64);
        if left > 0 {
            state = PortState::Blocked;
        }
        self.copied_bytes += bytes;
        self.next -= left; // lent again next time
        self.shared.lent.fetch_sub(left, Relaxed); // as in `lend`
        self.scratch = Some(scratch);
        Ok(Received { packets: packets as u64, state })
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(self.line.as_ref().map_or(&[], Line::bytes), 0))
    }

    fn low_time_ns(&self) -> Option<u64> {
        Some(self.shared.now_ns.load(Relaxed)) // as in `lend`
    }
}

/// A sink that counts packets out of order: their place is before that of an earlier one.
pub(super) struct OrderSink {
    info: PortInfo,
    /// The place of a packet, if it has one.
    place: fn(&Packet<'_>) -> Option<u64>,
    newest: u64,
    packets: u64,
    violations: Arc<AtomicU64>,
}

impl OrderSink {
    pub(super) fn new(place: fn(&Packet<'_>) -> Option<u64>, violations: Arc<AtomicU64>) -> Self {
        Self { info: info("order".to_owned()), place, newest: 0, packets: 0, violations }
    }
}

impl Port for OrderSink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.packets, ..PortAccount::default() }
    }
}

impl Sink for OrderSink {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        for packet in burst.packets() {
            let Some(place) = (self.place)(&packet) else { continue };
            self.violations.fetch_add((place < self.newest).into(), Relaxed); // read at the end
            self.newest = self.newest.max(place);
        }
        self.packets += burst.len() as u64;
        Ok(burst.len() as u64)
    }

    fn lost(&self) -> LostPackets {
        LostPackets::default()
    }
}

//! Copying packets into the log in the order that was found.

use burstline_log::{Appended, Burst, Flags, Meta, Writer};

use crate::merge::order::{Lane, Pick};

/// What was copied of one input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) copied: u64,
    /// Packets that no segment could hold whole, and that were so before.
    pub(super) cut: u64,
    pub(super) late: u64,
    pub(super) late_most_ns: u64,
}

/// All that has gone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    pub(super) packets: u64,
    /// The greatest time of them.
    pub(super) newest_ns: u64,
}

impl Sequence {
    /// Copies the packets of `order` until the log is full, and returns how many. Each input that
    /// is in the order has a view.
    ///
    /// Cost: one copy, a desc, and some ten instructions a packet.
    pub(super) fn copy(
        &mut self,
        order: &[Pick],
        lanes: &[Lane],
        views: &[Option<Burst<'_>>],
        counts: &mut [Counts],
        writer: &mut Writer,
    ) -> usize {
        let mut newest_ns = self.newest_ns;
        let mut copied = 0;
        for pick in order {
            let (input, index) = (pick.input(), pick.index());
            let Some(view) = &views[input] else { break };
            let time_ns = lanes[input].time_ns(index);
            let counts = &mut counts[input];
            match append(view, index, time_ns, writer) {
                Appended::Whole => {}
                Appended::Truncated => counts.cut += 1,
                Appended::Full => break,
            }
            counts.copied += 1;
            copied += 1;
            if time_ns < newest_ns {
                counts.note_late(newest_ns - time_ns);
            }
            newest_ns = newest_ns.max(time_ns);
        }
        self.newest_ns = newest_ns;
        self.packets += copied as u64;
        copied
    }
}

impl Counts {
    #[cold]
    fn note_late(&mut self, by_ns: u64) {
        self.late += 1;
        self.late_most_ns = self.late_most_ns.max(by_ns);
    }
}

/// Appends packet `index` of a burst, with the time that it has here.
#[inline(always)]
fn append(view: &Burst<'_>, index: usize, time_ns: u64, writer: &mut Writer) -> Appended {
    let Some(packet) = view.plain_packet(index) else {
        return append_with_facts(view, index, time_ns, writer);
    };
    let desc = packet.desc;
    let mut meta = Meta::new(time_ns, desc.length(), desc.port());
    (meta.hash, meta.flags) = (desc.hash(), desc.flags());
    writer.append(packet.bytes, &meta)
}

#[cold]
#[inline(never)]
fn append_with_facts(
    view: &Burst<'_>,
    index: usize,
    time_ns: u64,
    writer: &mut Writer,
) -> Appended {
    let packet = view.packet(index);
    let desc = packet.desc();
    let meta = Meta {
        time_ns,
        drops_before: packet.drops_before(),
        original_length: packet.original_length() as u32,
        hash: desc.hash(),
        port: desc.port(),
        flags: desc.flags().without(Flags::FACTS),
    };
    let appended = writer.append(packet.bytes(), &meta);
    // One that was cut before is counted already.
    let was_whole = packet.length() == packet.original_length();
    if appended == Appended::Truncated && !was_whole { Appended::Whole } else { appended }
}

//! Makes bursts of packets of several logs, in any order, and moves no packet.
//!
//! ```text
//! region     | log 0: segments | log 1: segments | ...           one mapping
//!               ^     ^             ^
//! worklist   | desc of 0 | desc of 1 | desc of 0 | ...           copied; offsets from its start
//! ```
//!
//! The logs were [made together](crate::Log::create_together), so their offsets can count from one
//! address. Only descs are copied, as for a [part](crate::Log::part) of a log. A reader of each log
//! pins the segments while the burst lives.
//!
//! Invariant V1: descs of a burst in the region were written by a writer of this crate. No other
//! process gets the memory of such logs. So each desc points into its burst.

use std::fmt;
use std::sync::Arc;

use burstline_sys::memory::Region;

use crate::burst::{Burst, FactsAt, Place};
use crate::desc::{Desc, Flags};
use crate::log::{Held, Log};

/// The most packets of a woven burst: 16 KiB of descs.
pub const WOVEN_PACKETS: usize = 1024;

/// How far before its first packet the base time of a burst is, in ns: a later packet may be older.
const BACK_NS: u64 = 1 << 30;

/// Makes bursts of packets of logs that were made together.
pub struct Weave {
    region: Arc<Region>,
    /// Filled from the end to the start, as in a segment.
    worklist: Box<[Desc; WOVEN_PACKETS]>,
    /// Packets of all bursts so far.
    packets: u64,
}

/// Packets of one log that are to go into woven bursts.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeavePart<'a> {
    /// The descs of the packets that are left, the next one's last.
    left: &'a [Desc],
    start: usize,
    bytes: usize,
    base_time_ns: u64,
    /// Where the burst begins in the region, in bytes.
    offset: usize,
}

impl<'a> WeavePart<'a> {
    /// Takes all packets of a burst that a reader has lent.
    ///
    /// # Panics
    /// If it is a burst of another kind.
    pub fn new(burst: &Burst<'a>) -> Self {
        assert!(burst.is_of_log(), "a burst that no log has lent");
        Self {
            left: burst.worklist(),
            start: burst.start().as_ptr().addr(),
            bytes: burst.extent(),
            base_time_ns: burst.base_time_ns(),
            offset: 0,
        }
    }

    /// Returns the number of packets that are left.
    pub fn left(&self) -> usize {
        self.left.len()
    }
}

impl Weave {
    /// `log` is one of the logs made together.
    pub fn new(log: &Log) -> Self {
        let Held::Own { packets, .. } = &log.shared.memory.held else {
            unreachable!("a publisher owns its memory");
        };
        let worklist = Box::new([Desc::default(); WOVEN_PACKETS]);
        Self { region: Arc::clone(packets), worklist, packets: 0 }
    }

    /// Lends a burst of the next packets. Each of `keys` is the index in `parts` of the part whose
    /// packet comes next. The burst ends before the first key whose part has no packet left. It
    /// also ends at [`WOVEN_PACKETS`], and where times are seconds apart. It has at least one
    /// packet if the first key's part has one. Its numbers count woven packets from 0.
    ///
    /// Cost: some fifteen instructions a packet.
    ///
    /// # Panics
    /// If a part is not in the memory of these logs.
    pub fn weave<'a, 'p: 'a>(&'a mut self, parts: &mut [WeavePart<'p>], keys: &[u8]) -> Burst<'a> {
        let (region, bytes) = (self.region.as_ptr(), self.region.bytes());
        for part in parts.iter_mut().filter(|part| !part.left.is_empty()) {
            let offset = part.start.checked_sub(region.as_ptr().addr());
            let offset = offset.filter(|offset| offset + part.bytes <= bytes);
            part.offset = offset.expect("the parts are of logs made together");
        }
        let (mut len, mut base_ns) = (0, None);
        for &key in keys.iter().take(WOVEN_PACKETS) {
            let Some(part) = parts.get_mut(usize::from(key)) else { break };
            let Some((desc, left)) = part.left.split_last() else { break };
            let mut delta_ns = 0;
            if !desc.flags().contains(Flags::FACTS) {
                let time_ns = part.base_time_ns.wrapping_add(desc.time_delta_ns().into());
                let base_ns = *base_ns.get_or_insert(time_ns.saturating_sub(BACK_NS));
                let Ok(later_ns) = u32::try_from(time_ns.wrapping_sub(base_ns)) else { break };
                delta_ns = later_ns;
            }
            part.left = left;
            len += 1;
            let woven = desc.moved(part.offset, 0).with(desc.hash(), delta_ns);
            self.worklist[WOVEN_PACKETS - len] = woven;
        }
        let first_packet = self.packets;
        self.packets += len as u64;
        let worklist = &self.worklist[WOVEN_PACKETS - len..];
        // SAFETY: the region is mapped while `self` is borrowed. Each desc is that of a part, moved
        // by the part's place in the region, so it points to the same bytes and facts. They are in
        // the part's burst (V1). That is lent for longer than `'a`, so nobody writes them (L1). No
        // packet is said to be plain.
        unsafe {
            let place = Place::held(region, bytes);
            Burst::new(place, worklist, base_ns.unwrap_or(0), first_packet, FactsAt::Woven)
        }
    }
}

impl fmt::Debug for Weave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weave").field("packets", &self.packets).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Appended, AttachError, LogConfig, Meta, Reader, ReaderConfig, Scratch, Writer};

    const SECOND_NS: u64 = 1_000_000_000;

    fn logs(count: usize) -> (Weave, Vec<Writer>, Vec<Reader>) {
        let made = Log::create_together(&LogConfig::small(8), count).unwrap();
        let weave = Weave::new(&made[0].0);
        let attach = |(log, writer): (Log, Writer)| {
            let refused = log.attach_remote(ReaderConfig::default());
            assert!(matches!(refused, Err(AttachError::Together)));
            (writer, log.attach(ReaderConfig::default()).unwrap())
        };
        let (writers, readers) = made.into_iter().map(attach).unzip();
        (weave, writers, readers)
    }

    /// Appends packet `number`, filled with it, and publishes it.
    fn append(writer: &mut Writer, number: u8, meta: Meta) {
        assert_eq!(writer.append(&[number; 60], &meta), Appended::Whole);
        writer.publish();
    }

    fn parts(readers: &mut [Reader]) -> Vec<WeavePart<'_>> {
        readers.iter_mut().map(|reader| WeavePart::new(&reader.next_burst().unwrap())).collect()
    }

    #[test]
    fn packets_of_several_logs_are_one_burst_in_any_order() {
        let (mut weave, mut writers, mut readers) = logs(3);
        for number in 0..9_u8 {
            let meta = Meta::new(SECOND_NS + u64::from(number), 60, number % 3);
            let drops_before = u64::from(number == 4); // this one has facts
            append(&mut writers[usize::from(number % 3)], number, Meta { drops_before, ..meta });
        }
        let mut parts = parts(&mut readers);
        let keys = [0, 1, 2, 1, 0, 2, 1, 1, 0];
        let burst = weave.weave(&mut parts, &keys);
        let numbers: Vec<_> = burst.packets().map(|packet| packet.bytes()[0]).collect();
        assert_eq!(numbers, [0, 1, 2, 4, 3, 5, 7], "the second log has only three packets");
        for packet in burst.packets() {
            let number = packet.bytes()[0];
            assert_eq!(packet.bytes(), [number; 60]);
            assert_eq!(packet.time_ns(), SECOND_NS + u64::from(number));
            assert_eq!(packet.port(), number % 3);
            assert_eq!(packet.drops_before(), u64::from(number == 4));
        }
        let left: Vec<_> = parts.iter().map(WeavePart::left).collect();
        assert_eq!(left, [1, 0, 1]);
    }

    #[test]
    fn times_that_are_far_apart_are_in_two_bursts() {
        let (mut weave, mut writers, mut readers) = logs(2);
        append(&mut writers[0], 1, Meta::new(9 * SECOND_NS, 60, 0));
        append(&mut writers[1], 2, Meta::new(2 * SECOND_NS, 60, 1));
        let mut parts = parts(&mut readers);
        for (time_ns, keys) in [(9 * SECOND_NS, &[0, 1][..]), (2 * SECOND_NS, &[1])] {
            let burst = weave.weave(&mut parts, keys);
            assert_eq!((burst.len(), burst.packet(0).time_ns()), (1, time_ns));
        }
    }

    #[test]
    fn what_was_selected_of_a_woven_burst_is_not_lent_again() {
        let (mut weave, mut writers, mut readers) = logs(1);
        append(&mut writers[0], 1, Meta::new(7, 60, 0));
        let mut parts = parts(&mut readers);
        let burst = weave.weave(&mut parts, &[0]);
        let mut scratch = Scratch::new();
        assert_eq!(scratch.select(&burst, 0, |packet| Some((60, packet.meta()))).len(), 1);
        assert_eq!(scratch.selected(&burst).len(), 0, "the writer may write beside it");
    }

    #[test]
    #[should_panic(expected = "logs made together")]
    fn a_part_of_another_log_is_refused() {
        let (mut weave, _writers, _readers) = logs(1);
        let (_other, mut writers, mut readers) = logs(1);
        append(&mut writers[0], 1, Meta::new(7, 60, 0));
        weave.weave(&mut parts(&mut readers), &[0]);
    }
}

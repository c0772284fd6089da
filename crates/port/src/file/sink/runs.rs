//! Runs of plain packets: a batch is gathered, hashed and written as a whole.
//!
//! ```text
//! burst | plain ... | other port, or not plain        batch: bytes, time --hash--> blocks, entries
//!       '--- batch, batch, ... until one stops ---'
//! ```

use burstline_log::{Burst, Desc, Flags};
use burstline_wire::files::{PlainItem, PlainRun};

use super::{Body, Described, FileSink};
use crate::Tally;

/// Packets of a batch.
const BATCH: usize = 32;

impl FileSink {
    /// Writes the packets at the start of a burst into the file, if there are at least two. Stops
    /// at one that is not plain, belongs to another interface or may not fit. Returns how many it
    /// wrote.
    #[inline]
    pub(super) fn put_plain(&mut self, burst: &Burst<'_>) -> usize {
        let mut ahead = burst.packets().map(|packet| packet.desc());
        let Some(first) = ahead.next() else { return 0 };
        let port = first.port();
        let Described::As(interface) = self.described[usize::from(port)] else { return 0 };
        if self.gaps[usize::from(port)] > 0 {
            return 0;
        }
        let is_plain = |desc: &Desc| {
            let flags = desc.flags();
            desc.port() == port && !flags.contains(Flags::OUTGOING) && !flags.contains(Flags::FACTS)
        };
        // One packet is not worth a batch. Bursts in which ports alternate, or all packets are
        // truncated, would have only such batches.
        if !is_plain(&first) || ahead.next().is_none_or(|second| !is_plain(&second)) {
            return 0;
        }
        let mut plain = burst.plain_packets().take_while(|packet| is_plain(&packet.desc));
        let mut items = [PlainItem { bytes: &[], time_ns: 0, hash: 0 }; BATCH];
        let (mut packets, mut bytes) = (0, 0);
        loop {
            let mut gathered = 0;
            for (item, one) in items.iter_mut().zip(&mut plain) {
                *item = PlainItem { bytes: one.bytes, time_ns: one.time_ns, hash: one.desc.hash() };
                gathered += 1;
            }
            if let (Body::Segmented(_), Some(hasher)) = (&self.body, &mut self.hasher) {
                let mut hashes = [0; BATCH];
                let all = items[..gathered].iter().map(|item| item.bytes);
                hasher.hash_all(self.link, all, &mut hashes);
                items[..gathered].iter_mut().zip(hashes).for_each(|(item, hash)| item.hash = hash);
            }
            let run = match &mut self.body {
                Body::Segmented(body) => body.plain_packets(interface, &items[..gathered]),
                Body::Plain(body) => body.plain_packets(interface, &items[..gathered]),
                _ => PlainRun::default(),
            };
            self.latest_ns = self.latest_ns.max(run.latest_ns);
            packets += run.packets;
            bytes += run.bytes;
            if run.packets < BATCH {
                break;
            }
        }
        self.accepted += packets as u64;
        self.interfaces[interface as usize].tally.add(&Tally::whole(packets as u64, bytes));
        self.account.bytes_copied += bytes;
        packets
    }
}

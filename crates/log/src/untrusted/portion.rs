//! Takes and puts back packets, and forwards queries, like a [`Reader`](crate::Reader).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{TORN_TRIES, UntrustedReader};
use crate::burst::Burst;
use crate::control::Ending;

impl UntrustedReader {
    /// Like [`Reader::take_up_to`](crate::Reader::take_up_to). Only packets that are taken are
    /// copied; for a part of a log, also the packets between them.
    pub fn take_up_to(&mut self, most: u64) -> u64 {
        let buckets = self.reader.part.as_ref().map(|part| part.buckets);
        for _ in 0..TORN_TRIES {
            let found = match buckets {
                Some(_) if most == 0 => None,
                Some(_) => self.reader.advance(),
                None => self.reader.find_up_to(most),
            };
            let Some(found) = found else { return 0 };
            if self.copy.take(&self.reader.memory, &found).is_none() {
                self.reader.tear(&found);
                continue;
            }
            let Some(buckets) = buckets else { return u64::from(found.to - found.from) };
            let next = self.reader.part.as_ref().map_or(0, |part| part.next());
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let (own, behind) = self.copy.pick(buckets, next, most);
            self.reader.pass_part(&found, found.to - behind, own);
            if own > 0 {
                return own.into();
            }
        }
        0
    }

    /// Like [`Reader::taken`](crate::Reader::taken): lends the copy.
    pub fn taken(&self) -> Option<Burst<'_>> {
        let last = self.reader.last as usize;
        let burst = (last > 0).then(|| self.copy.burst())?;
        Some(burst.split_at(last.min(burst.len())).0)
    }

    /// Like [`Reader::put_back`](crate::Reader::put_back).
    pub fn put_back(&mut self, packets: u64) {
        let last = self.reader.last;
        if self.reader.part.is_none() || packets == 0 || packets > last.into() {
            return self.reader.put_back(packets);
        }
        // The positions come from the copy; the writer's memory may have changed.
        let all = self.copy.newer.get(packets as usize - 1).copied().unwrap_or(0);
        self.reader.return_part(packets as u32, all);
        self.copy.newer.drain(..packets as usize);
        self.copy.newer.iter_mut().for_each(|newer| *newer -= all);
    }

    /// Like [`Reader::offered`](crate::Reader::offered), according to the writer.
    pub fn offered(&self) -> u64 {
        self.reader.offered()
    }

    /// Like [`Reader::ending`](crate::Reader::ending), according to the writer.
    pub fn ending(&self) -> Option<Ending> {
        self.reader.ending()
    }

    /// Like [`Reader::clock_kind`](crate::Reader::clock_kind).
    pub fn clock_kind(&self) -> u32 {
        self.reader.clock_kind()
    }

    /// Like [`Reader::port_name`](crate::Reader::port_name).
    pub fn port_name(&self, port: u8) -> Option<(u32, String)> {
        self.reader.port_name(port)
    }

    /// Like [`Reader::tie_to`](crate::Reader::tie_to).
    pub fn tie_to(&self, socket: Arc<OwnedFd>) {
        self.reader.tie_to(socket);
    }
}

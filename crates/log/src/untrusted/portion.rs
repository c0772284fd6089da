//! As for a reader that trusts its writer: taking a number of packets, and what else is known.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{TORN_TRIES, UntrustedReader};
use crate::burst::Burst;
use crate::control::Ending;

impl UntrustedReader {
    /// As [`Reader::take_up_to`](crate::Reader::take_up_to). Only what is taken is copied.
    pub fn take_up_to(&mut self, most: u64) -> u64 {
        for _ in 0..TORN_TRIES {
            let Some(found) = self.reader.find_up_to(most) else { return 0 };
            if self.copy.take(&self.reader.memory, &found).is_some() {
                return u64::from(found.to - found.from);
            }
            self.reader.tear(&found);
        }
        0
    }

    /// As [`Reader::taken`](crate::Reader::taken): the copy.
    pub fn taken(&self) -> Option<Burst<'_>> {
        let last = self.reader.last as usize;
        let burst = (last > 0).then(|| self.copy.burst())?;
        Some(burst.split_at(last.min(burst.len())).0)
    }

    /// As [`Reader::put_back`](crate::Reader::put_back).
    pub fn put_back(&mut self, packets: u64) {
        self.reader.put_back(packets);
    }

    /// As [`Reader::offered`](crate::Reader::offered): by the word of the writer.
    pub fn offered(&self) -> u64 {
        self.reader.offered()
    }

    /// As [`Reader::ending`](crate::Reader::ending): by the word of the writer.
    pub fn ending(&self) -> Option<Ending> {
        self.reader.ending()
    }

    /// As [`Reader::clock_kind`](crate::Reader::clock_kind).
    pub fn clock_kind(&self) -> u32 {
        self.reader.clock_kind()
    }

    /// As [`Reader::port_name`](crate::Reader::port_name).
    pub fn port_name(&self, port: u8) -> Option<(u32, String)> {
        self.reader.port_name(port)
    }

    /// As [`Reader::tie_to`](crate::Reader::tie_to).
    pub fn tie_to(&self, socket: Arc<OwnedFd>) {
        self.reader.tie_to(socket);
    }
}

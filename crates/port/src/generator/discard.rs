//! A sink that discards every packet.

use burstline_log::Burst;

use crate::{
    Address, Capabilities, LostPackets, Port, PortAccount, PortError, PortInfo, Sink,
    TimestampSource,
};

/// Counts packets and discards them.
pub(super) struct Discard {
    info: PortInfo,
    offered: u64,
}

impl Discard {
    pub(super) fn new(address: &Address) -> Self {
        let capabilities = Capabilities::default();
        let (name, timestamps) = (address.to_string(), TimestampSource::Synthetic);
        Self { info: PortInfo { name, capabilities, timestamps }, offered: 0 }
    }
}

impl Port for Discard {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.offered, ..PortAccount::default() }
    }
}

impl Sink for Discard {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        self.offered += burst.len() as u64;
        Ok(burst.len() as u64)
    }

    fn lost(&self) -> LostPackets {
        LostPackets::default()
    }
}

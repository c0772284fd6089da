//! Contenders on interfaces: their packets arrive by a cable.

pub(crate) mod captures;
pub(crate) mod duplex;
pub(crate) mod generators;
pub(crate) mod latency;
pub(crate) mod live;
pub(crate) mod sensors;
pub(crate) mod socket;
pub(crate) mod switches;
pub(crate) mod testpmd;

//! The bus between card and memory: its addresses and its traffic.

pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod trace;

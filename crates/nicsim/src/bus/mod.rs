//! The bus between card and memory: its addresses, and what has crossed it.

pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod trace;

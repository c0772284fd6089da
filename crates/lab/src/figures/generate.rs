//! Making packets: in memory, on one core.

mod log;

pub(super) use log::{fixed, varied};

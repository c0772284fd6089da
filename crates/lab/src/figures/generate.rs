//! Making packets: in memory, on one core; and when they are due.

mod log;
mod pacing;

pub(super) use log::{fixed, varied};
pub(super) use pacing::{measure as pacing, measure_xdp as pacing_xdp};

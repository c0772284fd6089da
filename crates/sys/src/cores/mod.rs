//! The cores of this machine, and how threads run on them.

pub mod affinity;
pub mod barrier;
pub mod caches;
pub mod distance;
pub mod prefetch;
pub mod scheduling;
mod set;
pub mod topology;

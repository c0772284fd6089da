//! The process: its signals, its rights, and the service that started it.

pub(crate) mod confinement;
pub(crate) mod signals;
pub(crate) mod supervised;
pub(crate) mod wall_clock;

//! The process: its signals, its privileges, its reader, and the service that started it.

pub(crate) mod confinement;
pub(crate) mod reader;
pub(crate) mod signals;
pub(crate) mod supervised;
pub(crate) mod wall_clock;

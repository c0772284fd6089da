//! The process: its signals, privileges and panics, its reader, and the service that started it.

pub(crate) mod confinement;
pub(crate) mod heard;
pub(crate) mod panics;
pub(crate) mod reader;
pub(crate) mod signals;
pub(crate) mod supervised;
pub(crate) mod wall_clock;

//! The environment abstraction layer (EAL): started once per process, with its drivers and its log.

pub(crate) mod drivers;
pub(crate) mod eal;
pub(crate) mod log_text;
pub(crate) mod thread;

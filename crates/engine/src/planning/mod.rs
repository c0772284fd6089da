//! Plans a job before it runs: the shape of its log, and the placement of threads and memory.

pub(crate) mod log_request;
pub(crate) mod placement;
pub(crate) mod rehearsal;
